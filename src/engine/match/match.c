/* SPDX-License-Identifier: MIT
 *
 * The match index as a whole: literals and containers are in two hash tables, globs and templates
 * in a tree, regexes under their grams. A changed URI is cut at its slashes once. The hash of any
 * run of segments is computed from the hashes of the segments, so that looking up every prefix of a
 * URI costs no more than reading it.
 *
 * Invariant: an entry exists exactly while it has a node. The caller must pass canonical strings.
 */
#include "engine/match/match.h"

#include <assert.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"

/* A pattern without wildcards: a literal URI, or a container and everything below it. Its text
 * follows the struct. */
struct exact_entry {
    struct match_entry entry;
    char text[];
};

static struct match_seed match_draw_seed(const struct match *m)
{
    struct match_seed seed;
    if (random_bytes(&seed, sizeof(seed)) < 0) {
        /* No random source at all: at least make it differ between indexes and runs. */
        seed.start = clock_monotonic_ns() ^ (uint64_t)(uintptr_t)m << 20;
        seed.multiplier = seed.start * 0xD1B54A32D192ED03u;
    }
    seed.multiplier |= 1; /* a factor of 0 would forget everything */
    return seed;
}

void match_init(struct match *m)
{
    *m = (struct match){0};
    m->seed = match_draw_seed(m);
    match_table_init(&m->literals, MATCH_TABLE_DENSE);
    match_table_init(&m->containers, MATCH_TABLE_DENSE);
    match_tree_init(&m->tree);
    match_regexes_init(&m->regexes);
}

void match_deinit(struct match *m)
{
    assert(m->count == 0);
    match_table_deinit(&m->literals);
    match_table_deinit(&m->containers);
    match_tree_deinit(&m->tree);
    match_regexes_deinit(&m->regexes);
}

size_t match_bytes(const struct match *m)
{
    return m->bytes + match_table_bytes(&m->literals) + match_table_bytes(&m->containers) +
           match_tree_bytes(&m->tree) + match_regexes_bytes(&m->regexes);
}

/* ---- literals and containers ----------------------------------------------------------------- */

static struct match_table *table_of(struct match *m, uint8_t kind)
{
    return kind == ITEM_LITERAL ? &m->literals : &m->containers;
}

static uint32_t exact_key(const struct match *m, uint8_t kind, uint64_t run)
{
    return match_key(m->seed, NULL, kind, run);
}

/* `run` is the hash of the segments of `text`; a slash at the end is ignored. */
static struct exact_entry *find_exact(struct match *m, uint8_t kind, struct tidings_str text,
                                      uint64_t run)
{
    struct match_cursor at = match_table_seek(table_of(m, kind), exact_key(m, kind, run));
    struct exact_entry *p;
    do {
        p = (struct exact_entry *)match_table_next(&at);
    } while (p && (p->entry.item.kind != kind || p->entry.item.len != text.len ||
                   memcmp(p->text, text.ptr, text.len) != 0));
    return p;
}

static uint64_t hash_segments(const struct match *m, struct tidings_str text)
{
    uint64_t run = m->seed.start;
    for (bool more = true; more;) {
        struct tidings_str segment = str_cut(text, '/', &text, &more);
        run = match_chain(m->seed, run, match_hash(m->seed, segment.ptr, segment.len));
    }
    return run;
}

static int add_exact(struct match *m, uint8_t kind, struct tidings_str text,
                     struct match_entry **ret, struct tidings_error *err)
{
    struct tidings_str hashed = text;
    hashed.len -= kind == ITEM_CONTAINER; /* its slash */
    uint64_t run = hash_segments(m, hashed);
    struct exact_entry *p = find_exact(m, kind, text, run);
    if (p) {
        *ret = &p->entry;
        return 0;
    }
    p = mem_alloc(sizeof(*p) + text.len);
    if (!p) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "subscription: out of memory");
    }
    p->entry = (struct match_entry){
        .item = {.hash = exact_key(m, kind, run), .len = (uint16_t)text.len, .kind = kind}};
    memcpy(p->text, text.ptr, text.len);
    if (match_table_add(table_of(m, kind), &p->entry.item) < 0) {
        mem_free(p);
        return tidings_fail(err, TIDINGS_E_NOMEM, "subscription: out of memory");
    }
    m->bytes += sizeof(*p) + text.len;
    m->bare += kind == ITEM_BARE;
    *ret = &p->entry;
    return 0;
}

