/* SPDX-License-Identifier: MIT
 *
 * Resource objects as JSON. Unknown fields are left out; capabilities are always written (absent
 * would mean "unknown" to clients of SEP-2093). `size` is raw bytes.
 */
#include "engine/catalog/resource.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "formats/json.h"

/* -------------------------------------------------------------------------------------------------
 * Writing tidings://self/semantics. Sources are sorted by URI, so those of one scheme ("x:") are
 * adjacent: the loop repeatedly takes the least scheme above the last.
 */

#define FORM_COUNT (TIDINGS_FORM_RELATED + 1)

enum relation { ITSELF = 1, BELOW = 2, MATCHING = 4, RELATED = 8 };

/* The rules of every scheme; `uri` is appended to "scheme:". */
static const struct {
    const char *name, *uri, *covers;
    unsigned relations;
} forms[FORM_COUNT] = {
    [TIDINGS_FORM_RESOURCE] = {"resource", "{+resource}",
                               "that resource; if it has children, everything below it",
                               ITSELF | BELOW},
    [TIDINGS_FORM_QUERY] = {"query", "{+path}?{+attributes}",
                            "changes at or below the path whose metadata has all those values",
                            MATCHING},
    [TIDINGS_FORM_TEMPLATE] = {"template", "{+template}",
                               "every URI the RFC 6570 template can produce", MATCHING},
    [TIDINGS_FORM_GLOB] = {"glob", "{+glob}",
                           "'*' within a segment, '**' across segments, '[a-z]', '[!a]'", MATCHING},
    [TIDINGS_FORM_CONTAINER] = {"container", "{+path}/",
                                "everything below, whether it exists yet or not", BELOW},
    [TIDINGS_FORM_REGEX] = {"regex", "{+regex}",
                            "with the option match: \"regex\": every URI it is found in", MATCHING},
    [TIDINGS_FORM_RELATED] = {"related", "{+resource}",
                              "resources that depend on it, as its provider reports", RELATED},
};

/* Empty for a template whose scheme is a variable. */
static struct tidings_str semantics_scheme_of(struct tidings_str uri)
{
    struct tidings_str scheme = str_cut(uri, ':', &uri, NULL);
    return str_find(scheme, '{') >= 0 ? STR_EMPTY : scheme;
}

static void semantics_consider(struct tidings_str uri, struct tidings_str after,
                               struct tidings_str *least)
{
    struct tidings_str scheme = semantics_scheme_of(uri);
    if (str_cmp(scheme, after) > 0 && (least->len == 0 || str_cmp(scheme, *least) < 0)) {
        *least = scheme;
    }
}

/* The least scheme above `after`; empty: none. */
static struct tidings_str next_scheme(const struct catalog *c, struct tidings_str after)
{
    struct tidings_str least = STR_EMPTY;
    for (size_t i = 0; i < c->mount_count; i++) {
        semantics_consider(c->mounts[i]->prefix, after, &least);
    }
    const struct entries *registered[] = {&c->resources, &c->templates};
    for (size_t i = 0; i < 2; i++) {
        struct entries_position at = {0};
        for (struct catalog_entry *e; (e = entries_next(registered[i], &at)) != NULL;) {
            semantics_consider(e->about->uri, after, &least);
        }
    }
    return least;
}

static void write_form(struct jw *w, enum tidings_form form, struct tidings_str uri,
                       struct tidings_str covers)
{
    static const char *const relations[] = {"itself", "below", "matching", "related"};
    jw_begin_object(w);
    jw_put_string(w, STR("form"), tidings_str(forms[form].name));
    jw_put_string(w, STR("uri"), uri);
    jw_key(w, STR("covers"));
    jw_begin_array(w);
    for (unsigned i = 0; i < 4; i++) {
        if (forms[form].relations & (1u << i)) {
            jw_string(w, tidings_str(relations[i]));
        }
    }
    jw_end_array(w);
    jw_put_string(w, STR("description"), covers);
    jw_end_object(w);
}

