/* SPDX-License-Identifier: MIT
 *
 * Indexes regexes by a piece of literal text (a gram), and runs those whose gram is in a URI.
 *
 * Invariant: a regex is in exactly one list, that of its gram or the unindexed one; a gram exists
 * while its list is not empty. `popularity` is a small table of counters that several grams may
 * share: a wrong count makes the choice of a gram worse, but never incorrect.
 */
#include "engine/match/match_regex.h"

#include <limits.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/match/match_tree.h"
#include "formats/pattern.h"

#define POPULARITY_SLOTS 16384u

void match_regexes_init(struct match_regexes *r)
{
    *r = (struct match_regexes){0};
    match_table_init(&r->sources, MATCH_TABLE_DENSE);
    match_table_init(&r->grams, MATCH_TABLE_SPARSE);
}

void match_regexes_deinit(struct match_regexes *r)
{
    match_table_deinit(&r->sources);
    match_table_deinit(&r->grams);
}

/* Searches without a table before a table pays off. */
#define TABLE_AFTER 2u

/* The counters exist as long as there is a regex. */
static int open_shared(struct match_regexes *r, struct tidings_error *err)
{
    if (!r->popularity) {
        r->popularity = mem_zalloc(POPULARITY_SLOTS * sizeof(*r->popularity));
        if (!r->popularity) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
        }
    }
    return 0;
}

static void close_shared(struct match_regexes *r)
{
    if (r->sources.count == 0) {
        mem_free(r->popularity);
        r->popularity = NULL;
    }
}

static struct tidings_str source_of(const struct match_regex *x)
{
    return tidings_strn((const char *)(x + 1), x->entry.item.len);
}

/* ---- grams ----------------------------------------------------------------------------------- */

static inline uint32_t gram_key(struct match_seed seed, uint64_t bytes, size_t len)
{
    uint64_t h = match_fold(bytes ^ seed.start ^ len, seed.multiplier);
    return (uint32_t)(h ^ h >> 32);
}

static inline uint64_t gram_bytes(const char *p, size_t len)
{
    return len == 8 ? match_load8(p) : match_load4(p);
}

/* Called for each gram of `len` bytes in the literals. */
typedef void (*gram_fn)(struct match_regexes *r, uint32_t key, uint64_t bytes, void *user);

static void each_gram(struct match_regexes *r, struct match_seed seed, struct tidings_str literals,
                      size_t len, gram_fn fn, void *user)
{
    while (literals.len > 0) {
        struct tidings_str run = str_cut(literals, '\0', &literals, NULL);
        for (size_t i = 0; i + len <= run.len; i++) {
            uint64_t bytes = gram_bytes(run.ptr + i, len);
            fn(r, gram_key(seed, bytes, len), bytes, user);
        }
    }
}

static void count_gram(struct match_regexes *r, uint32_t key, uint64_t bytes, void *user)
{
    (void)bytes;
    uint16_t *slot = &r->popularity[key % POPULARITY_SLOTS];
    bool is_added = *(const bool *)user;
    if (is_added && *slot < UINT16_MAX) {
        ++*slot;
    } else if (!is_added && *slot > 0) {
        --*slot;
    }
}

struct choice {
    uint64_t bytes;
    uint32_t key;
    unsigned popularity; /* UINT_MAX: none yet */
};

/* Among equals the last, because the ends of strings differ most. */
static void choose_gram(struct match_regexes *r, uint32_t key, uint64_t bytes, void *user)
{
    struct choice *best = user;
    unsigned popularity = r->popularity[key % POPULARITY_SLOTS];
    if (popularity <= best->popularity) {
        *best = (struct choice){bytes, key, popularity};
    }
}

/* Gram length for these literals: 8, 4 or 0. */
static size_t gram_length(struct tidings_str literals)
{
    size_t longest = 0;
    while (literals.len > 0) {
        size_t len = str_cut(literals, '\0', &literals, NULL).len;
        longest = len > longest ? len : longest;
    }
    return longest >= 8 ? 8 : longest >= 4 ? 4 : 0;
}

/* Returns the gram, or NULL. */
static struct match_gram *find_gram(const struct match_regexes *r, uint32_t key, uint64_t bytes,
                                    size_t len)
{
    struct match_cursor at = match_table_seek(&r->grams, key);
    struct match_gram *g;
    do {
        g = (struct match_gram *)match_table_next(&at);
    } while (g && (g->bytes != bytes || g->item.detail != len));
    return g;
}

