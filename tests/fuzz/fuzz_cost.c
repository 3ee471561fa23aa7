/* SPDX-License-Identifier: MIT
 *
 * The cost of an input. The first byte selects its consumer (the letters of `kinds`); the rest of
 * the first line and the other lines are its two parts. Strings are repeated until they are long,
 * so that superlinear growth shows.
 *
 * Where steps are counted (regexes, schemas) they must stay within their limits, and the CPU must
 * match the steps; elsewhere the CPU must match the lengths. Only the fuzzer measures time, with a
 * wide margin and the best of several runs: a replay of the corpus counts steps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/pattern.h"
#include "formats/regex.h"
#include "formats/schema.h"
#include "formats/uri.h"
#include "formats/uri_template.h"
#include "server/tools_entity.h"

#define LONG_TEXT 16384u
#define SLACK 30.0 /* sanitizers, a busy machine */
#define TRIES 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "cost: %s\n", what);
        abort();
    }
}

/* Two parts of an input, the second repeated. */
struct parts {
    struct tidings_str first, second;
    struct buf text;
    double allowed_ns; /* set by the caller */
};

/* ---- the kinds ------------------------------------------------------------------------------- */

/* A regex takes at most two looks at each op for each byte, for itself and for each lookaround. */
#define REGEX_STEPS_PER_BYTE ((REGEX_MAX_LOOKAROUNDS + 1) * (2.0 * REGEX_MAX_OPS + 8))

static void run_regex(struct parts *p, enum regex_units units)
{
    struct regex *r = NULL;
    p->allowed_ns = 4e6;
    if (regex_create(p->first, units, REGEX_MAX_BYTES, &r, NULL) < 0) {
        return;
    }
    struct regex_table *table = regex_table_create(r);
    enum regex_result without = REGEX_ABSENT;
    struct tidings_str text = buf_str(&p->text);
    for (int i = 0; i < 3; i++) {
        uint64_t steps = 4000000;
        enum regex_result result = regex_search(r, i ? table : NULL, text, &steps);
        p->allowed_ns += 5.0 * (double)(4000000 - steps);
        require((double)(4000000 - steps) <= REGEX_STEPS_PER_BYTE * (double)(text.len + 1),
                "more steps than places");
        without = i == 0 ? result : without;
        require(result == without || result == REGEX_OUT_OF_STEPS || without == REGEX_OUT_OF_STEPS,
                "a table says something else");
    }
    regex_table_destroy(table);
    regex_destroy(r);
}

static void run_bytes(struct parts *p)
{
    run_regex(p, REGEX_BYTES);
}

static void run_characters(struct parts *p)
{
    run_regex(p, REGEX_CHARACTERS);
}

/* The longest string in the place of every string: patterns and lengths meet something. */
static struct json *with_long_text(struct json *value, struct tidings_str text)
{
    struct buf out;
    struct jw w;
    struct json *ret = NULL;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_key(&w, STR("value"));
    jw_value(&w, value);
    jw_put_string(&w, STR("text"), str_is_utf8(text) ? text : STR("text"));
    jw_end_object(&w);
    if (!out.failed && jv_parse(buf_str(&out), JSON_MAX_DEPTH, &ret, NULL) < 0) {
        ret = NULL;
    }
    buf_deinit(&out);
    return ret;
}

static void run_schema(struct parts *p)
{
    struct json *schema = NULL, *value = NULL;
    struct json_schema *s = NULL;
    const struct schema_options options = {.max_subschemas = 256, .max_depth = 32};
    p->allowed_ns = 2e6 + 3000.0 * (double)p->first.len;
    if (jv_parse(p->first, JSON_MAX_DEPTH, &schema, NULL) == 0 &&
        schema_compile(schema, &options, &s, NULL) == 0 &&
        jv_parse(p->second, JSON_MAX_DEPTH, &value, NULL) == 0) {
        struct json *both = with_long_text(value, buf_str(&p->text));
        uint64_t steps = SCHEMA_DEFAULT_STEPS;
        (void)schema_check_within(s, value, NULL, &steps);
        (void)schema_check_within(s, both ? both : value, NULL, &steps);
        p->allowed_ns += 5.0 * (double)(SCHEMA_DEFAULT_STEPS - steps) +
                         200.0 * (double)(p->second.len + p->text.len);
        jv_unref(both);
    }
    schema_destroy(s);
    jv_unref(schema);
    jv_unref(value);
}