static void write_general(struct jw *w, enum tidings_form form, struct tidings_str scheme)
{
    struct buf uri;
    buf_init(&uri, scheme.len + 64);
    buf_puts(&uri, scheme);
    buf_putc(&uri, ':');
    buf_puts(&uri, tidings_str(forms[form].uri));
    write_form(w, form, buf_str(&uri), tidings_str(forms[form].covers));
    if (uri.failed && !w->out->failed) {
        w->out->failed = uri.failed;
    }
    buf_deinit(&uri);
}

/* The rows of one provider for one form: how many. */
static size_t semantics_write_rows(struct jw *w, const struct tidings_provider_ops *ops,
                                   enum tidings_form form)
{
    size_t n = 0;
    for (const struct tidings_semantics *row = ops->semantics; row && row->uri; row++) {
        if (row->form == form) {
            write_form(w, form, tidings_str(row->uri), tidings_str(row->covers));
            n++;
        }
    }
    return n;
}

/* Returns true for the first mount of its scheme with its table. Other such mounts have the same
 * rules, which are written once. */
static bool is_first(const struct catalog *c, size_t index, struct tidings_str scheme)
{
    for (size_t i = 0; i < index; i++) {
        if (c->mounts[i]->ops == c->mounts[index]->ops &&
            str_eq(semantics_scheme_of(c->mounts[i]->prefix), scheme)) {
            return false;
        }
    }
    return true;
}

/* Returns true if the program registered a resource there. It may announce it, with metadata. */
static bool semantics_has_entry(const struct entries *registered, struct tidings_str scheme)
{
    struct entries_position at = {0};
    struct catalog_entry *e = entries_next(registered, &at);
    while (e && !str_eq(semantics_scheme_of(e->about->uri), scheme)) {
        e = entries_next(registered, &at);
    }
    return e != NULL;
}

/* Returns true if changes in that scheme can carry metadata, which queries select by. */
static bool has_metadata(const struct catalog *c, struct tidings_str scheme)
{
    bool has =
        semantics_has_entry(&c->resources, scheme) || semantics_has_entry(&c->templates, scheme);
    for (size_t i = 0; !has && i < c->mount_count; i++) {
        has = str_eq(semantics_scheme_of(c->mounts[i]->prefix), scheme) &&
              !(c->mounts[i]->ops->flags & TIDINGS_PROVIDER_BARE_CHANGES);
    }
    return has;
}

/* Returns true if a general rule applies to this scheme. */
static bool is_general(unsigned form, bool has_relation, bool has_queries)
{
    return form == TIDINGS_FORM_RELATED ? has_relation
           : form == TIDINGS_FORM_QUERY ? has_queries
                                        : true;
}

static void write_scheme(struct jw *w, const struct catalog *c, struct tidings_str scheme,
                         bool has_queries)
{
    bool has_relation = false;
    jw_begin_array(w);
    for (unsigned form = 0; form < FORM_COUNT; form++) {
        size_t rows = 0;
        for (size_t i = 0; i < c->mount_count; i++) {
            if (str_eq(semantics_scheme_of(c->mounts[i]->prefix), scheme)) {
                rows += is_first(c, i, scheme)
                            ? semantics_write_rows(w, c->mounts[i]->ops, (enum tidings_form)form)
                            : 0;
                has_relation = has_relation || c->mounts[i]->ops->covers;
            }
        }
        if (rows == 0 && is_general(form, has_relation, has_queries)) {
            write_general(w, (enum tidings_form)form, scheme);
        }
    }
    jw_end_array(w);
}

void semantics_write(struct jw *w, const struct catalog *c, bool allow_write)
{
    jw_begin_object(w);
    jw_key(w, STR("schemes"));
    jw_begin_object(w);
    for (struct tidings_str scheme = next_scheme(c, STR_EMPTY); scheme.len > 0;
         scheme = next_scheme(c, scheme)) {
        jw_key(w, scheme);
        write_scheme(w, c, scheme, allow_write || has_metadata(c, scheme));
    }
    jw_end_object(w);
    jw_end_object(w);
}

