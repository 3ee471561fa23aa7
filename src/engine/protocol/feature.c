/* SPDX-License-Identifier: MIT
 *
 * Features (tools, prompts, completions) and their lists. A list is rebuilt by copying pointers:
 * registering is rare, looking up is not.
 */
#include "engine/protocol/feature.h"

#include <tidings/schema.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "engine/catalog/catalog.h"
#include "engine/protocol/dialect.h"
#include "formats/http.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "formats/uri.h"
#include "security/limits.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Finding the properties of a tool's schema that HTTP headers repeat, and comparing requests with
 * them.
 */

#define KEY "x-mcp-header"
#define PREFIX "mcp-param-"
#define MAX_ROWS 64u /* a request has room for no more headers */
#define NAME_BYTES 128u
#define POINTER_BYTES 1024u

struct header_param {
    char header[sizeof(PREFIX) + NAME_BYTES]; /* lower case */
    char pointer[POINTER_BYTES];
};

struct header_params {
    size_t count;
    struct header_param rows[];
};

/* ---- what a schema says ---------------------------------------------------------------------- */

struct scan {
    struct header_params *found; /* grows */
    struct tidings_error *err;
    struct buf pointer; /* to the current property */
};

static int header_params_refuse(struct scan *s, const char *why)
{
    return tidings_fail(s->err, TIDINGS_E_INVALID, "%.*s: " KEY " %s",
                        (int)(s->pointer.len < 128 ? s->pointer.len : 128),
                        s->pointer.len > 0 ? s->pointer.ptr : "/", why);
}

static int add_row(struct scan *s, struct json *property, struct tidings_str name)
{
    struct tidings_str type = jv_str(jv_get(property, "type"));
    if (name.len == 0 || name.len > NAME_BYTES || !http_all_are(name, HTTP_IS_TOKEN)) {
        return header_params_refuse(
            s, "must be a string of 1 to 128 characters that a header name can contain");
    }
    if (!str_eq(type, STR("string")) && !str_eq(type, STR("integer")) &&
        !str_eq(type, STR("boolean"))) {
        return header_params_refuse(s, "needs the type string, integer or boolean");
    }
    size_t count = s->found ? s->found->count : 0;
    if (count == MAX_ROWS || s->pointer.len >= POINTER_BYTES) {
        return header_params_refuse(s, "occurs too often, or too deep in the schema");
    }
    struct header_params *grown =
        mem_realloc(s->found, sizeof(*grown) + (count + 1) * sizeof(grown->rows[0]));
    if (!grown) {
        return tidings_fail(s->err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->found = grown;
    struct header_param *row = &grown->rows[count];
    memset(row, 0, sizeof(*row));
    memcpy(row->header, PREFIX, sizeof(PREFIX) - 1);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        row->header[sizeof(PREFIX) - 1 + i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    memcpy(row->pointer, s->pointer.ptr, s->pointer.len);
    grown->count = count + 1;
    for (size_t i = 0; i < count; i++) {
        if (str_eq(tidings_str(grown->rows[i].header), tidings_str(row->header))) {
            return header_params_refuse(s, "names a header that is taken");
        }
    }
    return 0;
}

static int header_params_visit(struct scan *s, struct json *schema, bool is_reachable);

/* Everything below a value that no chain of `properties` leads to: a header there is an error. */
static int visit_rest(struct scan *s, struct json *schema)
{
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    if (jv_is(schema, JV_ARRAY)) {
        for (size_t i = 0; i < jv_count(schema) && rc == 0; i++) {
            rc = header_params_visit(s, jv_at(schema, i), false);
        }
        return rc;
    }
    void *at = jv_is(schema, JV_OBJECT) ? jv_next(schema, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(schema, at, &key, &value)) {
        /* Values that are data, not schemas, may hold any key. */
        if (!str_eq(key, STR("const")) && !str_eq(key, STR("enum")) &&
            !str_eq(key, STR("default")) && !str_eq(key, STR("examples")) &&
            !str_eq(key, STR("properties"))) {
            rc = header_params_visit(s, value, false);
        }
    }
    return rc;
}

static void put_token(struct buf *out, struct tidings_str key)
{
    buf_putc(out, '/');
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] == '~' || key.ptr[i] == '/') {
            buf_puts(out, key.ptr[i] == '~' ? STR("~0") : STR("~1"));
        } else {
            buf_putc(out, key.ptr[i]);
        }
    }
}

