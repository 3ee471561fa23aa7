/* SPDX-License-Identifier: MIT
 *
 * Strings come from small tables, so that they match existing items in either world.
 */
#include "support/twin_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices --------------------------------------------------------------------------------- */

void twin_choices_init(struct twin_choices *c, const uint8_t *bytes, size_t len)
{
    *c = (struct twin_choices){.at = bytes, .len = len};
    c->state = str_hash(tidings_strn((const char *)bytes, len), 0) | 1u;
}

unsigned twin_choose(struct twin_choices *c, unsigned n)
{
    if (c->len > 0) {
        c->len--;
        return *c->at++ % n;
    }
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return (unsigned)(c->state >> 33) % n;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const instants[] = {
    "2100-01-01T00:00:01.000Z", "2100-01-01T00:00:02.000Z", "2100-01-01T00:00:03Z",
    "2100-01-01T00:00:05.000Z", "2100-01-01T00:00:15.000Z", "2000-01-01T00:00:00Z",
    "2100-01-01T00:00:16.000Z", "2200-01-01T00:00:00Z",     "yesterday",
};

static void choose_entity(struct twin_choices *c, char out[TWIN_URI])
{
    static const char *const types[] = {"note@1", "note@1", "note@1", "note@2", "vault@1", "no@1"};
    static const char *const ids[] = {"v1", "v2", "v3", "h1", "h1", "h2", "h3", "p1", "none", ""};
    static const char *const starts[] = {"entity:///", "entity:///", "/entity/"};
    const char *start = TWIN_PICK(c, starts), *type = TWIN_PICK(c, types), *id = TWIN_PICK(c, ids);
    int n = snprintf(out, TWIN_URI, "%s%s/%s", start, type, id);
    switch (twin_choose(c, 8)) {
    case 0:
        (void)snprintf(out + n, (size_t)(TWIN_URI - n), "/patch");
        break;
    case 1:
        (void)snprintf(out + n, (size_t)(TWIN_URI - n), "/patch/%s", TWIN_PICK(c, instants));
        break;
    case 2:
        (void)snprintf(out + n, (size_t)(TWIN_URI - n), "/at/%s", TWIN_PICK(c, instants));
        break;
    case 3:
        (void)snprintf(out + n, (size_t)(TWIN_URI - n), "?parent=%s", TWIN_PICK(c, ids));
        break;
    default:
        break;
    }
}

static void choose_file(struct twin_choices *c, char out[TWIN_URI])
{
    static const char *const folders[] = {"pub/",     "pub/",     "mix/",    "priv/",
                                          "pub/dir/", "mix/far/", "pub/up/", "pub/up/priv/"};
    static const char *const names[] = {
        "a.txt",    "b.txt", "s.txt",        "sub/c.txt",     "sub/",
        "link.txt", "dir",   "up",           "back",          "out",
        "",         "none",  TWIN_LONG "bX", "../priv/s.txt", "%2e%2e/priv/s.txt",
        "in/a.txt"};
    const char *folder = TWIN_PICK(c, folders);
    (void)snprintf(out, TWIN_URI, "docs:///%s%s", folder, TWIN_PICK(c, names));
}

void twin_choose_uri(struct twin_choices *c, char out[TWIN_URI])
{
    static const char *const pages[] = {"pub:///open/a", "pub:///open/b", "pub:///open/c",
                                        "pub:///shut/s", "pub:///shut/a", "pub:///shut/none",
                                        "pub:///open/",  "pub:///shut/"};
    static const char *const others[] = {"docs:///",
                                         "pub:///",
                                         "entity:///",
                                         "entity:///types",
                                         "tidings://self/stats",
                                         "tidings://self/semantics",
                                         "tidings://self/",
                                         "nothing:///x",
                                         "no uri"};
    switch (twin_choose(c, 8)) {
    case 0:
    case 1:
    case 2:
        choose_entity(c, out);
        break;
    case 3:
    case 4:
    case 5:
        choose_file(c, out);
        break;
    case 6:
        (void)snprintf(out, TWIN_URI, "%s", TWIN_PICK(c, pages));
        break;
    default:
        (void)snprintf(out, TWIN_URI, "%s", TWIN_PICK(c, others));
        break;
    }
}

/* The targets of subscriptions. */
static void choose_pattern(struct twin_choices *c, char out[TWIN_URI])
{
    static const char *const patterns[] = {
        "docs:///**",
        "docs:///*/s.txt",
        "docs:///priv/**",
        "docs:///{+path}",
        "docs:///pub/*",
        "pub:///**",
        "pub:///shut/*",
        "entity:///{type}@1/{id}",
        "entity:///**",
        "docs:///pub/",
        "docs:///priv/",
        "docs:///query?pattern=*.txt",
        "docs:///pub?pattern=s*",
        "entity:///note@1/",
        "entity:///vault@1/",
        "entity:///",
        "docs:///",
        "pub:///",
        "entity:///?parent=v1",
        "docs:///p[ru]*/a.txt",
        "tidings://self/st*",
        "tidings://self/{none}",
    };
    if (twin_choose(c, 2) == 0) {
        twin_choose_uri(c, out);
    } else {
        (void)snprintf(out, TWIN_URI, "%s", TWIN_PICK(c, patterns));
    }
}

static const char *choose_regex(struct twin_choices *c)
{
    static const char *const regexes[] = {
        "docs:///.*",          "(a|aa)+$",       "^pub:///shut/(a|aa)+$",
        "docs:///priv/(a+)+Y", "(a*)*b$",        "^entity:///.*",
        "s\\\\.txt$",          "priv/a+b",       "(",
        "^docs:///priv/",      "^docs:///pub/s", "^pub:///shut/s",
        "^entity:///vault@1/", "^none:",
    };
    return TWIN_PICK(c, regexes);
}

/* ---- options of subscriptions ---------------------------------------------------------------- */

/* At most one from each group, because a name must be unique. */
static void put_options(struct twin_choices *c, struct buf *out)
{
    static const char *const groups[][4] = {
        {"\"include\":\"metadata\"", "\"include\":\"value\"", "\"include\":\"patch\"",
         "\"include\":\"everything\""},
        {"\"initial\":true", "\"initial\":true", "\"initial\":false", "\"initial\":1"},
        {"\"since\":\"$C\"", "\"since\":\"$C\"", "\"since\":\"1.2\"", "\"since\":\"x\""},
        {"\"match\":\"literal\"", "\"match\":\"container\"", "\"match\":\"glob\"",
         "\"match\":\"template\""},
        {"\"origin\":\"me\",\"echo\":false", "\"origin\":\"me\"", "\"echo\":false",
         "\"rateMs\":-1"},
        {"\"filter\":{\"properties\":{\"uri\":{\"pattern\":\"(a|aa)+$\"}}}",
         "\"filter\":{\"properties\":{\"metadata\":{\"required\":[\"principal\"]}}}",
         "\"filter\":{\"properties\":{\"uri\":{\"pattern\":\"priv|vault|shut\"}}}",
         "\"filter\":{\"not\":{\"properties\":{\"uri\":{\"pattern\":\"^(a+)+X\"}}}}"},
        {"\"baseline\":\"2100-01-01T00:00:02.000Z\"", "\"baseline\":\"2100-01-01T00:00:03.000Z\"",
         "\"baseline\":\"2100-01-01T00:00:15.000Z\"", "\"baseline\":\"$E\""},
    };
    buf_puts(out, STR("{\"windowMs\":0"));
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (twin_choose(c, 4) == 0) {
            buf_putf(out, ",%s", groups[i][twin_choose(c, 4)]);
        }
    }
    buf_putc(out, '}');
}