/* -------------------------------------------------------------------------------------------------
 * Checking the keys of an application's `_meta`.
 */

static bool is_reserved(struct tidings_str key)
{
    bool has_prefix = false, more = true;
    struct tidings_str rest, prefix = str_cut(key, '/', &rest, &has_prefix);
    for (size_t i = 0; has_prefix && more; i++) {
        struct tidings_str label = str_cut(prefix, '.', &prefix, &more);
        bool is_theirs = str_eq(label, STR("mcp")) || str_eq(label, STR("modelcontextprotocol"));
        if (is_theirs && (i == 1 || more)) {
            return true;
        }
    }
    return false;
}

static bool is_prefix_ours(struct tidings_str key)
{
    return str_starts(key, STR("dev.tidings/")) || str_starts(key, STR("dev.tidings."));
}

int meta_check(struct tidings_str text, size_t max_bytes, unsigned max_depth,
               struct tidings_error *err)
{
    struct json *meta = NULL, *value = NULL;
    struct tidings_str key;
    if (text.len == 0) {
        return 0;
    }
    if (text.len > max_bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "_meta may be at most %zu bytes long", max_bytes);
    }
    int rc = jv_parse(text, max_depth, &meta, err);
    if (rc < 0) {
        return error_wrap(err, rc, "_meta");
    }
    if (!jv_is(meta, JV_OBJECT)) {
        jv_unref(meta);
        return tidings_fail(err, TIDINGS_E_INVALID, "_meta must be a JSON object");
    }
    for (void *at = jv_next(meta, NULL, &key, &value); at && rc == 0;
         at = jv_next(meta, at, &key, &value)) {
        if (is_reserved(key) || is_prefix_ours(key)) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "_meta: the prefix of '%.*s' is reserved by %s", STR_ARG_MAX(key, 64),
                              is_prefix_ours(key) ? "the server" : "the protocol");
        }
    }
    jv_unref(meta);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define JSON_TEXT_DEPTH 16u

/* By listable and subscribable: written often. */
static const struct tidings_str capabilities[2][2] = {
    {{"{\"list\":false,\"subscribe\":false}", 32}, {"{\"list\":false,\"subscribe\":true}", 31}},
    {{"{\"list\":true,\"subscribe\":false}", 31}, {"{\"list\":true,\"subscribe\":true}", 30}},
};

static void resource_put_text(struct jw *w, struct tidings_str key, struct tidings_str value)
{
    if (value.len > 0) {
        jw_put_string(w, key, value);
    }
}

/* JSON as the application wrote it, perhaps over several lines, which would end a message: white
 * space is all that a byte below the blank can be. */
static void write_text_json(struct jw *w, struct tidings_str text)
{
    size_t from = w->out->len;
    jw_raw(w, text);
    for (size_t i = from; i < w->out->len; i++) {
        w->out->ptr[i] = (unsigned char)w->out->ptr[i] < ' ' ? ' ' : w->out->ptr[i];
    }
}

static void put_text_json(struct jw *w, struct tidings_str key, struct tidings_str text)
{
    jw_key(w, key);
    write_text_json(w, text);
}

static void write_annotations(struct jw *w, const struct tidings_resource *r)
{
    if (r->modified_ms == 0 && r->audience.len == 0 && !r->has_priority) {
        return;
    }
    jw_key(w, STR("annotations"));
    jw_begin_object(w);
    if (r->audience.len > 0) {
        put_text_json(w, STR("audience"), r->audience);
    }
    if (r->has_priority) {
        jw_key(w, STR("priority"));
        jw_number(w, r->priority);
    }
    if (r->modified_ms != 0) {
        char iso[25];
        clock_format_iso(r->modified_ms, iso);
        jw_put_string(w, STR("lastModified"), tidings_strn(iso, 24));
    }
    jw_end_object(w);
}

