/* SPDX-License-Identifier: MIT
 *
 * Writing the header fields of a message.
 */
#include "client/http_headers.h"

#include "client/state.h"

#define MAX_LINE 16384u

static struct buf *http_headers_next_line(struct header_lines *h)
{
    struct buf *b = &h->lines[h->count++];
    buf_init(b, MAX_LINE);
    return b;
}

/* Mcp-Name travels as it is when a header can carry it, else in base64 between markers. */
static void http_headers_put_name(struct buf *out, struct tidings_str name)
{
    bool is_plain = !str_starts(name, STR("=?base64?"));
    for (size_t i = 0; i < name.len; i++) {
        is_plain = is_plain && name.ptr[i] > ' ' && name.ptr[i] <= '~';
    }
    buf_puts(out, STR("Mcp-Name: "));
    if (is_plain) {
        buf_puts(out, name);
        return;
    }
    buf_puts(out, STR("=?base64?"));
    base64_put(out, name);
    buf_puts(out, STR("?="));
}

static void put_modern(struct header_lines *h, const struct transport_message *m)
{
    buf_puts(http_headers_next_line(h), STR("MCP-Protocol-Version: " CLIENT_MODERN));
    if (m && m->method) {
        buf_putf(http_headers_next_line(h), "Mcp-Method: %s", m->method);
    }
    if (m && m->name.len > 0) {
        http_headers_put_name(http_headers_next_line(h), m->name);
    }
}

static void put_legacy(struct header_lines *h, const struct tidings_client *c,
                       const struct header_state *state)
{
    if (c->has_info) {
        buf_putf(http_headers_next_line(h), "MCP-Protocol-Version: %s", c->info.version);
    }
    if (state->session[0]) {
        buf_putf(http_headers_next_line(h), "Mcp-Session-Id: %s", state->session);
    }
    if (state->last_event_id && state->last_event_id[0]) {
        buf_putf(http_headers_next_line(h), "Last-Event-ID: %s", state->last_event_id);
    }
}

int header_lines_init(struct header_lines *h, const struct tidings_client *c,
                      const struct transport_message *m, const struct header_state *state)
{
    int rc = 0;
    h->count = 0;
    buf_puts(http_headers_next_line(h), m ? STR("Accept: application/json, text/event-stream")
                                          : STR("Accept: text/event-stream"));
    buf_puts(http_headers_next_line(h), STR("Expect:")); /* the library's own is not wanted */
    if (m) {
        buf_puts(http_headers_next_line(h), STR("Content-Type: application/json"));
    }
    if (c->era == TIDINGS_ERA_LEGACY) {
        put_legacy(h, c, state);
    } else {
        put_modern(h, m);
    }
    for (size_t i = 0; i < h->count && rc == 0; i++) {
        rc = h->lines[i].failed;
    }
    return rc;
}

void header_lines_deinit(struct header_lines *h)
{
    for (size_t i = 0; i < h->count; i++) {
        buf_deinit(&h->lines[i]);
    }
    h->count = 0;
}

char *endpoint_resolve(const char *url, struct tidings_str where)
{
    struct tidings_str base = tidings_str(url);
    const char *scheme_end = strstr(url, "://");
    if (!scheme_end || where.len == 0 || str_starts(where, STR("//"))) {
        return NULL;
    }
    for (size_t i = 0; i < where.len; i++) {
        if (where.ptr[i] <= ' ' || where.ptr[i] > '~') {
            return NULL;
        }
    }
    size_t origin = (size_t)(scheme_end + 3 - url) + strcspn(scheme_end + 3, "/?#");
    size_t folder = origin;
    for (size_t i = origin; i < base.len && base.ptr[i] != '?' && base.ptr[i] != '#'; i++) {
        folder = base.ptr[i] == '/' ? i : folder;
    }
    bool is_whole = where.len > origin && memcmp(where.ptr, url, origin) == 0 &&
                    (where.ptr[origin] == '/' || where.ptr[origin] == '?');
    bool is_rooted = where.ptr[0] == '/';
    if (!is_whole && !is_rooted && str_find(where, ':') >= 0) {
        return NULL; /* an address, but not of that server */
    }
    struct buf out;
    buf_init(&out, 8192);
    if (!is_whole) {
        buf_put(&out, url, is_rooted ? origin : folder);
        buf_puts(&out, is_rooted ? STR("") : STR("/"));
    }
    buf_puts(&out, where);
    if (out.failed) {
        buf_deinit(&out);
    }
    return buf_detach(&out, NULL);
}