/* The URI of one subscription, and its options. */
void twin_put_wish(struct twin_choices *c, struct buf *uri, struct buf *options)
{
    char text[TWIN_URI];
    if (twin_choose(c, 6) == 0) {
        buf_puts(uri, tidings_str(choose_regex(c)));
        buf_puts(options, STR("{\"windowMs\":0,\"match\":\"regex\"}"));
        return;
    }
    choose_pattern(c, text);
    buf_puts(uri, tidings_str(text));
    put_options(c, options);
}

/* ---- tools ----------------------------------------------------------------------------------- */

/* Upserts that create something, only where nothing hidden can be. */
static void put_entity_write(struct twin_choices *c, unsigned number, struct buf *out)
{
    static const char *const free_ids[] = {"v1", "v2", "v3", "p1", "p2"};
    static const char *const ids[] = {"v1", "h1", "h2", "h3", "none"};
    static const char *const types[] = {"note@1", "note@1", "note@2", "vault@1"};
    const char *type = TWIN_PICK(c, types);
    switch (twin_choose(c, 6)) {
    case 0:
    case 1:
        buf_putf(out, "\"uri\":\"entity:///%s/%s\",\"value\":{\"n\":%u}", type,
                 TWIN_PICK(c, free_ids), number);
        break;
    case 2:
        buf_putf(out, "\"uri\":\"entity:///%s/%s\",\"value\":{\"n\":\"no\"}", type,
                 TWIN_PICK(c, ids));
        break;
    case 3:
        buf_putf(out, "\"uri\":\"entity:///%s/%s\",\"patch\":{\"n\":1},\"baseline\":\"%s\"", type,
                 TWIN_PICK(c, ids), TWIN_PICK(c, instants));
        break;
    case 4:
        buf_putf(out, "\"uri\":\"entity:///%s/%s\",\"patch\":{\"n\":1},\"onConflict\":\"rebase\"",
                 type, TWIN_PICK(c, ids));
        break;
    default:
        buf_putf(out, "\"uri\":\"/entity/%s/%s\",\"value\":{},\"baseline\":\"%s\"", type,
                 TWIN_PICK(c, ids), TWIN_PICK(c, instants));
        break;
    }
    if (twin_choose(c, 3) == 0) {
        buf_putf(out, ",\"idempotencyKey\":\"k%u\"", twin_choose(c, 3));
    }
    if (twin_choose(c, 4) == 0) {
        buf_puts(out, STR(",\"origin\":\"me\""));
    }
}