static void remove_exact(struct match *m, struct match_entry *entry)
{
    m->bytes -= sizeof(struct exact_entry) + entry->item.len;
    m->bare -= entry->item.kind == ITEM_BARE;
    match_table_remove(table_of(m, entry->item.kind), &entry->item);
    mem_free(entry);
}

static uint8_t exact_kind(enum pattern_kind kind, struct tidings_str text)
{
    /* A query has nothing below it. */
    if (kind == PATTERN_LITERAL || str_find(text, '?') >= 0) {
        return ITEM_LITERAL;
    }
    return str_ends(text, STR("/")) ? ITEM_CONTAINER : ITEM_BARE;
}

/* ---- adding and removing --------------------------------------------------------------------- */

static int find_entry(struct match *m, enum pattern_kind kind, struct tidings_str text,
                      struct match_entry **ret, struct tidings_error *err)
{
    if (kind != PATTERN_LITERAL && kind != PATTERN_CONTAINER) {
        return match_tree_add(&m->tree, m->seed, kind, text, ret, err);
    }
    if (text.len == 0 || text.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "URI of %zu bytes refused: between 1 and %u accepted", text.len,
                            URI_MAX);
    }
    return add_exact(m, exact_kind(kind, text), text, ret, err);
}

static void link_node(struct match_node **list, struct match_node *node)
{
    node->next = *list;
    node->link = list;
    if (node->next) {
        node->next->link = &node->next;
    }
    *list = node;
}

static void unlink_node(struct match_node *node)
{
    *node->link = node->next;
    if (node->next) {
        node->next->link = node->link;
    }
}

static void remove_entry(struct match *m, struct match_entry *entry)
{
    switch ((enum match_item_kind)entry->item.kind) {
    case ITEM_LITERAL:
    case ITEM_CONTAINER:
    case ITEM_BARE:
        remove_exact(m, entry);
        break;
    case ITEM_LEAF:
    case ITEM_CHECKED:
        match_tree_remove(&m->tree, entry);
        break;
    case ITEM_REGEX:
        if (m->give_back_unindexed && match_regex_is_unindexed(entry)) {
            m->give_back_unindexed(match_regex_owner(entry));
        }
        match_regexes_remove(&m->regexes, m->seed, entry);
        break;
    case ITEM_STATE:
    case ITEM_GRAM:
        break;
    }
}

static int find_regex(struct match *m, struct tidings_str text, void *owner,
                      struct match_entry **ret, struct tidings_error *err)
{
    int rc = match_regexes_add(&m->regexes, m->seed, text, ret, err);
    if (rc < 0 || (*ret)->nodes || !m->take_unindexed || !match_regex_is_unindexed(*ret)) {
        return rc;
    }
    if (!m->take_unindexed(owner)) {
        match_regexes_remove(&m->regexes, m->seed, *ret);
        *ret = NULL;
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "regex refused: it has no literal text of 4 bytes or more, and as many "
                            "others of this client as are accepted have none either");
    }
    match_regex_set_owner(*ret, owner);
    return 0;
}

int match_add_for(struct match *m, struct match_node *node, enum pattern_kind kind,
                  struct tidings_str text, void *owner, struct tidings_error *err)
{
    assert(!node->entry);
    struct match_entry *entry = NULL;
    int rc = kind == PATTERN_REGEX ? find_regex(m, text, owner, &entry, err)
                                   : find_entry(m, kind, text, &entry, err);
    if (!entry) {
        return rc;
    }
    link_node(&entry->nodes, node);
    node->entry = entry;
    m->count++;
    return 0;
}