static struct match_gram *make_gram(struct match_regexes *r, uint32_t key, uint64_t bytes,
                                    size_t len)
{
    struct match_gram *g = mem_zalloc(sizeof(*g));
    if (!g) {
        return NULL;
    }
    g->item = (struct match_item){.hash = key, .kind = ITEM_GRAM, .detail = (uint8_t)len};
    g->bytes = bytes;
    if (match_table_add(&r->grams, &g->item) < 0) {
        mem_free(g);
        return NULL;
    }
    r->gram8_count += len == 8;
    r->gram4_count += len == 4;
    r->bytes += sizeof(*g);
    return g;
}

static void link_to(struct match_regex **list, struct match_regex *x)
{
    x->next = *list;
    x->link = list;
    if (x->next) {
        x->next->link = &x->next;
    }
    *list = x;
}

/* Removes it from its list, and the gram with its last regex. */
static void match_regex_unfile(struct match_regexes *r, struct match_regex *x)
{
    *x->link = x->next;
    if (x->next) {
        x->next->link = x->link;
    }
    x->link = NULL;
    if (!x->gram) {
        r->unindexed_count--;
    } else if (!x->gram->first) {
        r->gram8_count -= x->gram->item.detail == 8;
        r->gram4_count -= x->gram->item.detail == 4;
        r->bytes -= sizeof(*x->gram);
        match_table_remove(&r->grams, &x->gram->item);
        mem_free(x->gram);
    }
    x->gram = NULL;
}

static int match_regex_file(struct match_regexes *r, struct match_seed seed, struct match_regex *x,
                            struct tidings_error *err)
{
    char literals[2 * REGEX_MAX_BYTES];
    struct tidings_str all = tidings_strn(literals, regex_literals(source_of(x), literals));
    size_t len = gram_length(all);
    if (len == 0) {
        if (r->unindexed_count == MATCH_MAX_UNINDEXED_REGEXES) {
            return tidings_fail(err, TIDINGS_E_LIMIT,
                                "regex refused: %u others have no literal text of 4 bytes or more "
                                "either, which is all that are accepted",
                                MATCH_MAX_UNINDEXED_REGEXES);
        }
        link_to(&r->unindexed, x);
        r->unindexed_count++;
        return 0;
    }
    struct choice best = {.popularity = UINT_MAX};
    each_gram(r, seed, all, len, choose_gram, &best);
    struct match_gram *g = find_gram(r, best.key, best.bytes, len);
    if (!g && !(g = make_gram(r, best.key, best.bytes, len))) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
    }
    x->gram = g;
    link_to(&g->first, x);
    bool is_added = true;
    each_gram(r, seed, all, len, count_gram, &is_added);
    return 0;
}

/* ---- adding and removing --------------------------------------------------------------------- */

static struct match_regex *find_source(const struct match_regexes *r, uint32_t key,
                                       struct tidings_str source)
{
    struct match_cursor at = match_table_seek(&r->sources, key);
    struct match_regex *x;
    do {
        x = (struct match_regex *)match_table_next(&at);
    } while (x && !str_eq(source_of(x), source));
    return x;
}

/* Returns NULL with the reason in *ret_code. */
static struct match_regex *make_regex(struct tidings_str source, uint64_t *cost, int *ret_code,
                                      struct tidings_error *err)
{
    struct match_regex *x = mem_alloc(sizeof(*x) + source.len);
    if (!x) {
        *ret_code = tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
        return NULL;
    }
    *x = (struct match_regex){0};
    *ret_code = regex_create_counted(source, REGEX_BYTES, REGEX_MAX_BYTES, cost, &x->regex, err);
    if (*ret_code < 0) {
        mem_free(x);
        return NULL;
    }
    x->entry.item.kind = ITEM_REGEX;
    x->entry.item.len = (uint16_t)source.len;
    if (source.len > 0) {
        memcpy(x + 1, source.ptr, source.len);
    }
    return x;
}

static size_t held_bytes(const struct match_regex *x)
{
    return sizeof(*x) + x->entry.item.len + regex_bytes(x->regex) + regex_table_bytes(x->table);
}

static void free_regex(struct match_regexes *r, struct match_regex *x)
{
    r->bytes -= held_bytes(x);
    regex_table_destroy(x->table);
    regex_destroy(x->regex);
    mem_free(x);
}