static void write_formats(struct jw *w, const struct tidings_resource *r)
{
    jw_key(w, STR("dev.tidings/formats"));
    if (r->formats.len > 0) {
        write_text_json(w, r->formats);
        return;
    }
    jw_begin_array(w);
    jw_string(w, r->mime_type);
    jw_end_array(w);
}

static void write_range(struct jw *w, const struct tidings_resource *r,
                        const struct resource_meta *meta)
{
    jw_key(w, STR("dev.tidings/range"));
    jw_begin_object(w);
    jw_put_string(w, STR("unit"), STR("bytes"));
    jw_put_integer(w, STR("from"), meta->from);
    jw_put_integer(w, STR("to"), meta->to);
    jw_put_integer(w, STR("total"), r->size);
    jw_end_object(w);
}

static void resource_write_meta(struct jw *w, const struct tidings_resource *r,
                                const struct resource_meta *meta)
{
    bool has_formats = meta->has_formats && (r->formats.len > 0 || r->mime_type.len > 0);
    struct tidings_str own = str_trim(r->meta, " \t\r\n");
    own = own.len > 2 ? str_trim(tidings_strn(own.ptr + 1, own.len - 2), " \t\r\n") : STR_EMPTY;
    if (r->etag.len == 0 && !meta->is_part && !has_formats && own.len == 0) {
        return;
    }
    jw_key(w, STR("_meta"));
    jw_begin_object(w);
    if (r->etag.len > 0) {
        jw_put_string(w, STR("dev.tidings/etag"), r->etag);
    }
    if (meta->is_part) {
        write_range(w, r, meta);
    }
    if (has_formats) {
        write_formats(w, r);
    }
    if (own.len > 0) {
        write_text_json(w, own); /* its members */
    }
    jw_end_object(w);
}

void resource_write_with(struct jw *w, struct tidings_str uri_key, const struct tidings_resource *r,
                         const struct resource_meta *meta)
{
    jw_put_string(w, uri_key, r->uri);
    jw_put_string(w, STR("name"), r->name.len > 0 ? r->name : r->uri);
    resource_put_text(w, STR("title"), r->title);
    resource_put_text(w, STR("description"), r->description);
    resource_put_text(w, STR("mimeType"), r->mime_type);
    if (r->has_size) {
        jw_put_integer(w, STR("size"), r->size);
    }
    if (r->icons.len > 0) {
        put_text_json(w, STR("icons"), r->icons);
    }
    write_annotations(w, r);
    jw_put_raw(w, STR("capabilities"), capabilities[r->listable][!r->not_subscribable]);
    resource_write_meta(w, r, meta);
}

void resource_write_members(struct jw *w, struct tidings_str uri_key,
                            const struct tidings_resource *r)
{
    static const struct resource_meta none;
    resource_write_with(w, uri_key, r, &none);
}

void resource_write_content(struct jw *w, struct tidings_str bytes, bool is_text)
{
    jw_key(w, is_text ? STR("text") : STR("blob"));
    if (is_text) {
        jw_string(w, bytes);
    } else {
        jw_base64(w, bytes);
    }
}

/* ---- content blocks -------------------------------------------------------------------------- */

void resource_write_link(struct jw *w, const struct tidings_resource *r)
{
    jw_put_string(w, STR("type"), STR("resource_link"));
    resource_write_members(w, STR("uri"), r);
}

void resource_write_embedded(struct jw *w, const struct tidings_resource *r,
                             struct tidings_str bytes, bool is_text)
{
    struct tidings_resource row = *r;
    if (!row.has_size) {
        row.size = (int64_t)bytes.len;
        row.has_size = true;
    }
    jw_put_string(w, STR("type"), STR("resource"));
    jw_key(w, STR("resource"));
    jw_begin_object(w);
    resource_write_members(w, STR("uri"), &row);
    resource_write_content(w, bytes, is_text);
    jw_end_object(w);
}