static void put_change_arguments(struct twin_choices *c, bool waits, struct buf *out)
{
    char uri[TWIN_URI];
    buf_putf(out, "%s", waits ? "\"timeoutMs\":0" : "\"limit\":3");
    if (twin_choose(c, 4) > 0) {
        choose_pattern(c, uri);
        buf_putf(out, ",\"uris\":[\"%s\"]", uri);
    }
    buf_puts(out, twin_choose(c, 2) ? STR(",\"cursor\":\"$C\"") : STR_EMPTY);
    buf_puts(out, twin_choose(c, 2) ? STR(",\"includeContent\":true") : STR_EMPTY);
}

static void put_entity_target(struct twin_choices *c, bool is_history, struct buf *out)
{
    static const char *const ids[] = {"v1", "h1", "h2"};
    static const char *const types[] = {"note", "note", "vault"};
    char uri[TWIN_URI];
    switch (twin_choose(c, 4)) {
    case 0:
        buf_putf(out, "\"entityId\":\"%s\"", TWIN_PICK(c, ids));
        break;
    case 1:
        buf_putf(out, "\"entityId\":\"%s\",\"entityTypeName\":\"%s\",\"entityTypeVersion\":%u",
                 TWIN_PICK(c, ids), TWIN_PICK(c, types), 1 + twin_choose(c, 2));
        break;
    default:
        choose_entity(c, uri);
        buf_putf(out, "\"uri\":\"%s\"", uri);
        break;
    }
    if (is_history && twin_choose(c, 2)) {
        buf_putf(out, ",\"from\":\"%s\",\"limit\":%u,\"values\":%s", TWIN_PICK(c, instants),
                 1 + twin_choose(c, 3), twin_choose(c, 2) ? "true" : "false");
    } else if (!is_history && twin_choose(c, 2)) {
        buf_putf(out, ",\"baseline\":\"%s\",\"idempotencyKey\":\"k%u\"", TWIN_PICK(c, instants),
                 twin_choose(c, 3));
    }
}

static const char *put_tool(struct twin_choices *c, unsigned number, struct buf *out)
{
    static const char *const tools[] = {"upsert-entity",      "delete-entity", "undelete-entity",
                                        "get-entity-history", "transact",      "publish",
                                        "unpublish",          "changes_since", "wait_for_change",
                                        "add-entity-type",    "no-tool"};
    const char *name = TWIN_PICK(c, tools);
    char uri[TWIN_URI];
    twin_choose_uri(c, uri);
    if (strcmp(name, "upsert-entity") == 0) {
        put_entity_write(c, number, out);
    } else if (strcmp(name, "transact") == 0) {
        buf_puts(out, STR("\"operations\":[{\"op\":\"upsert\","));
        put_entity_write(c, number, out);
        buf_putf(out, "},{\"op\":\"delete\",\"uri\":\"%s\"}]", uri);
    } else if (strcmp(name, "publish") == 0) {
        static const char *const more[] = {"", ",\"mimeType\":\"text/x\"", ",\"ifMatch\":\"*\"",
                                           ",\"ifMatch\":\"$E\"", ",\"ifAbsent\":true"};
        buf_putf(out, "\"uri\":\"%s\",\"text\":\"by the guest\"%s", uri, TWIN_PICK(c, more));
    } else if (strcmp(name, "changes_since") == 0 || strcmp(name, "wait_for_change") == 0) {
        put_change_arguments(c, name[0] == 'w', out);
    } else if (strcmp(name, "add-entity-type") == 0) {
        buf_puts(out, STR("\"name\":\"vault\",\"version\":\"1\",\"jsonSchema\":{}"));
    } else {
        put_entity_target(c, name[0] == 'g', out);
    }
    return name;
}