static int visit_properties(struct scan *s, struct json *properties, bool is_reachable)
{
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    void *at = jv_is(properties, JV_OBJECT) ? jv_next(properties, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(properties, at, &key, &value)) {
        size_t len = s->pointer.len;
        put_token(&s->pointer, key);
        rc = s->pointer.failed ? tidings_fail(s->err, s->pointer.failed, "properties are too deep")
                               : header_params_visit(s, value, is_reachable);
        s->pointer.len = len;
    }
    return rc;
}

/* Recursion is as deep as the schema, which its parser has bounded. */
static int header_params_visit(struct scan *s, struct json *schema, bool is_reachable)
{
    struct json *name = jv_get(schema, KEY);
    int rc = 0;
    if (name && (!is_reachable || s->pointer.len == 0)) {
        rc = header_params_refuse(s, "is allowed only below a chain of 'properties'");
    } else if (name) {
        rc = add_row(s, schema, jv_str(name));
    }
    if (rc == 0) {
        rc = visit_properties(s, jv_get(schema, "properties"), is_reachable);
    }
    return rc == 0 ? visit_rest(s, schema) : rc;
}

int header_params_create(struct json *schema, struct header_params **ret, struct tidings_error *err)
{
    struct scan s = {.err = err};
    buf_init(&s.pointer, 64u * 1024u);
    int rc = header_params_visit(&s, schema, true);
    buf_deinit(&s.pointer);
    if (rc < 0) {
        mem_free(s.found);
        return rc;
    }
    *ret = s.found;
    return 0;
}

void header_params_destroy(struct header_params *m)
{
    mem_free(m);
}

/* ---- what a request says --------------------------------------------------------------------- */

/* Strings byte by byte, the others as JSON writes them; 7.0 is 7. */
static bool header_params_equals(struct tidings_str header, const struct json *value)
{
    if (jv_is(value, JV_STRING)) {
        return dialect_header_equals(header, jv_str(value));
    }
    int64_t given = 0;
    if (jv_is(value, JV_INT) || jv_is(value, JV_REAL)) {
        return str_to_i64(header, &given) &&
               (jv_is(value, JV_INT) ? given == jv_int(value) : (double)given == jv_real(value));
    }
    return (jv_is(value, JV_TRUE) && str_eq(header, STR("true"))) ||
           (jv_is(value, JV_FALSE) && str_eq(header, STR("false")));
}