static void run_pattern(struct parts *p, enum pattern_kind kind)
{
    struct buf pattern, uri;
    struct tidings_str text = buf_str(&p->text);
    text.len = text.len < 4000 ? text.len : 4000;
    buf_init(&pattern, URI_MAX + 1024);
    buf_init(&uri, URI_MAX + 1024);
    buf_puts(&uri, STR("x:///"));
    struct buf canonical;
    buf_init(&canonical, URI_MAX + 1024);
    buf_puts(&uri, text);
    p->allowed_ns = 100000.0 + 200.0 * (double)(p->first.len + text.len);
    if (uri_canonical_pattern(p->first, &pattern, NULL) == 0 &&
        uri_canonical(buf_str(&uri), &canonical, NULL) == 0) {
        (void)pattern_matches(kind, buf_str(&pattern), buf_str(&canonical));
        p->allowed_ns += 10.0 * (double)(pattern.len + 1) * (double)(canonical.len + 1);
    }
    buf_deinit(&canonical);
    buf_deinit(&pattern);
    buf_deinit(&uri);
}

static void run_glob(struct parts *p)
{
    run_pattern(p, PATTERN_GLOB);
}

static void run_template(struct parts *p)
{
    run_pattern(p, PATTERN_TEMPLATE);
}

static void run_json(struct parts *p)
{
    struct json *v = NULL;
    p->allowed_ns = 50000.0 + 200.0 * (double)p->text.len;
    (void)jv_parse(buf_str(&p->text), JSON_MAX_DEPTH, &v, NULL);
    jv_unref(v);
}

static void run_uri(struct parts *p)
{
    struct buf out;
    buf_init(&out, 4 * URI_MAX);
    p->allowed_ns = 50000.0 + 200.0 * (double)p->text.len;
    (void)uri_canonical(buf_str(&p->text), &out, NULL);
    buf_deinit(&out);
}

static void run_patch(struct parts *p)
{
    struct json *a = NULL, *b = NULL, *patch = NULL;
    p->allowed_ns = 100000.0 + 1000.0 * (double)(p->first.len + p->second.len);
    if (jv_parse(p->first, JSON_MAX_DEPTH, &a, NULL) == 0 &&
        jv_parse(p->second, JSON_MAX_DEPTH, &b, NULL) == 0) {
        (void)merge_diff(a, b, &patch);
        jv_unref(merge_apply(a, b));
    }
    jv_unref(patch);
    jv_unref(a);
    jv_unref(b);
}

static void run_query(struct parts *p)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out);
    jw_begin_object(&w);
    p->allowed_ns = 100000.0 + 300.0 * (double)p->text.len;
    (void)entity_http_query(&w, buf_str(&p->text), NULL);
    buf_deinit(&out);
}

/* ---- time ------------------------------------------------------------------------------------ */

static const struct {
    char letter;
    void (*run)(struct parts *p);
} kinds[] = {
    {'b', run_bytes}, {'c', run_characters}, {'s', run_schema},
    {'g', run_glob},  {'t', run_template},   {'j', run_json},
    {'u', run_uri},   {'p', run_patch},      {'q', run_query},
};

static double cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The best of several, for the machine does other things too. */
static void check(void (*run)(struct parts *), struct parts *p)
{
    double best = 0;
    for (int i = 0; i < TRIES && (i == 0 || best > SLACK * p->allowed_ns); i++) {
        double before = cpu_ns();
        run(p);
        double took = cpu_ns() - before;
        best = i == 0 || took < best ? took : best;
    }
#ifdef TIDINGS_FUZZ
    if (best > SLACK * p->allowed_ns) {
        fprintf(stderr, "cost: %.0f us, %.0f us expected\n", best / 1e3, p->allowed_ns / 1e3);
        abort();
    }
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parts p;
    if (size < 2 || size > 8192) {
        return 0;
    }
    p.first = str_cut(tidings_strn((const char *)data + 1, size - 1), '\n', &p.second, NULL);
    buf_init(&p.text, LONG_TEXT + size);
    struct tidings_str unit = p.second.len > 0 ? p.second : p.first;
    while (unit.len > 0 && p.text.len + unit.len <= LONG_TEXT) {
        buf_puts(&p.text, unit);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].letter == (char)data[0] && p.text.len > 0) {
            check(kinds[i].run, &p);
        }
    }
    buf_deinit(&p.text);
    return 0;
}