/* ---- JSON-RPC -------------------------------------------------------------------------------- */

static void put_completion(struct twin_choices *c, struct buf *out)
{
    static const char *const templates[][2] = {
        {"docs:///{+path}", "path"},
        {"entity:///{entityType}@{entityTypeVersion}/{entityId}", "entityType"},
        {"entity:///{entityType}@{entityTypeVersion}/{entityId}", "entityTypeVersion"},
        {"entity:///{entityType}@{entityTypeVersion}/{entityId}", "entityId"},
        {"entity:///note@1/{entityId}", "entityId"},
        {"entity:///note@1/{entityType}", "entityType"},
        {"entity:///note@1/h1/at/{timestamp}", "timestamp"},
        {"entity:///{entityType}@{entityTypeVersion}/{entityId}/at/{timestamp}", "timestamp"},
        {"pub:///{+path}", "path"},
    };
    static const char *const values[] = {"", "p", "pub/", "priv/", "pub/dir/", "h", "v", "2100"};
#define NOTE "\"entityType\":\"note\",\"entityTypeVersion\":\"1\""
    static const char *const contexts[] = {
        "",
        ",\"context\":{\"arguments\":{\"entityId\":\"h1\"}}",
        (",\"context\":{\"arguments\":{" NOTE "}}"),
        (",\"context\":{\"arguments\":{" NOTE ",\"entityId\":\"h1\"}}"),
    };
    const char *const *template = TWIN_PICK(c, templates);
    const char *value = TWIN_PICK(c, values);
    buf_putf(out,
             "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"%s\"},\"argument\":{\"name\":\"%s\","
             "\"value\":\"%s\"}%s",
             template[0], template[1], value, TWIN_PICK(c, contexts));
}

static void put_reading(struct twin_choices *c, struct buf *out)
{
    static const char *const options[] = {
        "",
        "",
        ",\"dev.tidings/range\":{\"unit\":\"bytes\",\"from\":10}",
        ",\"dev.tidings/range\":{\"unit\":\"lines\",\"last\":1}",
        ",\"dev.tidings/range\":{\"from\":1000000}",
        ",\"dev.tidings/ifNoneMatch\":\"$E\"",
        ",\"dev.tidings/accept\":[\"image/png\"]",
        ",\"dev.tidings/atLeast\":\"$C\"",
    };
    buf_puts(out, tidings_str(TWIN_PICK(c, options)));
}

/* Method and parameters, without _meta except the members in `meta`. */
const char *twin_put_call(struct twin_choices *c, unsigned number, struct buf *params,
                          struct buf *meta, const char **name)
{
    static const char *const methods[] = {
        "resources/read",
        "resources/read",
        "resources/read",
        "resources/metadata",
        "resources/metadata",
        "resources/list",
        "resources/list",
        "resources/directory/read",
        "resources/templates/list",
        "completion/complete",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/call",
        "prompts/list",
        "resources/unsubscribe",
        "ping",
        "no/method",
    };
    const char *method = TWIN_PICK(c, methods);
    static char uri[TWIN_URI];
    twin_choose_uri(c, uri);
    *name = NULL;
    if (strcmp(method, "tools/call") == 0) {
        struct buf arguments;
        buf_init(&arguments, 4096);
        *name = put_tool(c, number, &arguments);
        buf_putf(params, "\"name\":\"%s\",\"arguments\":{%.*s}", *name, (int)arguments.len,
                 arguments.ptr ? arguments.ptr : "");
        buf_deinit(&arguments);
    } else if (strcmp(method, "completion/complete") == 0) {
        put_completion(c, params);
    } else if (strcmp(method, "resources/list") == 0 && twin_choose(c, 2)) {
        buf_puts(params, twin_choose(c, 3) == 0 ? STR("\"cursor\":\"$L\"") : STR_EMPTY);
    } else if (strncmp(method, "resources/", 10) == 0 && method[10] != 't') {
        buf_putf(params, "\"uri\":\"%s\"", uri);
        *name = strcmp(method, "resources/read") == 0 ? uri : NULL;
        if (*name) {
            put_reading(c, meta);
        }
    }
    return method;
}