bool header_params_holds(const struct header_params *m, struct json *arguments,
                         const struct http_request *req, struct tidings_error *err)
{
    for (size_t i = 0; m && i < m->count; i++) {
        const struct header_param *row = &m->rows[i];
        const struct json *value = jv_point(arguments, tidings_str(row->pointer));
        bool is_given = value && !jv_is(value, JV_NULL);
        unsigned count = 0;
        struct tidings_str header = http_header(req, row->header, &count);
        if (count > 1 || (count == 1) != is_given ||
            (is_given && !header_params_equals(header, value))) {
            tidings_fail(err, TIDINGS_E_INVALID, "the header %s %s the argument '%s' it repeats%s",
                         row->header, count == 0 ? "is missing beside" : "differs from",
                         row->pointer + 1, count > 1 ? ", or is duplicated" : "");
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------
 * The JSON Schema of an object, made of a table of its members (<tidings/schema.h>).
 */

#define SCHEMA_TEXT_MAX (1u << 20)
#define RULES_MAX_DEPTH 64u

/* {"minimum":1}: its members, except those that the row sets itself. */
static int schema_object_put_rules(struct jw *w, const struct tidings_schema_field *f,
                                   struct tidings_error *err)
{
    /* A row of any type sets neither type nor choices; only an array has items. */
    const char *const own[] = {"description", f->type == TIDINGS_SCHEMA_ANY ? NULL : "type",
                               f->type == TIDINGS_SCHEMA_ANY ? NULL : "enum",
                               f->type == TIDINGS_SCHEMA_STRINGS ? "items" : NULL};
    struct json *rules = NULL;
    struct tidings_error why = {0, ""};
    int rc = jv_parse(tidings_str(f->rules), RULES_MAX_DEPTH, &rules, &why);
    if (rc < 0) {
        return tidings_fail(err, rc, "the rules of '%.60s': %.160s", f->name, why.text);
    }
    if (!jv_is(rules, JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the rules of '%.60s' are not a JSON object",
                          f->name);
    }
    for (size_t i = 0; rc == 0 && i < sizeof(own) / sizeof(own[0]); i++) {
        if (own[i] && jv_get(rules, own[i])) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "the rules of '%.60s' say '%s', which its row says", f->name, own[i]);
        }
    }
    struct tidings_str key;
    struct json *value;
    for (void *at = NULL; rc == 0 && (at = jv_next(rules, at, &key, &value)) != NULL;) {
        jw_key(w, key);
        jw_value(w, value);
    }
    jv_unref(rules);
    return rc;
}

static int schema_object_put_field(struct jw *w, const struct tidings_schema_field *f,
                                   struct tidings_error *err)
{
    static const char *const types[] = {"string", "integer", "number", "boolean",
                                        "array",  "object",  NULL};
    if ((size_t)f->type >= sizeof(types) / sizeof(types[0])) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' has no known type", f->name);
    }
    if (f->choices && f->type != TIDINGS_SCHEMA_STRING && f->type != TIDINGS_SCHEMA_STRINGS) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' has choices, but is not a string",
                            f->name);
    }
    jw_key(w, tidings_str(f->name));
    jw_begin_object(w);
    if (types[f->type]) {
        jw_put_string(w, STR("type"), tidings_str(types[f->type]));
    }
    if (f->description) {
        jw_put_string(w, STR("description"), tidings_str(f->description));
    }
    if (f->type == TIDINGS_SCHEMA_STRINGS) {
        jw_key(w, STR("items"));
        jw_begin_object(w);
        jw_put_string(w, STR("type"), STR("string"));
    }
    if (f->choices) {
        jw_key(w, STR("enum"));
        jw_begin_array(w);
        for (const char *const *choice = f->choices; *choice; choice++) {
            jw_string(w, tidings_str(*choice));
        }
        jw_end_array(w);
    }
    if (f->type == TIDINGS_SCHEMA_STRINGS) {
        jw_end_object(w);
    }
    int rc = f->rules ? schema_object_put_rules(w, f, err) : 0;
    jw_end_object(w);
    return rc;
}

static int schema_object_check_name(const struct tidings_schema_field *fields, size_t i,
                                    struct tidings_error *err)
{
    if (!fields[i].name || !fields[i].name[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "row %zu has no name", i);
    }
    for (size_t k = 0; k < i; k++) {
        if (strcmp(fields[k].name, fields[i].name) == 0) {
            return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' stands twice", fields[i].name);
        }
    }
    return 0;
}

static int schema_object_put(struct jw *w, const struct tidings_schema_field *fields, size_t count,
                             struct tidings_error *err)
{
    int rc = 0;
    size_t required = 0;
    jw_begin_object(w);
    jw_put_string(w, STR("type"), STR("object"));
    jw_key(w, STR("properties"));
    jw_begin_object(w);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = schema_object_check_name(fields, i, err);
        rc = rc < 0 ? rc : schema_object_put_field(w, &fields[i], err);
        required += fields[i].is_required;
    }
    jw_end_object(w);
    if (rc == 0 && required > 0) {
        jw_key(w, STR("required"));
        jw_begin_array(w);
        for (size_t i = 0; i < count; i++) {
            if (fields[i].is_required) {
                jw_string(w, tidings_str(fields[i].name));
            }
        }
        jw_end_array(w);
    }
    jw_put_bool(w, STR("additionalProperties"), false);
    jw_end_object(w);
    return rc;
}

char *tidings_schema_object(const struct tidings_schema_field *fields, size_t count,
                            struct tidings_error *err)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SCHEMA_TEXT_MAX);
    jw_init(&w, &text);
    int rc = fields || count == 0 ? schema_object_put(&w, fields, count, err)
                                  : tidings_fail(err, TIDINGS_E_INVALID,
                                                 "`fields` is NULL, and there are %zu", count);
    if (rc == 0 && text.failed) {
        rc = text.failed == TIDINGS_E_LIMIT
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "the schema is longer than %u bytes",
                                SCHEMA_TEXT_MAX)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        buf_deinit(&text);
        return NULL;
    }
    char *result = buf_detach(&text, NULL);
    if (!result) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return result;
}

/* -------------------------------------------------------------------------------------------------
 * The table is searched from its beginning: it is small, and a call costs much more.
 */