int match_add(struct match *m, struct match_node *node, enum pattern_kind kind,
              struct tidings_str text, struct tidings_error *err)
{
    return match_add_for(m, node, kind, text, NULL, err);
}

void match_remove(struct match *m, struct match_node *node)
{
    struct match_entry *entry = node->entry;
    if (!entry) {
        return;
    }
    unlink_node(node);
    node->entry = NULL;
    m->count--;
    if (!entry->nodes) {
        remove_entry(m, entry);
    }
}

/* ---- lookup ---------------------------------------------------------------------------------- */

struct lookup {
    struct match_view view;
    struct match *m;
    size_t query_at; /* start of the query, or the length */
    const struct match_calls *calls;
    void *user;
    struct match_segment *segments; /* room for one more than the bytes of the text */
};

/* URIs up to this length are looked up with little stack memory: a frame of many pages touches each
 * page (-fstack-clash-protection), which costs a sixth of the lookup. */
#define SHORT_URI 192u

static void match_report(void *user, struct match_entry *entry)
{
    struct lookup *l = user;
    for (struct match_node *node = entry->nodes, *next; node; node = next) {
        next = node->next;
        l->calls->found(l->user, node);
    }
}

static void report_unsure(void *user, struct match_entry *entry)
{
    struct lookup *l = user;
    for (struct match_node *node = entry->nodes, *next; node; node = next) {
        next = node->next;
        l->calls->unsure(l->user, node);
    }
}

static enum match_payment find_payer(void *user, struct match_entry *entry,
                                     struct match_node **ret_payer, uint64_t *ret_steps)
{
    struct lookup *l = user;
    bool is_wanted = false;
    for (struct match_node *node = entry->nodes; node; node = node->next) {
        uint64_t steps = UINT64_MAX;
        bool wants = !l->calls->may_pay || l->calls->may_pay(l->user, node, &steps);
        is_wanted = is_wanted || wants;
        if (wants && steps > 0) {
            *ret_payer = node;
            *ret_steps = steps;
            return MATCH_PAID;
        }
    }
    return is_wanted ? MATCH_UNPAID : MATCH_UNWANTED;
}

static void match_charge(void *user, struct match_node *payer, uint64_t steps)
{
    struct lookup *l = user;
    if (l->calls->paid) {
        l->calls->paid(l->user, payer, steps);
    }
}

static void report_exact(struct lookup *l, uint8_t kind, struct tidings_str text, uint64_t run)
{
    struct exact_entry *p = find_exact(l->m, kind, text, run);
    if (p) {
        match_report(l, &p->entry);
    }
}

/* The high bit of each byte that is a slash, of 8. */
static uint64_t slashes_in(const char *p)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu;
    uint64_t word = le64toh(match_load8(p)) ^ 0x2f2f2f2f2f2f2f2fu;
    return ~(((word & low) + low) | word | low);
}

static void end_segment(struct lookup *l, size_t start, size_t end, uint64_t *run)
{
    struct match_view *view = &l->view;
    struct match_segment *segment = &l->segments[view->count++];
    segment->hash = match_hash(view->seed, view->text.ptr + start, end - start);
    segment->at = (uint16_t)start;
    segment->len = (uint16_t)(end - start);
    *run = match_chain(view->seed, *run, segment->hash);
    if (view->count <= PLAN_MAX_RUN) {
        view->runs[view->count] = *run;
    }
}

