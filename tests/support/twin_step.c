/* SPDX-License-Identifier: MIT
 *
 * Plans, and changes by others. The editor may write what the principal may see, and nothing else,
 * so that what it does is the same in both worlds; root does what is hidden.
 */
#include "support/twin_step.h"

#include <stdio.h>

#include "base/str.h"
#include "security/access.h"

#define TEXT_MAX (1u << 16)

void twin_plan_choose(struct twin_choices *c, struct twin_plan *plan)
{
    enum { L = 1u << ACCESS_LIST, R = 1u << ACCESS_READ, S = 1u << ACCESS_SUBSCRIBE };
    enum { W = 1u << ACCESS_WRITE };
    static const unsigned rights[] = {L | R | S, L | R | S | W, L | R | S | W, R | S, L, R, L | R};
    *plan = (struct twin_plan){0};
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        plan->is_visible[i] = !twin_areas[i].always_hidden && twin_choose(c, 5) > 0;
        plan->ops[i] = rights[twin_choose(c, sizeof(rights) / sizeof(rights[0]))];
        plan->by_glob[i] = twin_choose(c, 2) == 1;
    }
    plan->shows_roots = twin_choose(c, 2) == 1;
    plan->shows_types = twin_choose(c, 3) == 1;
}

void twin_step_init(struct twin_step *s)
{
    *s = (struct twin_step){0};
    buf_init(&s->head, TEXT_MAX);
    buf_init(&s->body, TEXT_MAX);
}

void twin_step_deinit(struct twin_step *s)
{
    buf_deinit(&s->head);
    buf_deinit(&s->body);
}

static void step_clear(struct twin_step *s)
{
    buf_clear(&s->head);
    buf_clear(&s->body);
    s->is_hidden = false;
    s->times = 1;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void change_file(struct twin_step *s, const char *path, const char *text)
{
    s->kind = TWIN_STEP_FILE;
    buf_puts(&s->head, tidings_str(path));
    buf_puts(&s->body, tidings_str(text));
}

static void change_published(struct twin_step *s, const char *uri, const char *text)
{
    s->kind = TWIN_STEP_ASK;
    buf_putf(&s->head, "%s /resource?uri=%s\nContent-Type: text/plain", text[0] ? "PUT" : "DELETE",
             uri);
    buf_puts(&s->body, tidings_str(text));
}

static void call_tool(struct twin_step *s, const char *name, const char *arguments)
{
    s->kind = TWIN_STEP_ASK;
    buf_putf(&s->head,
             "POST /mcp\nContent-Type: application/json\nAccept: application/json, "
             "text/event-stream\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\n"
             "Mcp-Name: %s",
             name);
    buf_putf(&s->body,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":{},"
             "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\",\"version\":\"1\"}},"
             "\"name\":\"%s\",\"arguments\":{%s}}}",
             name, arguments);
}

static void add_type(struct twin_step *s, const char *name, const char *version)
{
    char text[256];
    snprintf(text, sizeof(text),
             "\"name\":\"%s\",\"version\":\"%s\",\"jsonSchema\":{\"type\":\"object\","
             "\"properties\":{\"n\":{\"type\":\"integer\"}}}",
             name, version);
    call_tool(s, "add-entity-type", text);
}

static void change_entity(struct twin_choices *c, struct twin_step *s, const char *type,
                          const char *id, unsigned number)
{
    char text[512];
    int n = snprintf(text, sizeof(text), "\"uri\":\"entity:///%s/%s\"", type, id);
    unsigned what = twin_choose(c, 8);
    const char *name = what == 0   ? "delete-entity"
                       : what == 1 ? "undelete-entity"
                                   : "upsert-entity";
    if (what > 1) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"value\":{\"n\":%u}", number);
    }
    if (what == 2) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"parentId\":\"v1\"");
    }
    if (what <= 4) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"idempotencyKey\":\"k%u\"",
                      twin_choose(c, 3));
    }
    if (what == 5) {
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ",\"origin\":\"me\"");
    }
    call_tool(s, name, text);
}

