/* SPDX-License-Identifier: MIT
 *
 * The absolute spelling of the URIs of entities: checked, and made into aliases.
 */
#include "server/entity_authority.h"

#include "base/error.h"
#include "provider/entity.h"
#include "uri/uri.h"

static int authority_reject(const char *why, struct tidings_str given, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "--entity-authority: '%.*s' %s (accepted: https://host/path, without user, "
                        "query and fragment, at most %u bytes)",
                        STR_ARG_MAX(given, 80), why, ENTITY_AUTHORITY_MAX);
}

static const char *find_flaw(struct tidings_str s)
{
    struct tidings_str path, host = STR_EMPTY;
    ptrdiff_t colon = str_find(s, ':');
    struct tidings_str scheme = tidings_strn(s.ptr, colon < 0 ? 0 : (size_t)colon);
    bool is_http = str_eq_nocase(scheme, STR("https")) || str_eq_nocase(scheme, STR("http"));
    if (is_http && str_starts(str_skip(s, scheme.len), STR("://"))) {
        host = str_cut(str_skip(s, scheme.len + 3), '/', &path, NULL);
    }
    return s.len > ENTITY_AUTHORITY_MAX          ? "is too long"
           : !is_http                            ? "does not begin with https:// or http://"
           : host.len == 0 || host.ptr[0] == ':' ? "names no host"
           : str_find(s, '?') >= 0               ? "has a query"
           : str_find(s, '#') >= 0               ? "has a fragment"
           : str_find(host, '@') >= 0            ? "names a user"
           : str_find(path, '*') >= 0 || str_find(path, '[') >= 0 || str_find(path, '{') >= 0
               ? "has characters of patterns"
               : NULL;
}

/* Canonical, without slashes at its end, with "/entity/" behind it. */
static int authority_put(struct tidings_str given, struct buf *out, struct tidings_error *err)
{
    int rc = uri_canonical(given, out, err);
    while (rc == 0 && out->len > 0 && out->ptr[out->len - 1] == '/') {
        out->len--;
    }
    buf_puts(out, STR(ENTITY_ALIAS));
    return rc < 0 ? rc : out->failed;
}

int entity_authority_check(const struct config *c, struct tidings_error *err)
{
    struct tidings_str given = tidings_str(c->entity_authority);
    struct tidings_error why = {0};
    if (given.len == 0) {
        return 0;
    }
    if (!c->entities[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--entity-authority: there are no entities; add --entities FILE");
    }
    const char *flaw = find_flaw(given);
    struct buf text;
    buf_init(&text, URI_MAX);
    if (!flaw && authority_put(given, &text, &why) < 0) {
        flaw = why.text;
    }
    buf_deinit(&text);
    return flaw ? authority_reject(flaw, given, err) : 0;
}

int entity_authority_init(struct entity_authority *a, const struct config *c,
                          struct tidings_error *err)
{
    a->count = 0;
    buf_init(&a->text, URI_MAX);
    if (!c || !c->entity_authority || c->entity_authority[0] == '\0') {
        return 0;
    }
    if (authority_put(tidings_str(c->entity_authority), &a->text, err) < 0) {
        entity_authority_deinit(a);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct uri_parts parts;
    uri_split(buf_str(&a->text), &parts);
    a->aliases[a->count++] = (struct uri_alias){buf_str(&a->text), STR(ENTITY_URI_PREFIX)};
    if (!str_eq(parts.path, STR(ENTITY_ALIAS))) {
        a->aliases[a->count++] = (struct uri_alias){parts.path, STR(ENTITY_URI_PREFIX)};
    }
    return 0;
}

void entity_authority_deinit(struct entity_authority *a)
{
    buf_deinit(&a->text);
    a->count = 0;
}

static const struct uri_alias *authority_find(const void *user, struct tidings_str in)
{
    const struct entity_authority *a = user;
    return uri_alias_find(a->aliases, a->count, in);
}

int entity_authority_canonical(const struct config *c, struct tidings_str in, bool is_pattern,
                               struct buf *out, struct tidings_error *err)
{
    struct entity_authority a;
    int rc = entity_authority_init(&a, c, err);
    rc = rc == 0 ? uri_alias_canonical(in, is_pattern, authority_find, &a, out, NULL, err) : rc;
    entity_authority_deinit(&a);
    return rc;
}
