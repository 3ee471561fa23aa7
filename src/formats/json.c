/* SPDX-License-Identifier: MIT
 *
 * JSON values: types, members, elements, equality, and references to a document.
 */
#include "formats/json.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/json_build.h"

/* -------------------------------------------------------------------------------------------------
 * Finds a member of a JSON object: by a scan of a small object, through a hash table in a large
 * one.
 *
 * Keys are hashed with a seed drawn once per process, so that clients cannot choose colliding keys.
 */

void value_free(struct value_document *d)
{
    struct value_block *next;
    for (struct value_block *block = &d->block; block; block = next) {
        next = block->next;
        mem_free(block);
    }
}

static uint64_t index_seed(void)
{
    static _Atomic uint64_t seed;
    uint64_t now = atomic_load_explicit(&seed, memory_order_relaxed), drawn = 0;
    if (now == 0) {
        if (random_bytes(&drawn, sizeof(drawn)) < 0) {
            drawn = clock_monotonic_ns() ^ (uint64_t)(uintptr_t)&seed << 20;
        }
        /* The slower thread uses the seed of the faster one. */
        now = drawn | 1;
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&seed, &none, now)) {
            now = none;
        }
    }
    return now;
}

/* The number of the member with the key, from 1; or 0, with the slot where it belongs in *ret. */
static uint32_t value_probe(const struct value_index *index, const struct json *items,
                            struct tidings_str key, uint64_t hash, uint32_t *ret)
{
    uint32_t i = (uint32_t)(hash >> 32) & index->mask;
    for (; index->slots[i].member != 0; i = (i + 1) & index->mask) {
        if (index->slots[i].hash == (uint32_t)hash &&
            tidings_str_eq(value_text(&items[2 * (size_t)(index->slots[i].member - 1)]), key)) {
            return index->slots[i].member;
        }
    }
    *ret = i;
    return 0;
}

bool value_index_add(struct value_index *index, const struct json *items, size_t number)
{
    uint32_t slot = 0;
    struct tidings_str key = value_text(&items[2 * number]);
    uint64_t hash = str_hash(key, index->seed);
    uint32_t member = value_probe(index, items, key, hash, &slot);
    if (member == 0) {
        index->slots[slot].hash = (uint32_t)hash;
        index->slots[slot].member = (uint32_t)number + 1;
    }
    return member == 0;
}

struct value_index *value_index_create(const struct json *items, size_t count)
{
    size_t size = 4 * (size_t)VALUE_FEW;
    while (size < 2 * count) {
        size *= 2;
    }
    struct value_index *index = mem_zalloc(sizeof(*index) + size * sizeof(index->slots[0]));
    if (index) {
        index->seed = index_seed();
        index->mask = (uint32_t)size - 1;
        for (size_t i = 0; i < count; i++) {
            (void)value_index_add(index, items, i);
        }
    }
    return index;
}

size_t value_index_find(const struct value_index *index, const struct json *items,
                        struct tidings_str key)
{
    uint32_t slot;
    return value_probe(index, items, key, str_hash(key, index->seed), &slot);
}