static void change_hidden(struct twin_choices *c, unsigned number, struct twin_step *s)
{
    static const char *const files[] = {"priv/s.txt", "priv/a.txt", "priv/sub/c.txt",
                                        "priv/" TWIN_LONG "bX", "priv/aXb"};
    static const char *const pages[] = {"pub:///shut/s", "pub:///shut/a",
                                        "pub:///shut/" TWIN_LONG "bX"};
    static const char *const ids[] = {"h1", "h2", "h3"};
    char text[32];
    snprintf(text, sizeof(text), "hidden %u\n", number);
    bool goes = twin_choose(c, 4) == 0;
    s->is_hidden = true;
    s->times = twin_choose(c, 3) == 0 ? 4 : 1;
    s->wire = TWIN_ROOT;
    switch (twin_choose(c, 3)) {
    case 0:
        change_file(s, files[twin_choose(c, 5)], goes ? "" : text);
        break;
    case 1:
        change_published(s, pages[twin_choose(c, 3)], goes ? "" : text);
        break;
    default:
        change_entity(c, s, twin_choose(c, 3) == 0 ? "note@2" : "vault@1", ids[twin_choose(c, 3)],
                      number);
        break;
    }
}

static void change_visible(struct twin_choices *c, const struct twin_plan *plan, unsigned number,
                           struct twin_step *s)
{
    static const char *const files[] = {"pub/a.txt", "pub/b.txt", "pub/sub/c.txt", "mix/a.txt"};
    static const char *const pages[] = {"pub:///open/a", "pub:///open/b", "pub:///open/c"};
    static const char *const ids[] = {"v1", "v2", "v3"};
    char text[32];
    snprintf(text, sizeof(text), "shown %u\n", number);
    bool goes = twin_choose(c, 4) == 0;
    s->wire = TWIN_EDITOR;
    (void)plan; /* both worlds reject forbidden writes of the editor */
    switch (twin_choose(c, 5)) {
    case 0:
    case 3:
        change_file(s, files[twin_choose(c, 4)], goes ? "" : text);
        break;
    case 4:
        change_file(s, files[twin_choose(c, 4)], text);
        s->kind = twin_choose(c, 2) ? TWIN_STEP_APPEAR : TWIN_STEP_VANISH;
        break;
    case 1:
        change_published(s, pages[twin_choose(c, 3)], goes ? "" : text);
        break;
    default:
        change_entity(c, s, "note@1", ids[twin_choose(c, 3)], number);
        break;
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void begin_entity(struct twin_step *s, const char *type, const char *id)
{
    static const uint8_t upserts[] = {7};
    struct twin_choices c;
    twin_choices_init(&c, upserts, sizeof(upserts));
    change_entity(&c, s, type, id, 0);
}

bool twin_step_begin(const struct twin_plan *plan, unsigned n, struct twin_step *s)
{
    static const char *const files[] = {"pub/a.txt", "pub/b.txt", "pub/sub/c.txt", "mix/a.txt"};
    static const char *const secrets[] = {"priv/s.txt", "priv/a.txt", "priv/sub/c.txt"};
    step_clear(s);
    s->wire = TWIN_ROOT;
    s->is_hidden = n >= 12 && !(plan->shows_types && n < 14);
    switch (n) {
    case 0:
        add_type(s, "note", "1");
        return true;
    case 1:
        begin_entity(s, "note@1", "v1");
        return true;
    case 2:
        begin_entity(s, "note@1", "v2");
        return true;
    case 3:
    case 4:
    case 5:
    case 6:
        change_file(s, files[n - 3], "text\nof two lines\n");
        return true;
    case 7:
    case 8:
        change_published(s, n == 7 ? "pub:///open/a" : "pub:///open/b", "text");
        return true;
    case 9:
    case 10:
    case 11:
        change_file(s, "mix/b.txt", n == 9 ? "1" : n == 10 ? "" : "2");
        return true;
    case 12:
        add_type(s, "vault", "1");
        return true;
    case 13:
        add_type(s, "note", "2");
        return true;
    case 14:
        begin_entity(s, "vault@1", "h1");
        return true;
    case 15:
    case 16:
    case 17:
        change_file(s, secrets[n - 15], "secret\nof\nthree lines\n");
        return true;
    case 18:
        change_published(s, "pub:///shut/s", "secret");
        return true;
    default:
        s->is_hidden = false;
        return twin_request_begin(n - 19, s);
    }
}

void twin_step_choose(struct twin_choices *c, const struct twin_plan *plan, unsigned number,
                      struct twin_step *s)
{
    step_clear(s);
    unsigned what = twin_choose(c, 10);
    if (what < 3) {
        change_hidden(c, number, s);
    } else if (what < 5) {
        change_visible(c, plan, number, s);
    } else {
        twin_request_choose(c, number, s);
    }
}
