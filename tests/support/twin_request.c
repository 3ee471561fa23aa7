/* SPDX-License-Identifier: MIT
 *
 * Messages, and the ways they are sent.
 */
#include "support/twin_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "base/time.h"

static void put_message(struct buf *out, unsigned id, const char *method, const struct buf *params,
                        const struct buf *meta, bool is_modern)
{
    buf_putf(out, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{\"_meta\":{", id,
             method);
    buf_puts(out, is_modern ? STR("\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                                  "\"io.modelcontextprotocol/clientCapabilities\":{},"
                                  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\","
                                  "\"version\":\"1\"}")
                            : STR("\"x\":1"));
    buf_puts(out, buf_str(meta));
    buf_putf(out, "}%s", params->len > 0 ? "," : "");
    buf_puts(out, buf_str(params));
    buf_puts(out, STR("}}"));
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct parts {
    struct buf params, meta;
};

static void parts_init(struct parts *p)
{
    buf_init(&p->params, 1u << 14);
    buf_init(&p->meta, 1u << 14);
}

static void parts_deinit(struct parts *p)
{
    buf_deinit(&p->params);
    buf_deinit(&p->meta);
}

#define POSTED                                                                                     \
    "POST /mcp\nContent-Type: application/json\nAccept: application/json, text/event-stream\n"

static void ask_modern(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    struct parts p;
    const char *name;
    parts_init(&p);
    const char *method = twin_put_call(c, number, &p.params, &p.meta, &name);
    s->wire = TWIN_ASKS;
    buf_putf(&s->head, POSTED "MCP-Protocol-Version: 2026-07-28\nMcp-Method: %s", method);
    if (name && name[0]) {
        buf_putf(&s->head, "\nMcp-Name: %s", name);
    }
    put_message(&s->body, number + 10, method, &p.params, &p.meta, true);
    parts_deinit(&p);
}

static void ask_legacy(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    struct parts p;
    const char *name, *method;
    parts_init(&p);
    if (twin_choose(c, 2) == 0) {
        struct buf uri;
        buf_init(&uri, TWIN_URI);
        method = "resources/subscribe";
        buf_puts(&p.meta, STR(",\"dev.tidings/options\":"));
        twin_put_wish(c, &uri, &p.meta);
        buf_putf(&p.params, "\"uri\":\"%.*s\"", (int)uri.len, uri.ptr);
        buf_deinit(&uri);
    } else {
        method = twin_put_call(c, number, &p.params, &p.meta, &name);
    }
    put_message(&s->body, number + 10, method, &p.params, &p.meta, false);
    switch (twin_choose(c, 8)) {
    case 0:
        s->wire = TWIN_LINES;
        break;
    case 1:
        s->wire = TWIN_SOCKET;
        break;
    case 2:
        s->wire = TWIN_ASKS;
        buf_puts(&s->head, STR("POST $M\nContent-Type: application/json"));
        break;
    default:
        s->wire = TWIN_ASKS;
        buf_puts(&s->head, STR(POSTED "MCP-Protocol-Version: 2025-11-25\nMcp-Session-Id: $S"));
        break;
    }
    parts_deinit(&p);
}

static void initialize(enum twin_wire_name wire, bool is_sse, unsigned number, struct twin_step *s)
{
    s->wire = wire;
    s->kind = s->wire == TWIN_ASKS ? TWIN_STEP_ASK : TWIN_STEP_ANEW;
    buf_puts(&s->head, is_sse ? STR("POST $M\nContent-Type: application/json")
                              : STR("POST /mcp\nContent-Type: application/json\n"
                                    "Accept: application/json, text/event-stream"));
    buf_putf(&s->body,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":"
             "\"x\",\"version\":\"1\"}}}",
             number + 10);
}

static void open_stream(struct twin_choices *c, struct twin_step *s)
{
    s->kind = TWIN_STEP_ANEW;
    if (twin_choose(c, 4) == 0) {
        s->wire = TWIN_LISTENS_TOO;
        buf_puts(&s->head, STR("GET /sse\nAccept: text/event-stream"));
        return;
    }
    s->wire = TWIN_SESSION;
    buf_puts(&s->head, STR("GET /mcp\nAccept: text/event-stream\nMCP-Protocol-Version: 2025-11-25\n"
                           "Mcp-Session-Id: $S"));
    if (twin_choose(c, 2)) {
        buf_puts(&s->head, STR("\nLast-Event-ID: $I"));
    }
}

static void open_listen(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    struct parts p;
    struct buf uri, options;
    parts_init(&p);
    buf_init(&uri, TWIN_URI);
    buf_init(&options, 4096);
    buf_puts(&p.params, STR("\"notifications\":{"));
    buf_puts(&p.params, twin_choose(c, 2) ? STR("\"resourcesListChanged\":true,") : STR_EMPTY);
    buf_puts(&p.params, STR("\"resourceSubscriptions\":["));
    buf_puts(&p.meta, STR(",\"dev.tidings/options\":{\"windowMs\":0,\"uris\":{"));
    unsigned count = 1 + twin_choose(c, 3);
    for (unsigned i = 0; i < count; i++) {
        buf_clear(&uri);
        buf_clear(&options);
        twin_put_wish(c, &uri, &options);
        bool is_new = memmem(p.meta.ptr, p.meta.len, uri.ptr, uri.len) == NULL;
        if (is_new) {
            buf_putf(&p.params, "%s\"%.*s\"", i ? "," : "", (int)uri.len, uri.ptr);
            buf_putf(&p.meta, "%s\"%.*s\":%.*s", i ? "," : "", (int)uri.len, uri.ptr,
                     (int)options.len, options.ptr);
        }
    }
    buf_puts(&p.params, STR("]}"));
    buf_puts(&p.meta, STR("}}"));
    static const enum twin_wire_name wires[] = {TWIN_LISTENS,     TWIN_LISTENS, TWIN_LISTENS,
                                                TWIN_LISTENS_TOO, TWIN_LINES,   TWIN_SOCKET};
    s->wire = TWIN_PICK(c, wires);
    s->kind = s->wire >= TWIN_LINES ? TWIN_STEP_ASK : TWIN_STEP_ANEW;
    buf_puts(&s->head, STR(POSTED "MCP-Protocol-Version: 2026-07-28\n"
                                  "Mcp-Method: subscriptions/listen"));
    put_message(&s->body, number + 10, "subscriptions/listen", &p.params, &p.meta, true);
    buf_deinit(&uri);
    buf_deinit(&options);
    parts_deinit(&p);
}

static void put_encoded(struct buf *out, const char *uri)
{
    for (; *uri; uri++) {
        if (*uri == '%' || *uri == '&' || *uri == '?' || *uri == ' ' || *uri == '#') {
            buf_putf(out, "%%%02X", (unsigned)(unsigned char)*uri);
        } else {
            buf_putc(out, *uri);
        }
    }
}

static void ask_plain(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    static const char *const methods[] = {"GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE"};
    static const char *const fields[] = {
        "",
        "",
        "\nIf-None-Match: \"$E\"",
        "\nIf-None-Match: *",
        "\nIf-Match: *",
        "\nIf-Match: \"2100-01-01T00:00:02.000Z\"",
        "\nRange: bytes=3-",
        "\nRange: bytes=-4",
        "\nRange: bytes=100000-",
        "\nAccept: image/png",
        "\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
        "\nOrigin: http://elsewhere.example",
        "\nTidings-At-Least: $C",
    };
    char uri[TWIN_URI];
    twin_choose_uri(c, uri);
    s->wire = TWIN_ASKS;
    bool changes = twin_choose(c, 5) == 0;
    bool is_patch = changes && twin_choose(c, 2);
    buf_putf(&s->head, "%s ", !changes ? TWIN_PICK(c, methods) : is_patch ? "PATCH" : "PUT");
    if (uri[0] == '/') {
        buf_puts(&s->head, tidings_str(uri));
    } else {
        buf_puts(&s->head, STR("/resource?uri="));
        put_encoded(&s->head, uri);
    }
    buf_puts(&s->head, tidings_str(TWIN_PICK(c, fields)));
    if (!changes) {
        return;
    }
    /* The id of a PUT must be free in both worlds, or not name an entity. */
    bool may_create = !is_patch && (strstr(uri, "/h") || strstr(uri, "none"));
    buf_putf(&s->head, "\nContent-Type: %s",
             is_patch ? "application/merge-patch+json" : "application/json");
    buf_putf(&s->body, may_create ? "{\"n\":\"%u\"}" : "{\"n\":%u}", number);
}

#define ALL "\"docs:///**\",\"pub:///**\",\"entity:///note@1/\""

bool twin_request_begin(unsigned n, struct twin_step *s)
{
    static const uint8_t first[] = {1, 0};
    struct parts p;
    struct twin_choices c;
    switch (n) {
    case 0:
        initialize(TWIN_ASKS, false, n, s);
        return true;
    case 1:
        twin_choices_init(&c, first, sizeof(first));
        open_stream(&c, s);
        return true;
    case 2:
    case 3:
        initialize(n == 2 ? TWIN_LINES : TWIN_SOCKET, false, n, s);
        return true;
    case 4:
    case 5:
        parts_init(&p);
        s->wire = n == 4 ? TWIN_LISTENS : TWIN_ASKS;
        s->kind = n == 4 ? TWIN_STEP_ANEW : TWIN_STEP_ASK;
        buf_puts(&p.meta, STR(",\"dev.tidings/options\":{\"windowMs\":0,\"include\":\"value\"}"));
        buf_puts(&p.params, n == 4 ? STR("\"notifications\":{\"resourcesListChanged\":true,"
                                         "\"resourceSubscriptions\":[" ALL "]}")
                                   : STR("\"uri\":\"docs:///**\""));
        buf_puts(&s->head, n == 4 ? STR(POSTED "MCP-Protocol-Version: 2026-07-28\n"
                                               "Mcp-Method: subscriptions/listen")
                                  : STR(POSTED "MCP-Protocol-Version: 2025-11-25\n"
                                               "Mcp-Session-Id: $S"));
        put_message(&s->body, n, n == 4 ? "subscriptions/listen" : "resources/subscribe", &p.params,
                    &p.meta, n == 4);
        parts_deinit(&p);
        return true;
    default:
        return false;
    }
}

void twin_request_choose(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    static const enum twin_wire_name wires[] = {TWIN_ASKS, TWIN_ASKS, TWIN_LINES, TWIN_SOCKET};
    s->kind = TWIN_STEP_ASK;
    switch (twin_choose(c, 12)) {
    case 0:
    case 1:
        ask_plain(c, number, s);
        break;
    case 2:
    case 3:
    case 4:
        ask_legacy(c, number, s);
        break;
    case 5:
        initialize(TWIN_PICK(c, wires), twin_choose(c, 5) == 0, number, s);
        break;
    case 6:
        open_stream(c, s);
        break;
    case 7:
    case 8:
        open_listen(c, number, s);
        break;
    case 9:
        s->kind = TWIN_STEP_HANG_UP;
        s->wire = (enum twin_wire_name)(TWIN_LISTENS + twin_choose(c, 5));
        break;
    default:
        ask_modern(c, number, s);
        break;
    }
}