static struct tool_count *tool_counts_row(struct tool_counts *t, struct tidings_str tool)
{
    for (size_t i = 0; i < t->count; i++) {
        if (str_eq(tidings_str(t->rows[i].name), tool)) {
            return &t->rows[i];
        }
    }
    if (t->count == TOOL_COUNTS_ROWS || tool.len == 0 || tool.len > TOOL_COUNTS_NAME) {
        return &t->rows[TOOL_COUNTS_ROWS];
    }
    struct tool_count *row = &t->rows[t->count++];
    memcpy(row->name, tool.ptr, tool.len);
    return row;
}

void tool_counts_add(struct tool_counts *t, struct tidings_str tool,
                     enum tidings_call_outcome outcome, uint64_t us)
{
    struct tool_count *row = tool_counts_row(t, tool);
    bool is_first = durations_total(&row->took) == 0;
    row->outcomes[outcome]++;
    row->min_us = is_first || us < row->min_us ? us : row->min_us;
    row->max_us = us > row->max_us ? us : row->max_us;
    durations_count(&row->took, us);
}

static void tool_count_merge(void *user, const struct tool_count *from)
{
    struct tool_count *to = tool_counts_row(user, tidings_str(from->name));
    bool is_first = durations_total(&to->took) == 0;
    to->min_us = is_first || from->min_us < to->min_us ? from->min_us : to->min_us;
    to->max_us = from->max_us > to->max_us ? from->max_us : to->max_us;
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        to->outcomes[i] += from->outcomes[i];
    }
    durations_add(&to->took, &from->took);
}

void tool_counts_merge(struct tool_counts *to, const struct tool_counts *from)
{
    tool_counts_each(from, tool_count_merge, to);
}

void tool_counts_each(const struct tool_counts *t,
                      void (*fn)(void *user, const struct tool_count *row), void *user)
{
    for (size_t i = 0; i <= TOOL_COUNTS_ROWS; i++) {
        if (durations_total(&t->rows[i].took) > 0) {
            fn(user, &t->rows[i]);
        }
    }
}

const char *tool_outcome_name(enum tidings_call_outcome outcome)
{
    static const char *const names[TOOL_OUTCOMES] = {"ok", "error", "refused", "timeout",
                                                     "cancelled"};
    return names[outcome];
}

/* ---------------------------------------------------------------------------------------------- */

#define NAME_MAX_BYTES 128u

struct feature *feature_create(enum feature_kind kind, struct tidings_str name,
                               struct tidings_str row)
{
    struct feature *f = mem_zalloc(sizeof(*f) + name.len + row.len);
    if (f) {
        char *at = (char *)(f + 1);
        f->kind = kind;
        f->name = str_pack(&at, name);
        f->row = str_pack(&at, row);
        f->refs = 1;
    }
    return f;
}

void feature_set_handler(struct feature *f, tidings_call_fn handler, void *user,
                         uint64_t timeout_ms, bool is_blocking)
{
    f->handler = handler;
    f->user = user;
    f->timeout_ms = timeout_ms;
    f->is_blocking = is_blocking;
}

struct feature *feature_ref(struct feature *f)
{
    __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
    return f;
}

void feature_unref(struct feature *f)
{
    if (f && __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        schema_destroy(f->input);
        schema_destroy(f->output);
        header_params_destroy(f->header_params);
        mem_free(f);
    }
}

int feature_check_name(struct tidings_str name, struct tidings_error *err)
{
    bool good = name.len > 0 && name.len <= NAME_MAX_BYTES;
    for (size_t i = 0; i < name.len && good; i++) {
        char c = name.ptr[i];
        good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
    }
    if (!good) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the name '%.*s' must be 1 to %u of A-Z a-z 0-9 _ - .",
                            STR_ARG_MAX(name, 64), NAME_MAX_BYTES);
    }
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

