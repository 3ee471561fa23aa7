/* SPDX-License-Identifier: MIT
 *
 * Which scopes a denied request lacks. What is denied is answered as if it were not there. But
 * where a scope would have allowed it, the client may get itself a token that has it: so it is told
 * which (RFC 6750 §3.1). That depends on the rules, the URI and the token alone, and so says
 * nothing of what is there.
 */
#include "access/access.h"
#include "catalog/catalog.h"
#include "request/request.h"
#include "uri/uri.h"

#define SCOPES_MAX 4096u

/* What a method does with the URI it names; 0: others are not told. */
static unsigned ops_of(struct tidings_str method)
{
    static const struct {
        const char *method;
        unsigned ops;
    } rows[] = {
        {"resources/read", 1u << ACCESS_READ},
        {"resources/subscribe", 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE},
        {"resources/metadata", 1u << ACCESS_LIST},
        {"resources/list", 1u << ACCESS_LIST},
        {"resources/directory/read", 1u << ACCESS_LIST},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (str_eq(method, tidings_str(rows[i].method))) {
            return rows[i].ops;
        }
    }
    return 0;
}

static bool request_may(const struct request *request, unsigned ops, struct tidings_str uri)
{
    for (unsigned op = 0; op < ACCESS_OPS; op++) {
        if ((ops & 1u << op) != 0 && !access_allows(request->principal, (enum access_op)op, uri)) {
            return false;
        }
    }
    return true;
}

void request_note_denial(struct request *request, int code, struct tidings_str spelled)
{
    request->is_denied = request->is_denied || code == TIDINGS_E_DENIED;
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED;
    unsigned ops = is_missing && spelled.len > 0 ? ops_of(request->msg.method) : 0;
    if (ops == 0 || !request->principal || !request->principal->class) {
        return;
    }
    struct buf uri, scopes;
    buf_init(&uri, URI_MAX * 3);
    buf_init(&scopes, SCOPES_MAX);
    bool is_known = catalog_canonical(request->worker->catalog, spelled, false, &uri, NULL) == 0;
    if (is_known && !request_may(request, ops, buf_str(&uri))) {
        request->is_denied = true;
    }
    if (is_known && access_put_missing(request->principal, ops, buf_str(&uri), &scopes) == 0 &&
        scopes.len > 0) {
        struct tidings_str copy = arena_dup(&request->arena, buf_str(&scopes));
        request->headers.scope = copy.ptr ? copy : STR_EMPTY;
    }
    buf_deinit(&scopes);
    buf_deinit(&uri);
}

/* Another scope, once. */
static void request_add_scopes(struct buf *all, struct tidings_str more)
{
    while (more.len > 0) {
        struct tidings_str word = str_cut(more, ' ', &more, NULL), rest = buf_str(all);
        bool is_there = false;
        while (rest.len > 0 && !is_there) {
            is_there = str_eq(str_cut(rest, ' ', &rest, NULL), word);
        }
        if (!is_there) {
            buf_puts(all, all->len > 0 ? STR(" ") : STR_EMPTY);
            buf_puts(all, word);
        }
    }
}

bool request_lacks_scopes(struct request *request, struct json *uris)
{
    const unsigned ops = 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE;
    const struct principal *principal = request->principal;
    struct buf uri, scopes, all;
    bool lacks = request->channel->ops->is_http && principal && principal->class;
    buf_init(&all, SCOPES_MAX);
    buf_puts(&all, STR_EMPTY);
    for (size_t i = 0; i < jv_count(uris) && lacks; i++) {
        struct tidings_str spelled = jv_str(jv_at(uris, i));
        buf_init(&uri, URI_MAX * 3);
        buf_init(&scopes, SCOPES_MAX);
        lacks = catalog_canonical(request->worker->catalog, spelled, false, &uri, NULL) == 0 &&
                !request_may(request, ops, buf_str(&uri)) &&
                access_put_missing(principal, ops, buf_str(&uri), &scopes) == 0 && scopes.len > 0;
        request_add_scopes(&all, buf_str(&scopes));
        buf_deinit(&scopes);
        buf_deinit(&uri);
    }
    struct tidings_str copy =
        lacks && !all.failed ? arena_dup(&request->arena, buf_str(&all)) : STR_EMPTY;
    buf_deinit(&all);
    if (copy.len > 0) {
        request->headers.scope = copy;
        request->is_denied = true;
    }
    return copy.len > 0;
}