static void write_but_annotations(struct jw *w, struct json *object)
{
    struct tidings_str key;
    struct json *value = NULL;
    for (void *at = jv_next(object, NULL, &key, &value); at;
         at = jv_next(object, at, &key, &value)) {
        if (!str_eq(key, STR("annotations"))) {
            jw_key(w, key);
            jw_value(w, value);
        }
    }
}

void resource_write_block(struct jw *w, struct json *block)
{
    struct json *inner = jv_get(block, "resource");
    struct json *outer = jv_get(block, "annotations");
    bool moves =
        str_eq(jv_str(jv_get(block, "type")), STR("resource")) && jv_is(inner, JV_OBJECT) && outer;
    struct tidings_str key;
    struct json *value = NULL;
    for (void *at = jv_next(block, NULL, &key, &value); at; at = jv_next(block, at, &key, &value)) {
        if (moves && value == outer) {
            continue;
        }
        jw_key(w, key);
        if (!moves || value != inner) {
            jw_value(w, value);
            continue;
        }
        struct json *own = jv_get(inner, "annotations");
        jw_begin_object(w);
        write_but_annotations(w, inner);
        jw_key(w, STR("annotations"));
        jw_value(w, own ? own : outer);
        jw_end_object(w);
    }
}

/* ---- registration ---------------------------------------------------------------------------- */

/* Empty, or a JSON array whose elements are all of one type. */
static int check_array(struct tidings_str text, const char *name, enum jv_type type,
                       struct tidings_error *err)
{
    struct json *array = NULL;
    if (text.len == 0) {
        return 0;
    }
    int rc = jv_parse(text, JSON_TEXT_DEPTH, &array, err);
    if (rc < 0) {
        return error_wrap(err, rc, "%s", name);
    }
    bool good = jv_is(array, JV_ARRAY);
    for (size_t i = 0; i < jv_count(array) && good; i++) {
        good = jv_is(jv_at(array, i), type);
    }
    jv_unref(array);
    return good ? 0
                : tidings_fail(err, TIDINGS_E_INVALID, "%s must be a JSON array of %s", name,
                               type == JV_OBJECT ? "objects" : "strings");
}

int resource_check_meta(const struct tidings_resource *r, struct tidings_error *err)
{
    return meta_check(r->meta, META_MAX_BYTES, META_MAX_DEPTH, err);
}

int resource_check(const struct tidings_resource *r, struct tidings_error *err)
{
    if (r->has_priority && !(r->priority >= 0 && r->priority <= 1)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "priority must be from 0 to 1");
    }
    int rc = RESERVED_CHECK(r, err);
    rc = rc < 0 ? rc : resource_check_meta(r, err);
    rc = rc < 0 ? rc : check_array(r->icons, "icons", JV_OBJECT, err);
    rc = rc < 0 ? rc : check_array(r->audience, "audience", JV_STRING, err);
    return rc < 0 ? rc : check_array(r->formats, "formats", JV_STRING, err);
}

/* The slices of a resource, for copying them all alike. */
#define RESOURCE_SLICES(X)                                                                         \
    X(uri)                                                                                         \
    X(name) X(title) X(description) X(mime_type) X(etag) X(icons) X(audience) X(formats) X(meta)

struct tidings_resource *resource_dup(const struct tidings_resource *r)
{
    size_t extra = 0;
#define ADD_LENGTH(field) extra += r->field.len;
    RESOURCE_SLICES(ADD_LENGTH)
#undef ADD_LENGTH
    struct tidings_resource *copy = mem_alloc(sizeof(*copy) + extra);
    if (!copy) {
        return NULL;
    }
    *copy = *r;
    char *at = (char *)(copy + 1);
#define COPY_SLICE(field)                                                                          \
    if (r->field.len > 0) {                                                                        \
        memcpy(at, r->field.ptr, r->field.len);                                                    \
    }                                                                                              \
    copy->field.ptr = at;                                                                          \
    at += r->field.len;
    RESOURCE_SLICES(COPY_SLICE)
#undef COPY_SLICE
    return copy;
}
