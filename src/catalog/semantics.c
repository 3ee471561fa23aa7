/* SPDX-License-Identifier: MIT
 *
 * Writing tidings://self/semantics. Sources are sorted by URI, so those of one scheme ("x:") lie
 * side by side: the schemes are found by taking the least one above the last, over and over.
 */
#include "catalog/semantics.h"

#include "base/str.h"

#define FORM_COUNT (TIDINGS_FORM_RELATED + 1)

enum relation { ITSELF = 1, BELOW = 2, MATCHING = 4, RELATED = 8 };

/* The rules that hold in every scheme; `uri` goes behind "scheme:". */
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
    [TIDINGS_FORM_RELATED] = {"related", "{+resource}", "what its provider says depends on it",
                              RELATED},
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

/* Is this the first mount of its scheme with its table? Several mounts say the same once. */
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

/* Did the program register something there? It may announce it, with metadata. */
static bool semantics_has_entry(const struct entries *registered, struct tidings_str scheme)
{
    struct entries_position at = {0};
    struct catalog_entry *e = entries_next(registered, &at);
    while (e && !str_eq(semantics_scheme_of(e->about->uri), scheme)) {
        e = entries_next(registered, &at);
    }
    return e != NULL;
}

/* Can changes in that scheme carry metadata, which queries select by? */
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

/* Does what holds everywhere hold here? */
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