int match_regexes_add(struct match_regexes *r, struct match_seed seed, struct tidings_str source,
                      struct match_entry **ret, struct tidings_error *err)
{
    if (source.len > REGEX_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "regex of %zu bytes refused: at most %u accepted",
                            source.len, REGEX_MAX_BYTES);
    }
    uint32_t key = match_key(seed, NULL, ITEM_REGEX, match_hash(seed, source.ptr, source.len));
    struct match_regex *x = find_source(r, key, source);
    if (x) {
        *ret = &x->entry;
        return 0;
    }
    int rc = open_shared(r, err);
    x = rc == 0 ? make_regex(source, &r->compiled, &rc, err) : NULL;
    if (!x) {
        close_shared(r);
        return rc;
    }
    x->entry.item.hash = key;
    r->bytes += held_bytes(x);
    rc = match_table_add(&r->sources, &x->entry.item);
    if (rc < 0) {
        tidings_fail(err, rc, "regex: out of memory");
        goto fail_table;
    }
    rc = match_regex_file(r, seed, x, err);
    if (rc < 0) {
        goto fail_filing;
    }
    *ret = &x->entry;
    return 0;

fail_filing:
    match_table_remove(&r->sources, &x->entry.item);
fail_table:
    free_regex(r, x);
    close_shared(r);
    return rc;
}

void match_regexes_remove(struct match_regexes *r, struct match_seed seed,
                          struct match_entry *entry)
{
    struct match_regex *x = (struct match_regex *)entry;
    char literals[2 * REGEX_MAX_BYTES];
    struct tidings_str all = tidings_strn(literals, regex_literals(source_of(x), literals));
    size_t len = gram_length(all);
    bool is_added = false;
    if (len > 0) {
        each_gram(r, seed, all, len, count_gram, &is_added);
    }
    match_regex_unfile(r, x);
    match_table_remove(&r->sources, &x->entry.item);
    free_regex(r, x);
    close_shared(r);
}

size_t match_regexes_bytes(const struct match_regexes *r)
{
    return r->bytes + match_table_bytes(&r->sources) + match_table_bytes(&r->grams) +
           (r->popularity ? POPULARITY_SLOTS * sizeof(*r->popularity) : 0);
}

/* ---- lookup ---------------------------------------------------------------------------------- */

/* Creates a table once it has been searched often enough. If out of memory, works without one. */
static void open_table(struct match_regexes *r, struct match_regex *x)
{
    if (x->searches < TABLE_AFTER) {
        x->searches++;
    } else if (x->searches == TABLE_AFTER) {
        x->searches++;
        x->table = regex_table_create(x->regex);
        r->bytes += regex_table_bytes(x->table);
    }
}

/* Repeats while a node can pay: another node may complete a search that one could not. */
static void match_regex_run(struct match_regexes *r, struct match_regex *x,
                            const struct match_view *view)
{
    enum match_payment payment;
    enum regex_result result = REGEX_OUT_OF_STEPS;
    struct match_node *payer = NULL;
    uint64_t steps = 0;
    open_table(r, x);
    while ((payment = view->pay(view->user, &x->entry, &payer, &steps)) == MATCH_PAID) {
        uint64_t had = steps;
        result = regex_search(x->regex, x->table, view->text, &steps);
        view->spent(view->user, payer, had - steps);
        if (result != REGEX_OUT_OF_STEPS) {
            break;
        }
    }
    if (payment == MATCH_UNWANTED || result == REGEX_ABSENT) {
        return;
    }
    if (result == REGEX_FOUND) {
        view->found(view->user, &x->entry);
    } else {
        view->unsure(view->user, &x->entry);
    }
}

/* Runs every regex of a list. */
static void match_regex_run_list(struct match_regexes *r, struct match_regex *x,
                                 const struct match_view *view)
{
    for (; x; x = x->next) {
        match_regex_run(r, x, view);
    }
}

/* Expanded for each length as a compile-time constant: this loop runs for every byte of every
 * change. */
static inline void find_grams(struct match_regexes *r, const struct match_view *view, size_t len)
{
    struct tidings_str text = view->text;
    for (size_t i = 0; i + len <= text.len; i++) {
        uint64_t bytes = gram_bytes(text.ptr + i, len);
        uint32_t key = gram_key(view->seed, bytes, len);
        if (r->grams.tags[key & (r->grams.cap - 1)] == 0) {
            continue;
        }
        struct match_gram *g = find_gram(r, key, bytes, len);
        if (g && g->stamp != view->stamp) {
            g->stamp = view->stamp;
            match_regex_run_list(r, g->first, view);
        }
    }
}

enum regex_result match_regex_search(struct match_entry *entry, struct tidings_str text,
                                     uint64_t *steps)
{
    struct match_regex *x = (struct match_regex *)entry;
    return regex_search(x->regex, x->table, text, steps);
}

void match_regexes_find(struct match_regexes *r, const struct match_view *view)
{
    if (r->gram8_count > 0) {
        find_grams(r, view, 8);
    }
    if (r->gram4_count > 0) {
        find_grams(r, view, 4);
    }
    match_regex_run_list(r, r->unindexed, view);
}