/* Cuts the URI at slashes; returns the hash of the whole URI. */
static uint64_t match_cut(struct lookup *l)
{
    struct tidings_str text = l->view.text;
    uint64_t run = l->view.seed.start;
    size_t start = 0, at = 0;
    for (; at + 8 <= text.len; at += 8) {
        for (uint64_t hits = slashes_in(text.ptr + at); hits; hits &= hits - 1) {
            size_t slash = at + (size_t)__builtin_ctzll(hits) / 8;
            end_segment(l, start, slash, &run);
            start = slash + 1;
        }
    }
    for (; at < text.len; at++) {
        if (text.ptr[at] == '/') {
            end_segment(l, start, at, &run);
            start = at + 1;
        }
    }
    end_segment(l, start, text.len, &run);
    return run;
}

/* From the root down. */
static void find_containers(struct lookup *l)
{
    struct match *m = l->m;
    const char *text = l->view.text.ptr;
    size_t first = pattern_first_slash(l->view.text);
    uint64_t run = m->seed.start;
    size_t i = 0;
    for (; i + 1 < l->view.count && l->segments[i + 1].at <= l->query_at; i++) {
        size_t slash = l->segments[i + 1].at - 1u;
        run = match_chain(m->seed, run, l->segments[i].hash);
        if (slash < first) {
            continue;
        }
        if (m->bare > 0 && slash > first && text[slash - 1] != '/') {
            report_exact(l, ITEM_BARE, tidings_strn(text, slash), run);
        }
        report_exact(l, ITEM_CONTAINER, tidings_strn(text, slash + 1), run);
    }
    size_t start = l->segments[i].at;
    if (m->bare > 0 && l->query_at > start) {
        uint64_t last = match_hash(m->seed, text + start, l->query_at - start);
        run = match_chain(m->seed, run, last);
        report_exact(l, ITEM_BARE, tidings_strn(text, l->query_at), run);
    }
}

static inline void find_with(struct match_segment *segments, struct match *m,
                             struct tidings_str changed, const struct match_calls *calls,
                             void *user)
{
    struct lookup l;
    l.segments = segments;
    l.m = m;
    l.calls = calls;
    l.user = user;
    l.view.text = changed;
    l.view.seed = m->seed;
    l.view.stamp = ++m->lookups;
    l.view.found = match_report;
    l.view.unsure = report_unsure;
    l.view.pay = find_payer;
    l.view.spent = match_charge;
    l.view.user = &l;
    l.view.segments = segments;
    l.view.count = 0;
    ptrdiff_t query_at = str_find(changed, '?');
    l.query_at = query_at < 0 ? changed.len : (size_t)query_at;
    m->finding++;
    uint64_t run = match_cut(&l);
    report_exact(&l, ITEM_LITERAL, changed, run);
    if (m->containers.count > 0) {
        find_containers(&l);
    }
    match_tree_find(&m->tree, &l.view);
    if (m->regexes.sources.count > 0) {
        match_regexes_find(&m->regexes, &l.view);
    }
    m->finding--;
}

static __attribute__((noinline)) void find_long(struct match *m, struct tidings_str changed,
                                                const struct match_calls *calls, void *user)
{
    struct match_segment segments[URI_MAX + 1];
    find_with(segments, m, changed, calls, user);
}

void match_find_paid(struct match *m, struct tidings_str changed, const struct match_calls *calls,
                     void *user)
{
    if (m->count == 0 || changed.len == 0 || changed.len > URI_MAX) {
        return;
    }
    if (changed.len > SHORT_URI) {
        find_long(m, changed, calls, user);
        return;
    }
    struct match_segment segments[SHORT_URI + 1];
    find_with(segments, m, changed, calls, user);
}

void match_find(struct match *m, struct tidings_str changed, match_fn fn, void *user)
{
    const struct match_calls calls = {.found = fn, .unsure = fn};
    match_find_paid(m, changed, &calls, user);
}

enum regex_result match_search(struct match_node *node, struct tidings_str uri, uint64_t *steps)
{
    return match_regex_search(node->entry, uri, steps);
}

bool match_is_busy(const struct match *m)
{
    return m->finding > 0;
}