/* The value of a member, or NULL. */
static struct json *value_find(const struct json *object, struct tidings_str key)
{
    struct json *items = object->items;
    if (object->len <= VALUE_FEW) {
        for (const struct json *end = items + 2 * (size_t)object->len; items < end; items += 2) {
            if (tidings_str_eq(value_text(items), key)) {
                return items + 1;
            }
        }
        return NULL;
    }
    size_t member = value_index_find(items[-1].index, items, key);
    return member ? &items[2 * (member - 1) + 1] : NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Numbers in JSON text: the grammar by hand, the value by strtod in the C locale.
 */

#define SHORT_NUMBER 64u

static const char *skip_digits(const char *s, const char *end)
{
    while (s < end && *s >= '0' && *s <= '9') {
        s++;
    }
    return s;
}

size_t number_length(struct tidings_str text, bool *ret_is_real)
{
    const char *end = text.ptr + text.len;
    const char *s = text.ptr + (text.len > 0 && *text.ptr == '-');
    const char *digits = s;
    s = skip_digits(s, end);
    if (s == digits || (*digits == '0' && s - digits > 1)) {
        return 0;
    }
    *ret_is_real = false;
    if (s < end && *s == '.') {
        *ret_is_real = true;
        digits = s + 1;
        s = skip_digits(digits, end);
        if (s == digits) {
            return 0;
        }
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        *ret_is_real = true;
        s++;
        s += s < end && (*s == '+' || *s == '-');
        digits = s;
        s = skip_digits(digits, end);
        if (s == digits) {
            return 0;
        }
    }
    return (size_t)(s - text.ptr);
}

int number_to_real(struct tidings_str number, double *ret)
{
    char small[SHORT_NUMBER];
    char *text = number.len < sizeof small ? small : mem_alloc(number.len + 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    int rc = TIDINGS_E_NOMEM;
    *ret = 0;
    if (text && c_locale) {
        memcpy(text, number.ptr, number.len);
        text[number.len] = '\0';
        errno = 0;
        *ret = strtod_l(text, NULL, c_locale);
        /* ERANGE also reports underflow: the result is then 0, or nearly. */
        rc = errno == ERANGE && fabs(*ret) > 1 ? TIDINGS_E_LIMIT : 0;
        *ret = rc == 0 ? *ret : *ret < 0 ? -DBL_MAX : DBL_MAX;
    }
    if (c_locale) {
        freelocale(c_locale);
    }
    if (text != small) {
        mem_free(text);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Searches for a member in text that could not be parsed: only quotes, brackets and colons count.
 */

/* The position after the string whose quote is at `at`; the end of the text if it is unclosed. */
static size_t peek_string_end(struct tidings_str text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        at += text.ptr[at] == '\\';
    }
    return at < text.len ? at + 1 : text.len;
}

static size_t peek_skip_blanks(struct tidings_str text, size_t at)
{
    while (at < text.len && strchr(" \t\r\n", text.ptr[at]) && text.ptr[at] != '\0') {
        at++;
    }
    return at;
}

static struct tidings_str peek_value(struct tidings_str text, size_t at)
{
    bool is_real;
    struct tidings_str rest = tidings_strn(text.ptr + at, text.len - at);
    if (rest.len > 0 && *rest.ptr == '"') {
        return tidings_strn(rest.ptr, peek_string_end(text, at) - at);
    }
    return tidings_strn(rest.ptr, rest.len > 0 ? number_length(rest, &is_real) : 0);
}

struct tidings_str json_peek(struct tidings_str text, struct tidings_str key)
{
    size_t depth = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == '"') {
            size_t end = peek_string_end(text, at);
            size_t colon = peek_skip_blanks(text, end);
            bool is_key = depth == 1 && colon < text.len && text.ptr[colon] == ':';
            if (is_key && end - at == key.len + 2 &&
                memcmp(text.ptr + at + 1, key.ptr, key.len) == 0) {
                return peek_value(text, peek_skip_blanks(text, colon + 1));
            }
            at = end - 1;
        }
    }
    return STR_EMPTY;
}

/* ---------------------------------------------------------------------------------------------- */

struct json *jv_ref(struct json *v)
{
    if (v) {
        atomic_fetch_add_explicit(&value_document(v)->refs, 1, memory_order_relaxed);
    }
    return v;
}

void jv_unref(struct json *v)
{
    struct value_document *d = v ? value_document(v) : NULL;
    if (d && (atomic_load_explicit(&d->refs, memory_order_acquire) == 1 ||
              atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1)) {
        value_free(d);
    }
}

static void jv_wipe(const struct json *v)
{
    size_t count = value_type(v) == JV_OBJECT  ? 2 * (size_t)v->len
                   : value_type(v) == JV_ARRAY ? v->len
                                               : 0;
    for (size_t i = 0; i < count; i++) { /* recursion is bounded by the parser's depth limit */
        jv_wipe(&v->items[i]);
    }
    if (value_type(v) == JV_STRING) {
        explicit_bzero((char *)(uintptr_t)v->text, v->len);
    }
}

void jv_unref_secret(struct json *root)
{
    if (root) {
        jv_wipe(root);
        jv_unref(root);
    }
}

enum jv_type jv_type(const struct json *v)
{
    return v ? value_type(v) : JV_NULL;
}

bool jv_is(const struct json *v, enum jv_type type)
{
    return v && value_type(v) == type;
}

bool jv_is_number(const struct json *v)
{
    return jv_is(v, JV_INT) || jv_is(v, JV_REAL);
}

bool jv_is_bool(const struct json *v)
{
    return jv_is(v, JV_TRUE) || jv_is(v, JV_FALSE);
}

struct json *jv_get_str(const struct json *v, struct tidings_str key)
{
    return jv_is(v, JV_OBJECT) ? value_find(v, key) : NULL;
}

struct tidings_str jv_str(const struct json *v)
{
    return jv_is(v, JV_STRING) ? value_text(v) : tidings_strn("", 0);
}

int64_t jv_int(const struct json *v)
{
    return jv_is(v, JV_INT) ? v->whole : 0;
}

struct tidings_str jv_written(const struct json *v)
{
    return v && value_is_written(v) ? value_text(v) : tidings_strn("", 0);
}

double jv_real(const struct json *v)
{
    double real = 0;
    if (!jv_is(v, JV_REAL)) {
        return (double)jv_int(v);
    }
    if (!value_is_written(v)) {
        return v->real;
    }
    (void)number_to_real(value_text(v), &real);
    return real;
}

bool jv_is_true(const struct json *v)
{
    return jv_is(v, JV_TRUE);
}

size_t jv_count(const struct json *v)
{
    return jv_is(v, JV_ARRAY) || jv_is(v, JV_OBJECT) ? v->len : 0;
}

struct json *jv_at(const struct json *v, size_t index)
{
    return jv_is(v, JV_ARRAY) && index < v->len ? &v->items[index] : NULL;
}

static bool equal_members(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->len; i++) {
        const struct json *other = value_find(b, value_text(&a->items[2 * i]));
        if (!other || !jv_equal(&a->items[2 * i + 1], other)) {
            return false;
        }
    }
    return true;
}

