/* SPDX-License-Identifier: MIT
 *
 * Writing the header fields of a message.
 */
#include "client/http_headers.h"

#include "client/state.h"
#include "client/tool_headers.h"

#define MAX_LINE 16384u

static struct buf *http_headers_next_line(struct header_lines *h)
{
    struct buf *b = &h->lines[h->count++];
    buf_init(b, MAX_LINE);
    return b;
}

/* Lines that are made already. */
static void http_headers_put_fields(struct header_lines *h, struct tidings_str fields)
{
    struct tidings_str rest = fields;
    while (rest.len > 0 && h->count < HEADER_LINES) {
        buf_puts(http_headers_next_line(h), str_cut(rest, '\n', &rest, NULL));
    }
}

static void put_modern(struct header_lines *h, const struct transport_message *m)
{
    buf_puts(http_headers_next_line(h), STR("MCP-Protocol-Version: " CLIENT_MODERN));
    if (m && m->method) {
        buf_putf(http_headers_next_line(h), "Mcp-Method: %s", m->method);
        http_headers_put_fields(h, m->fields);
    }
    if (m && m->name.len > 0) {
        struct buf *line = http_headers_next_line(h);
        buf_puts(line, STR("Mcp-Name: "));
        tool_headers_put_value(line, m->name);
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