size_t feature_list_after(const struct feature_list *list, struct tidings_str name)
{
    size_t low = 0, high = list && name.len > 0 ? list->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(list->at[middle]->name, name) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct feature *feature_find(const struct feature_list *list, struct tidings_str name)
{
    size_t after = feature_list_after(list, name);
    return after > 0 && str_eq(list->at[after - 1]->name, name) ? list->at[after - 1] : NULL;
}

struct feature_list *feature_list_derive(const struct feature_list *old, struct feature *add,
                                         struct tidings_str remove)
{
    size_t count = old ? old->count : 0, n = 0;
    size_t place = add ? feature_list_after(old, add->name) : SIZE_MAX;
    struct feature_list *list = mem_alloc(sizeof(*list) + (count + 1) * sizeof(struct feature *));
    if (!list) {
        return NULL;
    }
    for (size_t i = 0; i <= count; i++) {
        if (i == place) {
            list->at[n++] = feature_ref(add);
        }
        if (i < count && !str_eq(old->at[i]->name, remove)) {
            list->at[n++] = feature_ref(old->at[i]);
        }
    }
    list->count = n;
    list->has_tasks = false;
    for (size_t i = 0; i < n; i++) {
        list->has_tasks = list->has_tasks || list->at[i]->task != TIDINGS_TASK_NEVER;
    }
    list->refs = 1;
    return list;
}

struct feature_list *feature_list_ref(struct feature_list *list)
{
    if (list) {
        __atomic_add_fetch(&list->refs, 1, __ATOMIC_RELAXED);
    }
    return list;
}

void feature_list_unref(struct feature_list *list)
{
    if (!list || __atomic_sub_fetch(&list->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        feature_unref(list->at[i]);
    }
    mem_free(list);
}

/* -------------------------------------------------------------------------------------------------
 * Suggests tools and prompts whose names are similar to the requested one.
 */

#define LETTERS 3u

size_t feature_suggest(const struct feature_list *list, struct tidings_str name,
                       struct tidings_str ret[FEATURE_SUGGESTIONS])
{
    unsigned distances[FEATURE_SUGGESTIONS];
    size_t found = 0, count = list ? list->count : 0, at = feature_list_after(list, name);
    size_t from = at > FEATURE_SUGGEST_SCAN / 2 ? at - FEATURE_SUGGEST_SCAN / 2 : 0;
    size_t end = count - from < FEATURE_SUGGEST_SCAN ? count : from + FEATURE_SUGGEST_SCAN;
    unsigned most = name.len / 2 > LETTERS ? LETTERS : (unsigned)name.len / 2;
    for (size_t i = from; list && i < end; i++) {
        unsigned d = edit_distance(name, list->at[i]->name, most);
        size_t rank = found;
        while (rank > 0 && d < distances[rank - 1]) {
            rank--;
        }
        if (d > most || rank == FEATURE_SUGGESTIONS) {
            continue;
        }
        found += found < FEATURE_SUGGESTIONS;
        for (size_t k = found - 1; k > rank; k--) {
            ret[k] = ret[k - 1];
            distances[k] = distances[k - 1];
        }
        ret[rank] = list->at[i]->name;
        distances[rank] = d;
    }
    return found;
}

/* -------------------------------------------------------------------------------------------------
 * The tools, prompts and completions a worker offers.
 */

void handlers_set_features(struct worker *worker, enum feature_kind kind, struct feature_list *list)
{
    feature_list_unref(worker->handlers->features[kind]);
    worker->handlers->features[kind] = list;
}

/* Returns true if any completion is available. */
static bool handlers_complete(const struct worker *worker)
{
    const struct feature_list *registered = worker->handlers->features[FEATURE_COMPLETION];
    bool any = registered && registered->count > 0;
    for (size_t i = 0; i < worker->catalog->mount_count && !any; i++) {
        any = worker->catalog->mounts[i]->ops->complete != NULL;
    }
    return any;
}

unsigned handlers_offers(const struct worker *worker)
{
    const struct feature_list *tools = worker->handlers->features[FEATURE_TOOL];
    const struct feature_list *prompts = worker->handlers->features[FEATURE_PROMPT];
    return (worker->self->has_tools || (tools && tools->count > 0) ? LIST_TOOLS : 0u) |
           (worker->self->has_prompts || (prompts && prompts->count > 0) ? LIST_PROMPTS : 0u) |
           (handlers_complete(worker) ? OFFER_COMPLETIONS : 0u) |
           (worker->self->no_subscriptions ? 0u : OFFER_SUBSCRIPTIONS) |
           ((tools && tools->has_tasks) || limit_in_use(worker->limit_counters, LIMIT_TASKS) > 0
                ? OFFER_TASKS
                : 0u) |
           (catalog_has_scheme(worker->catalog, STR(SKILL_SCHEME)) ? OFFER_SKILLS : 0u);
}

void handlers_deinit(struct worker *worker)
{
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(worker->handlers->features[i]);
    }
    mem_free(worker->handlers->counts);
}