static bool equal_elements(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->len; i++) {
        if (!jv_equal(&a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

bool jv_equal(const struct json *a, const struct json *b)
{
    if (!a || !b || value_type(a) != value_type(b)) {
        return false;
    }
    switch (value_type(a)) {
    case JV_NULL:
    case JV_FALSE:
    case JV_TRUE:
        return true;
    case JV_INT:
        return a->whole == b->whole;
    case JV_REAL:
        return value_is_written(a) && value_is_written(b)
                   ? tidings_str_eq(value_text(a), value_text(b))
                   : jv_real(a) == jv_real(b);
    case JV_STRING:
        return tidings_str_eq(value_text(a), value_text(b));
    case JV_ARRAY:
        return a->len == b->len && equal_elements(a, b);
    case JV_OBJECT:
        return a->len == b->len && equal_members(a, b);
    }
    return false;
}

void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value)
{
    if (!jv_is(object, JV_OBJECT)) {
        return NULL;
    }
    struct json *key = position ? (struct json *)position + 2 : object->items;
    if (key == object->items + 2 * (size_t)object->len) {
        return NULL;
    }
    *ret_key = value_text(key);
    *ret_value = key + 1;
    return key;
}

/* -------------------------------------------------------------------------------------------------
 * Walks a JSON pointer, token by token, without allocating memory.
 */

#define TOKEN_MAX 1024u

/* RFC 6901 §4: ~1 is '/', then ~0 is '~'; any other '~' is an error. */
static bool unescape(struct tidings_str token, char *out, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < token.len; i++) {
        char c = token.ptr[i];
        if (n == TOKEN_MAX) {
            return false;
        }
        if (c == '~') {
            if (i + 1 == token.len || (token.ptr[i + 1] != '0' && token.ptr[i + 1] != '1')) {
                return false;
            }
            c = token.ptr[++i] == '0' ? '~' : '/';
        }
        out[n++] = c;
    }
    *len = n;
    return true;
}

/* An index has no leading zero. */
static struct json *element(const struct json *array, struct tidings_str token)
{
    uint64_t index = 0;
    if (!str_to_u64(token, &index) || (token.len > 1 && token.ptr[0] == '0') ||
        index >= jv_count(array)) {
        return NULL;
    }
    return jv_at(array, (size_t)index);
}

struct json *jv_point(struct json *root, struct tidings_str pointer)
{
    char name[TOKEN_MAX];
    struct json *at = root;
    while (at && pointer.len > 0) {
        if (pointer.ptr[0] != '/') {
            return NULL;
        }
        struct tidings_str rest = str_skip(pointer, 1);
        ptrdiff_t slash = str_find(rest, '/');
        struct tidings_str token = {rest.ptr, slash < 0 ? rest.len : (size_t)slash};
        size_t len = 0;
        if (!unescape(token, name, &len)) {
            return NULL;
        }
        at = jv_is(at, JV_ARRAY) ? element(at, token) : jv_get_str(at, tidings_strn(name, len));
        pointer = str_skip(rest, token.len);
    }
    return at;
}

/* -------------------------------------------------------------------------------------------------
 * Applies and creates merge patches of JSON values. Both directions walk two objects in parallel;
 * everything that is not an object, including arrays, is replaced or kept as a whole (RFC 7396 §2).
 * The result is a separate document that shares nothing with its inputs.
 */

static bool merge_patch_apply(struct build *b, const struct json *target, const struct json *patch);

/* The members of `target` that the patch keeps or changes. */
static bool apply_to_members(struct build *b, const struct json *target, const struct json *patch)
{
    bool ok = true;
    for (struct json *m = value_first(target); ok && m; m = value_next(target, m)) {
        const struct json *change = value_find(patch, value_text(m));
        if (!change) {
            ok = build_key(b, value_text(m)) && build_copy(b, m + 1);
        } else if (!jv_is(change, JV_NULL)) {
            ok = build_key(b, value_text(m)) && merge_patch_apply(b, m + 1, change);
        }
    }
    return ok;
}

static bool add_members(struct build *b, const struct json *target, const struct json *patch)
{
    bool ok = true;
    for (struct json *m = value_first(patch); ok && m; m = value_next(patch, m)) {
        if (!jv_is(m + 1, JV_NULL) && !jv_get_str(target, value_text(m))) {
            ok = build_key(b, value_text(m)) && merge_patch_apply(b, NULL, m + 1);
        }
    }
    return ok;
}

static bool merge_patch_apply(struct build *b, const struct json *target, const struct json *patch)
{
    if (!jv_is(patch, JV_OBJECT)) {
        return build_copy(b, patch);
    }
    return build_begin(b, JV_OBJECT) && apply_to_members(b, target, patch) &&
           add_members(b, target, patch) && build_end(b);
}

struct json *merge_apply(struct json *target, struct json *patch)
{
    struct build b;
    if (build_init(&b, BUILD_FIRST_VALUES, BUILD_FIRST_TEXT) == 0) {
        (void)merge_patch_apply(&b, target, patch);
    }
    return build_finish(&b);
}

/* Returns true if `v` contains a null that a patch would interpret as "remove". */
static bool has_null_member(const struct json *v)
{
    for (struct json *m = value_first(v); m; m = value_next(v, m)) {
        if (jv_is(m + 1, JV_NULL) || has_null_member(m + 1)) {
            return true;
        }
    }
    return false;
}

static int merge_patch_diff(struct build *b, const struct json *from, const struct json *to);

static int diff_member(struct build *b, const struct json *from, const struct json *m)
{
    const struct json *before = value_find(from, value_text(m));
    if (before && jv_equal(before, m + 1)) {
        return 1;
    }
    if (jv_is(m + 1, JV_NULL)) {
        return 0;
    }
    return build_key(b, value_text(m)) ? merge_patch_diff(b, before, m + 1) : TIDINGS_E_NOMEM;
}

static int diff_members(struct build *b, const struct json *from, const struct json *to)
{
    for (struct json *m = value_first(from); m; m = value_next(from, m)) {
        if (!value_find(to, value_text(m)) && !(build_key(b, value_text(m)) && build_null(b))) {
            return TIDINGS_E_NOMEM;
        }
    }
    for (struct json *m = value_first(to); m; m = value_next(to, m)) {
        int rc = diff_member(b, from, m);
        if (rc <= 0) {
            return rc;
        }
    }
    return 1;
}

static int merge_patch_diff(struct build *b, const struct json *from, const struct json *to)
{
    if (!jv_is(to, JV_OBJECT) || !jv_is(from, JV_OBJECT)) {
        return has_null_member(to) ? 0 : build_copy(b, to) ? 1 : TIDINGS_E_NOMEM;
    }
    int rc = build_begin(b, JV_OBJECT) ? diff_members(b, from, to) : TIDINGS_E_NOMEM;
    return rc <= 0 ? rc : build_end(b) ? 1 : TIDINGS_E_NOMEM;
}

int merge_diff(struct json *from, struct json *to, struct json **ret_patch)
{
    struct build b;
    int rc = build_init(&b, BUILD_FIRST_VALUES, BUILD_FIRST_TEXT);
    rc = rc == 0 ? merge_patch_diff(&b, from, to) : rc;
    if (rc == 1) {
        *ret_patch = build_finish(&b);
    } else {
        build_discard(&b);
    }
    return rc;
}
