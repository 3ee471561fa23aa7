/* SPDX-License-Identifier: MIT
 *
 * Writes the overview: identity and readiness, activity, queues, memory and CPU.
 */
#include "cli/monitor.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidings/json.h>

#include "cli/call.h"
#include "cli/output.h"
#include "cli/range.h"

/* -------------------------------------------------------------------------------------------------
 * Reads tidings://self/, whole or page by page.
 */

char *self_state_read(struct tidings_client *client, const char *name, struct tidings_error *err)
{
    size_t len = sizeof("tidings://self/") + strlen(name);
    char *uri = malloc(len);
    if (!uri) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    snprintf(uri, len, "tidings://self/%s", name);
    char *answer = range_ask(client, uri, NULL, NULL, err);
    char *text = answer ? tidings_json_string(tidings_str(answer), "/contents/0/text") : NULL;
    if (answer && !text) {
        tidings_fail(err, TIDINGS_E_PARSE, "%s has no text", uri);
    } else if (!answer && err->code == TIDINGS_E_NOTFOUND) {
        tidings_fail(err, TIDINGS_E_NOTFOUND,
                     "the server does not say: it must run with --self, and you must be allowed to "
                     "read %s",
                     uri);
    }
    free(uri);
    tidings_free(answer);
    return text;
}

struct self_page {
    FILE *out;
    size_t rows;
    char last[64];
};

static int self_state_add_row(void *user, struct tidings_str key, struct tidings_str row)
{
    struct self_page *page = user;
    (void)key;
    char *name = text_at(row, "/row");
    if (page->rows++ > 0) {
        fputc(',', page->out);
    }
    fwrite(row.ptr, 1, row.len, page->out);
    snprintf(page->last, sizeof(page->last), "%s", name ? name : "");
    tidings_free(name);
    return 0;
}

char *self_state_read_all(struct tidings_client *client, const char *name,
                          struct tidings_error *err)
{
    char *all = NULL;
    size_t len = 0;
    struct self_page page = {.out = open_memstream(&all, &len)};
    bool more = page.out != NULL;
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    int rc = more ? 0 : TIDINGS_E_NOMEM;
    if (more) {
        fputc('[', page.out);
    }
    for (unsigned i = 0; more && i < SELF_STATE_PAGES; i++) {
        char range[128];
        snprintf(range, sizeof(range), i > 0 ? "%s?after=%s" : "%s", name, page.last);
        size_t before = page.rows;
        char *text = self_state_read(client, range, err);
        rc = text ? 0 : err->code;
        if (text) {
            (void)tidings_json_each(tidings_str(text), "", self_state_add_row, &page);
        }
        more = text && page.rows > before && page.last[0] != '\0';
        tidings_free(text);
    }
    if (page.out) {
        fputc(']', page.out);
        rc = fclose(page.out) == 0 ? rc : TIDINGS_E_NOMEM;
    }
    char *copy = rc == 0 ? tidings_json_compact(tidings_str(all), err) : NULL;
    free(all);
    return copy;
}

double self_state_number(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    double n = text ? strtod(text, NULL) : 0;
    tidings_free(text);
    return n;
}

static const char *span_text(double ms, char out[SPAN_TEXT_MAX])
{
    if (ms < 1000) {
        snprintf(out, SPAN_TEXT_MAX, ms > 0 && ms < 10 ? "%.1f ms" : "%.0f ms", ms);
    } else if (ms < 120e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.1f s", ms / 1e3);
    } else if (ms < 7200e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.0f min", ms / 60e3);
    } else if (ms < 172800e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.0f h", ms / 3600e3);
    } else {
        snprintf(out, SPAN_TEXT_MAX, "%.0f d", ms / 86400e3);
    }
    return out;
}

/* -------------------------------------------------------------------------------------------------
 * Rows of peers: read, sorted, formatted in columns.
 */

const char *const peer_orders[] = {"lag", "waiting", "bytes", "subscriptions", "since", NULL};

/* ---- reading --------------------------------------------------------------------------------- */

/* "a/b", or the one that is set. */
static char *peer_table_join(char *a, char *b)
{
    size_t len = strlen(a ? a : "") + strlen(b ? b : "") + 2;
    char *text = malloc(len);
    if (text) {
        snprintf(text, len, "%s%s%s", a ? a : "", a && *a && b && *b ? "/" : "", b ? b : "");
    }
    tidings_free(a);
    tidings_free(b);
    return text;
}

static int peer_table_add(void *user, struct tidings_str key, struct tidings_str json)
{
    struct peer_table *t = user;
    (void)key;
    if (t->count == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct peer_row *rows = realloc(t->rows, cap * sizeof(*rows));
        if (!rows) {
            return TIDINGS_E_NOMEM;
        }
        t->rows = rows;
        t->cap = cap;
    }
    struct peer_row *row = &t->rows[t->count++];
    char *principal = text_at(json, "/principal");
    *row = (struct peer_row){
        .peer = text_at(json, "/peer"),
        .who = principal && *principal ? principal : text_at(json, "/by"),
        .address = text_at(json, "/address"),
        .client = peer_table_join(text_at(json, "/client/name"), text_at(json, "/client/version")),
        .via = peer_table_join(text_at(json, "/listener"), text_at(json, "/transport")),
        .error = text_at(json, "/lastError"),
        .lag_ms = self_state_number(json, "/lagMs"),
        .waiting = self_state_number(json, "/waiting"),
        .unsent = self_state_number(json, "/unsentBytes"),
        .bytes = self_state_number(json, "/bytesOut"),
        .subscriptions = self_state_number(json, "/subscriptions"),
        .since_ms = self_state_number(json, "/sinceMs"),
    };
    if (row->who != principal) {
        tidings_free(principal);
    }
    return row->peer && row->who && row->address && row->client && row->via && row->error
               ? 0
               : TIDINGS_E_NOMEM;
}

int peer_table_read(struct peer_table *t, struct tidings_str json, struct tidings_error *err)
{
    int rc = tidings_json_each(json, "", peer_table_add, t);
    return rc == TIDINGS_E_NOMEM ? tidings_fail(err, rc, "out of memory")
           : rc < 0 ? tidings_fail(err, rc, "tidings://self/peers is not what it should be")
                    : 0;
}

void peer_table_deinit(struct peer_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct peer_row *row = &t->rows[i];
        tidings_free(row->peer);
        tidings_free(row->who);
        tidings_free(row->address);
        tidings_free(row->error);
        free(row->client);
        free(row->via);
    }
    free(t->rows);
    *t = (struct peer_table){0};
}

/* ---- sorting --------------------------------------------------------------------------------- */

static double peer_table_key(const struct peer_row *row, enum peer_order order)
{
    switch (order) {
    case PEERS_BY_WAITING:
        return row->waiting;
    case PEERS_BY_BYTES:
        return row->bytes;
    case PEERS_BY_SUBSCRIPTIONS:
        return row->subscriptions;
    case PEERS_BY_SINCE:
        return row->since_ms;
    case PEERS_BY_LAG:
    default:
        return row->lag_ms;
    }
}

static int peer_table_compare(const void *a, const void *b, void *user)
{
    const struct peer_row *x = a, *y = b;
    const enum peer_order *order = user;
    double kx = peer_table_key(x, *order), ky = peer_table_key(y, *order);
    return kx > ky ? -1 : kx < ky ? 1 : strcmp(x->peer, y->peer);
}

void peer_table_sort(struct peer_table *t, enum peer_order order)
{
    if (t->count > 1) {
        qsort_r(t->rows, t->count, sizeof(t->rows[0]), peer_table_compare, &order);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

void put_cell(FILE *out, const char *text, size_t width, bool fills)
{
    struct json_text t;
    char *shown = NULL;
    if (json_text_begin(&t)) {
        put_text(t.out, tidings_str(text));
        shown = json_text_take(&t);
    }
    size_t used = shown ? put_columns(out, tidings_str(shown), width) : 0;
    for (; fills && used < width; used++) {
        fputc(' ', out);
    }
    free(shown);
}

#define PEER_TABLE_WIDE 120u /* width that shows rows in full */

enum {
    COLUMN_PEER = 13,
    COLUMN_WHO = 18,
    COLUMN_CLIENT = 22,
    COLUMN_ADDRESS = 22,
    COLUMN_VIA = 14
};

/* For a screen of 80 columns: the name and the lag only. */
static void peer_table_put_narrow(FILE *out, const struct peer_row *row)
{
    char lag[SPAN_TEXT_MAX];
    put_cell(out, row->peer, COLUMN_PEER, true);
    fprintf(out, " %8s %7.0f %6.0f  ", span_text(row->lag_ms, lag), row->waiting,
            row->subscriptions);
    put_cell(out, row->who, COLUMN_WHO, true);
    fputc(' ', out);
    put_cell(out, row->address, COLUMN_ADDRESS, false);
}

static void peer_table_put_row(FILE *out, const struct peer_row *row, double now_ms)
{
    char lag[SPAN_TEXT_MAX], age[SPAN_TEXT_MAX], bytes[SIZE_TEXT_MAX];
    put_cell(out, row->peer, COLUMN_PEER, true);
    fprintf(out, " %8s %7.0f %6.0f %10s %8s  ", span_text(row->lag_ms, lag), row->waiting,
            row->subscriptions, size_text((uint64_t)row->bytes, bytes),
            span_text(now_ms > row->since_ms ? now_ms - row->since_ms : 0, age));
    put_cell(out, row->who, COLUMN_WHO, true);
    fputc(' ', out);
    put_cell(out, row->client, COLUMN_CLIENT, true);
    fputc(' ', out);
    put_cell(out, row->address, COLUMN_ADDRESS, true);
    fputc(' ', out);
    put_cell(out, row->via, COLUMN_VIA, *row->error != '\0');
    if (*row->error) {
        fputc(' ', out);
        put_cell(out, row->error, SIZE_MAX, false);
    }
}

void peer_table_put(const struct cli *cli, FILE *out, const struct peer_table *t, size_t first,
                    size_t max, size_t width, double now_ms, const char *end)
{
    put_style(cli, out, STYLE_DIM);
    char head[256];
    bool is_narrow = width < PEER_TABLE_WIDE;
    if (is_narrow) {
        snprintf(head, sizeof(head), "%-*s %8s %7s %6s  %-*s ADDRESS", COLUMN_PEER, "PEER", "LAG",
                 "WAITING", "SUBS", COLUMN_WHO, "PRINCIPAL");
    } else {
        snprintf(head, sizeof(head), "%-*s %8s %7s %6s %10s %8s  %-*s %-*s %-*s %-*s LAST ERROR",
                 COLUMN_PEER, "PEER", "LAG", "WAITING", "SUBS", "SENT", "AGE", COLUMN_WHO,
                 "PRINCIPAL", COLUMN_CLIENT, "CLIENT", COLUMN_ADDRESS, "ADDRESS", COLUMN_VIA,
                 "VIA");
    }
    put_cell(out, head, width, false);
    put_style(cli, out, STYLE_PLAIN);
    fputs(end, out);
    for (size_t i = first; i < t->count && i < first + max; i++) {
        char *line = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&line, &len);
        if (f) {
            if (is_narrow) {
                peer_table_put_narrow(f, &t->rows[i]);
            } else {
                peer_table_put_row(f, &t->rows[i], now_ms);
            }
            fclose(f);
            put_cell(out, line, width, false);
            free(line);
        }
        fputs(end, out);
    }
}

/* -------------------------------------------------------------------------------------------------
 * `tidings subscriptions`: which clients subscribe to which URIs, or receive changes of a resource.
 */

static int subscriptions_put(void *user, struct tidings_str key, struct tidings_str row)
{
    const struct cli *cli = user;
    (void)key;
    if (cli->json) {
        put_json(stdout, row);
        return 0;
    }
    char *peer = text_at(row, "/peer"), *principal = text_at(row, "/principal");
    char *by = text_at(row, "/by"), *address = text_at(row, "/address");
    char *client = text_at(row, "/client/name"), *uri = text_at(row, "/subscribedUri");
    char every[SPAN_TEXT_MAX];
    bool is_named = principal && *principal;
    put_cell(stdout, peer ? peer : "", COLUMN_PEER, true);
    printf(" %7.0f %8s  ", self_state_number(row, "/waiting"),
           span_text(self_state_number(row, "/periodMs"), every));
    put_cell(stdout, is_named ? principal : by ? by : "", COLUMN_WHO, true);
    fputc(' ', stdout);
    put_cell(stdout, client ? client : "", COLUMN_CLIENT, true);
    fputc(' ', stdout);
    put_cell(stdout, address ? address : "", COLUMN_ADDRESS, true);
    fputc(' ', stdout);
    put_text(stdout, tidings_str(uri ? uri : ""));
    if (is_true_at(row, "/suspended")) {
        put_style(cli, stdout, STYLE_BAD);
        fputs(" (suspended)", stdout);
        put_style(cli, stdout, STYLE_PLAIN);
    }
    fputs(is_true_at(row, "/regex") ? " (perhaps: a regular expression)\n" : "\n", stdout);
    tidings_free(peer);
    tidings_free(principal);
    tidings_free(by);
    tidings_free(address);
    tidings_free(client);
    tidings_free(uri);
    return 0;
}

/* "subscriptions?covers=" and the URI, each byte that is neither letter nor digit encoded; NULL:
 * out of memory. */
static char *subscriptions_covering(const char *uri)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fputs("subscriptions?covers=", t.out);
    for (const char *c = uri; *c; c++) {
        bool is_plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
                               *c) != NULL;
        fprintf(t.out, is_plain ? "%c" : "%%%02X", (unsigned)(unsigned char)*c);
    }
    return json_text_take(&t);
}

static int subscriptions_ask(struct cli *cli, struct tidings_client *client,
                             struct tidings_error *err)
{
    char *text = NULL;
    if (cli->arg_count > 0 && !strchr(cli->args[0], ':')) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' is not a URI (expected 'scheme:…', as in 'file:///a')",
                            cli->args[0]);
    }
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (cli->arg_count > 0) {
        char *name = subscriptions_covering(cli->args[0]);
        text = name ? self_state_read(client, name, err) : NULL;
        free(name);
    } else {
        text = self_state_read_all(client, "subscriptions", err);
    }
    if (!text) {
        return err->code;
    }
    if (!cli->json) {
        put_style(cli, stdout, STYLE_DIM);
        printf("%-*s %7s %8s  %-*s %-*s %-*s SUBSCRIBED TO\n", COLUMN_PEER, "PEER", "WAITING",
               "EVERY", COLUMN_WHO, "PRINCIPAL", COLUMN_CLIENT, "CLIENT", COLUMN_ADDRESS,
               "ADDRESS");
        put_style(cli, stdout, STYLE_PLAIN);
    }
    (void)tidings_json_each(tidings_str(text), "", subscriptions_put, cli);
    tidings_free(text);
    return 0;
}

const struct command command_subscriptions = {
    .name = "subscriptions",
    .args = "[URI]",
    .help = "list who is subscribed to what at a server",
    .about =
        "List the subscriptions of all clients: the client's number ('tidings peers', 'tidings "
        "kick'), what waits, the period in which changes become one, principal, what the client "
        "calls itself, address, and the URI or pattern. With a URI, only subscriptions that a "
        "change of it would notify; regular expressions are not tested. The server must run with "
        "--self, and you must be allowed to read tidings://self/subscriptions.\n\n"
        "--json prints an object for each.\n",
    .max_args = 1,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .ask = subscriptions_ask,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings nodes`: the servers that share a store, and how far each lags.
 */

enum { COLUMN_NODE = 22, COLUMN_VERSION = 12, COLUMN_NODE_ADDRESS = 28 };

struct nodes_printing {
    const struct cli *cli;
    double now_ms;
};

static int nodes_put_owned(void *user, struct tidings_str key, struct tidings_str uri)
{
    char *text = tidings_json_string(uri, "");
    (void)key;
    (void)user;
    fputc(' ', stdout);
    put_text(stdout, tidings_str(text ? text : ""));
    tidings_free(text);
    return 0;
}

static int nodes_put(void *user, struct tidings_str key, struct tidings_str row)
{
    const struct nodes_printing *p = user;
    (void)key;
    if (p->cli->json) {
        put_json(stdout, row);
        return 0;
    }
    char lag[SPAN_TEXT_MAX], seen[SPAN_TEXT_MAX], age[SPAN_TEXT_MAX];
    char *name = text_at(row, "/name"), *version = text_at(row, "/version");
    char *address = text_at(row, "/address");
    bool lives = is_true_at(row, "/lives");
    double since = self_state_number(row, "/since");
    fputc(is_true_at(row, "/self") ? '*' : ' ', stdout);
    put_cell(stdout, name ? name : "", COLUMN_NODE, true);
    put_style(p->cli, stdout, lives ? STYLE_PLAIN : STYLE_BAD);
    printf(" %-6s", lives ? "lives" : "SILENT");
    put_style(p->cli, stdout, STYLE_PLAIN);
    printf(" %8s %8s %8s %8.0f %6.0f  ", span_text(self_state_number(row, "/lagMs"), lag),
           span_text(self_state_number(row, "/seenMs"), seen),
           span_text(p->now_ms > since ? p->now_ms - since : 0, age),
           self_state_number(row, "/sessions"), self_state_number(row, "/subscriptions"));
    put_cell(stdout, version ? version : "", COLUMN_VERSION, true);
    fputc(' ', stdout);
    put_cell(stdout, address ? address : "", COLUMN_NODE_ADDRESS, true);
    (void)tidings_json_each(row, "/owns", nodes_put_owned, NULL);
    fputc('\n', stdout);
    tidings_free(name);
    tidings_free(version);
    tidings_free(address);
    return 0;
}

/* A server that does not share its store: one row, from its status. */
static char *nodes_of_one(struct tidings_client *client, struct tidings_error *err)
{
    char *status = self_state_read(client, "status", err);
    struct json_text t;
    if (!status || !json_text_begin(&t)) {
        tidings_free(status);
        return NULL;
    }
    struct tidings_str s = tidings_str(status);
    char *name = text_at(s, "/name"), *version = text_at(s, "/version");
    fputs("[{\"name\":", t.out);
    put_quoted(t.out, tidings_str(name ? name : ""));
    fputs(",\"version\":", t.out);
    put_quoted(t.out, tidings_str(version ? version : ""));
    fprintf(t.out,
            ",\"sessions\":%.0f,\"subscriptions\":%.0f,\"since\":%.0f,\"lagMs\":0,\"seenMs\":0,"
            "\"lives\":true,\"self\":true,\"alone\":true}]",
            self_state_number(s, "/sessions"), self_state_number(s, "/subscriptions"),
            self_state_number(s, "/startedMs"));
    tidings_free(name);
    tidings_free(version);
    tidings_free(status);
    char *made = json_text_take(&t);
    char *text = made ? tidings_json_compact(tidings_str(made), err) : NULL;
    free(made);
    return text;
}

static int nodes_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct nodes_printing p = {.cli = cli,
                               .now_ms = (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6};
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    char *text = self_state_read(client, "nodes", err);
    if (text ? strcmp(text, "[]") == 0 : err->code == TIDINGS_E_NOTFOUND) {
        tidings_free(text);
        text = nodes_of_one(client, err);
    }
    if (!text) {
        return err->code;
    }
    if (!cli->json) {
        put_style(cli, stdout, STYLE_DIM);
        printf(" %-*s %-6s %8s %8s %8s %8s %6s  %-*s %-*s OWNS\n", COLUMN_NODE, "NODE", "STATE",
               "LAG", "SEEN", "AGE", "SESSIONS", "SUBS", COLUMN_VERSION, "VERSION",
               COLUMN_NODE_ADDRESS, "ADDRESS");
        put_style(cli, stdout, STYLE_PLAIN);
    }
    (void)tidings_json_each(tidings_str(text), "", nodes_put, &p);
    tidings_free(text);
    return 0;
}

const struct command command_nodes = {
    .name = "nodes",
    .help = "list the servers that share a store, and how far each is behind",
    .about = "List the nodes that share a store with a server: name (* is the one that was asked), "
             "whether it lives, how old the oldest change is that it has not followed, how long "
             "ago it was seen, its uptime, sessions, subscriptions, version, address, "
             "and the mounts it owns. A server that does not share its store is one node. It "
             "must run with --self, and you must be allowed to read tidings://self/nodes.\n\n"
             "--json prints an object for each; 'alone' says that it is the only one.\n",
    .has_target = true,
    .ask = nodes_ask,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings kick`: disconnects a client of a server, or all clients of a principal, by the server's
 * tool.
 */

struct kick {
    struct cli cli;
    const char *reason;
    bool is_principal;
};

static int kick_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct kick *k = (const struct kick *)cli;
    const char *whom = cli->args[0];
    bool is_peer = !k->is_principal && *whom && strspn(whom, "0123456789") == strlen(whom);
    struct json_text t;
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fprintf(t.out, "{\"%s\":", is_peer ? "peer" : "principal");
    put_quoted(t.out, tidings_str(whom));
    if (k->reason) {
        fputs(",\"reason\":", t.out);
        put_quoted(t.out, tidings_str(k->reason));
    }
    fputc('}', t.out);
    char *arguments = json_text_take(&t), *answer = NULL;
    int rc = arguments ? tool_ask(cli, client, "end_peer", arguments, &answer, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == TIDINGS_E_UNSUPPORTED) {
        tidings_fail(err, rc,
                     "the server does not let you end clients: it must run with --self, and "
                     "you must be allowed to write tidings://self/peers");
    }
    if (answer) {
        double ended = self_state_number(tidings_str(answer), "/ended");
        if (cli->json) {
            put_json(stdout, tidings_str(answer));
        } else if (!cli->quiet) {
            printf("ended %.0f\n", ended);
        }
        rc = ended > 0 ? 0 : 1;
    }
    tidings_free(answer);
    free(arguments);
    return rc;
}

static const struct option options[] = {
    {.name = "principal",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct kick, is_principal),
     .help = "it is the name of a principal, though it is a number"},
    {.name = "reason",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kick, reason),
     .metavar = "TEXT",
     .help = "for the log of the server; at most 200 bytes"},
    {0},
};

const struct command command_kick = {
    .name = "kick",
    .args = "PEER|PRINCIPAL",
    .help = "end a client of a server",
    .about =
        "End a client: a number is a peer, as 'tidings peers' lists it, anything else the name "
        "of a principal, all of whose clients end. They can reconnect. The server must run "
        "with --self, and you must be allowed to write tidings://self/peers.\n\n"
        "The status is 1 if no client matched.\n"
        "--json prints an object: ended, how many there were.\n",
    .options = options,
    .size = sizeof(struct kick),
    .min_args = 1,
    .max_args = 1,
    .has_target = true,
    .ask = kick_ask,
};

/* ---------------------------------------------------------------------------------------------- */

struct overview_lines {
    const struct cli *cli;
    FILE *out;
    size_t width, count;
    const char *end;
};

static void overview_line(struct overview_lines *l, const char *label, const char *fmt, ...)
    TIDINGS_PRINTF(3, 4);

static void overview_line(struct overview_lines *l, const char *label, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_style(l->cli, l->out, STYLE_DIM);
    put_cell(l->out, label, 11, true);
    put_style(l->cli, l->out, STYLE_PLAIN);
    put_cell(l->out, text, l->width > 11 ? l->width - 11 : 0, false);
    fputs(l->end, l->out);
    l->count++;
}

/* "", or " (12.5/s)" since the last sample. */
static const char *overview_rate(double now, double *before, double seconds, char out[40])
{
    if (seconds > 0) {
        snprintf(out, 40, " (%.1f/s)", (now - *before) / seconds);
    } else {
        out[0] = '\0';
    }
    *before = now;
    return out;
}

static void overview_put_name(struct overview_lines *l, struct tidings_str s)
{
    char age[SPAN_TEXT_MAX];
    char *name = text_at(s, "/name"), *version = text_at(s, "/version");
    char *node = text_at(s, "/node"), *reason = text_at(s, "/reasons/0");
    overview_line(l, "server", "%s %s%s%s, up %s, %s%s%s", name ? name : "", version ? version : "",
                  node && *node ? ", node " : "", node ? node : "",
                  span_text(self_state_number(s, "/uptimeMs"), age),
                  is_true_at(s, "/ready") ? "ready" : "NOT READY", reason && *reason ? ": " : "",
                  reason ? reason : "");
    tidings_free(name);
    tidings_free(version);
    tidings_free(node);
    tidings_free(reason);
}

static void overview_put_moving(struct overview_lines *l, struct tidings_str s,
                                struct overview_before *b)
{
    double now = self_state_number(s, "/nowMs");
    double seconds = b->now_ms > 0 && now > b->now_ms ? (now - b->now_ms) / 1000 : 0;
    char a[40], d[40], r[40], o[40], size[SIZE_TEXT_MAX], in[SIZE_TEXT_MAX];
    double changes = self_state_number(s, "/changes");
    double deliveries = self_state_number(s, "/deliveries");
    double requests = self_state_number(s, "/requests");
    double bytes = self_state_number(s, "/bytesOut");
    overview_line(l, "moved", "%.0f changes%s, %.0f deliveries%s, %.0f merged, %.0f truncated",
                  changes, overview_rate(changes, &b->changes, seconds, a), deliveries,
                  overview_rate(deliveries, &b->deliveries, seconds, d),
                  self_state_number(s, "/merged"), self_state_number(s, "/truncated"));
    overview_line(l, "asked", "%.0f requests%s; %.0f failures, %.0f refused by limits, %.0f cut",
                  requests, overview_rate(requests, &b->requests, seconds, r),
                  self_state_number(s, "/failures"), self_state_number(s, "/refusals"),
                  self_state_number(s, "/cut"));
    overview_line(
        l, "bytes", "%s in, %s out%s", size_text((uint64_t)self_state_number(s, "/bytesIn"), in),
        size_text((uint64_t)bytes, size), overview_rate(bytes, &b->bytes_out, seconds, o));
    b->now_ms = now;
}

/* The current queues, and the recent delays in them. */
static void overview_put_lag(struct overview_lines *l, struct tidings_str s)
{
    char now[SPAN_TEXT_MAX], p50[SPAN_TEXT_MAX], p99[SPAN_TEXT_MAX], max[SPAN_TEXT_MAX];
    char written[4 * SPAN_TEXT_MAX] = "no samples";
    char *is_known = tidings_json_get(s, "/lagMs/max");
    if (is_known && strcmp(is_known, "null") != 0) {
        snprintf(written, sizeof(written), "p50 %s, p99 %s, max %s",
                 span_text(self_state_number(s, "/lagMs/p50"), p50),
                 span_text(self_state_number(s, "/lagMs/p99"), p99),
                 span_text(self_state_number(s, "/lagMs/max"), max));
    }
    tidings_free(is_known);
    overview_line(l, "lag", "oldest waiting %s (%.0f for %.0f peers); written: %s",
                  span_text(self_state_number(s, "/lagMs/now"), now),
                  self_state_number(s, "/waiting"), self_state_number(s, "/behind"), written);
}

/* The reason of the last failed request, and its client. */
static void overview_put_failure(struct overview_lines *l, struct tidings_str s)
{
    char age[SPAN_TEXT_MAX];
    double at = self_state_number(s, "/lastFailure/atMs"), now = self_state_number(s, "/nowMs");
    if (at <= 0) {
        return;
    }
    char *method = text_at(s, "/lastFailure/method"), *reason = text_at(s, "/lastFailure/reason");
    char *cause = text_at(s, "/lastFailure/cause"), *address = text_at(s, "/lastFailure/address");
    char *path = text_at(s, "/lastFailure/path"), *uri = text_at(s, "/lastFailure/uri");
    const char *about = path && *path ? path : uri ? uri : "";
    overview_line(l, "failed", "last %s ago: %s%s%s%s%s of %s: %s",
                  span_text(now > at ? now - at : 0, age), method ? method : "", *about ? " " : "",
                  about, cause && *cause ? ", refused: " : "", cause ? cause : "",
                  address ? address : "", reason ? reason : "");
    tidings_free(method);
    tidings_free(reason);
    tidings_free(cause);
    tidings_free(address);
    tidings_free(path);
    tidings_free(uri);
}

size_t overview_put(const struct cli *cli, FILE *out, struct tidings_str s,
                    struct overview_before *before, size_t width, const char *end)
{
    struct overview_lines l = {.cli = cli, .out = out, .width = width, .end = end};
    struct overview_before none = {0};
    char a[SPAN_TEXT_MAX], cpu[SPAN_TEXT_MAX], memory[SIZE_TEXT_MAX];
    char *kind = text_at(s, "/store/kind");
    overview_put_name(&l, s);
    overview_put_moving(&l, s, before ? before : &none);
    overview_put_failure(&l, s);
    overview_line(&l, "there",
                  "%.0f connections, %.0f streams, %.0f sessions, %.0f peers, %.0f subscriptions",
                  self_state_number(s, "/connections"), self_state_number(s, "/streams"),
                  self_state_number(s, "/sessions"), self_state_number(s, "/subscribers"),
                  self_state_number(s, "/subscriptions"));
    overview_put_lag(&l, s);
    overview_line(&l, "uses", "%s memory, %s CPU, %.0f descriptors, store %s%s",
                  size_text((uint64_t)self_state_number(s, "/memoryBytes"), memory),
                  span_text(self_state_number(s, "/cpuMs"), cpu),
                  self_state_number(s, "/descriptors"), kind ? kind : "",
                  is_true_at(s, "/store/ok") ? "" : " FAILING");
    if (self_state_number(s, "/nodes") > 0) {
        overview_line(&l, "nodes", "%.0f live, %.0f silent; this one is %s behind",
                      self_state_number(s, "/nodes"), self_state_number(s, "/nodesSilent"),
                      span_text(self_state_number(s, "/nodeLagMs"), a));
    }
    tidings_free(kind);
    return l.count;
}

/* -------------------------------------------------------------------------------------------------
 * `tidings status`, `tidings peers`, `tidings limits`: the state of a server, printed once.
 */

#define LINE_WIDTH 400u /* nothing is truncated unless it is a screen */

/* ---- status ---------------------------------------------------------------------------------- */

static int status_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    char *text = self_state_read(client, "status", err);
    if (!text) {
        return err->code;
    }
    struct tidings_str status = tidings_str(text);
    bool is_ready = is_true_at(status, "/ready");
    if (cli->json) {
        put_json(stdout, status);
    } else if (!cli->quiet) {
        (void)overview_put(cli, stdout, status, NULL, LINE_WIDTH, "\n");
    }
    tidings_free(text);
    return is_ready ? 0 : 1;
}

const struct command command_status = {
    .name = "status",
    .help = "print server status",
    .about = "Print the status of a tidings server: readiness, traffic, clients, lag and resource "
             "use. The server must run with --self, and you must be "
             "allowed to read tidings://self/status.\n\n"
             "The status is 0 when it is ready, else 1. -q prints nothing.\n"
             "--json prints the object of the server.\n",
    .has_target = true,
    .ask = status_ask,
};

/* ---- peers ----------------------------------------------------------------------------------- */

struct peers {
    struct cli cli;
    unsigned order;
};

static int peers_put_json(void *user, struct tidings_str key, struct tidings_str row)
{
    (void)user;
    (void)key;
    put_json(stdout, row);
    return 0;
}

static int peers_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct peers *p = (const struct peers *)cli;
    char *text = self_state_read_all(client, "peers", err);
    if (!text) {
        return err->code;
    }
    struct peer_table table = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = 0;
    if (cli->json) {
        (void)tidings_json_each(tidings_str(text), "", peers_put_json, NULL);
    } else if ((rc = peer_table_read(&table, tidings_str(text), err)) == 0) {
        peer_table_sort(&table, (enum peer_order)p->order);
        peer_table_put(cli, stdout, &table, 0, table.count, LINE_WIDTH,
                       (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6, "\n");
    }
    peer_table_deinit(&table);
    tidings_free(text);
    return rc;
}

static const struct option peers_options[] = {
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct peers, order),
     .metavar = "BY",
     .help = "sort order",
     .choices = peer_orders,
     .value = "lag"},
    {0},
};

const struct command command_peers = {
    .name = "peers",
    .help = "list the clients of a server",
    .about = "List the connected clients: number, principal, address, client name, transport, age "
             "of the oldest pending notification, number of pending notifications, subscriptions, "
             "bytes sent, connection time, last error. The server must run "
             "with --self, and you must be allowed to read tidings://self/peers.\n\n"
             "--json prints an object for each, in the order of the server.\n",
    .options = peers_options,
    .size = sizeof(struct peers),
    .has_target = true,
    .ask = peers_ask,
};

/* ---- limits ---------------------------------------------------------------------------------- */

#define LIMITS_NAME 22
#define LIMITS_COUNT 9
#define LIMITS_SHORT 8
#define LIMITS_AT (LIMITS_NAME + 3 * (LIMITS_COUNT + 1) + LIMITS_SHORT + 1 + LIMITS_SHORT + 2)
#define LIMITS_ABOUT 20u /* a narrower terminal shows no descriptions */

/* A limit that clients do not share has no use, share or reserve. */
static void limits_put_count(struct tidings_str row, const char *pointer, int width)
{
    char *count = tidings_json_get(row, pointer);
    printf(" %*s", width, count ? count : "");
    tidings_free(count);
}

static bool limits_has_about(void)
{
    return !is_terminal(stdout) || output_width(stdout) >= LIMITS_AT + LIMITS_ABOUT;
}

static int limits_put(void *user, struct tidings_str key, struct tidings_str row)
{
    const struct cli *cli = user;
    (void)key;
    if (cli->json) {
        put_json(stdout, row);
        return 0;
    }
    char *name = text_at(row, "/limit"), *about = text_at(row, "/about");
    put_cell(stdout, name ? name : "", LIMITS_NAME, true);
    limits_put_count(row, "/value", LIMITS_COUNT);
    limits_put_count(row, "/inUse", LIMITS_COUNT);
    limits_put_count(row, "/share", LIMITS_COUNT);
    limits_put_count(row, "/reserve", LIMITS_SHORT);
    bool is_reached = self_state_number(row, "/reached") > 0;
    put_style(cli, stdout, is_reached ? STYLE_BAD : STYLE_PLAIN);
    limits_put_count(row, "/reached", LIMITS_SHORT);
    put_style(cli, stdout, STYLE_PLAIN);
    if (limits_has_about()) {
        fputs("  ", stdout);
        put_text_wrapped(stdout, tidings_str(about ? about : ""), LIMITS_AT);
    }
    fputc('\n', stdout);
    tidings_free(name);
    tidings_free(about);
    return 0;
}

static int limits_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    char *text = self_state_read(client, "limits", err);
    if (!text) {
        return err->code;
    }
    if (!cli->json) {
        put_style(cli, stdout, STYLE_DIM);
        printf("%-*s %*s %*s %*s %*s %*s%s\n", LIMITS_NAME, "LIMIT", LIMITS_COUNT, "VALUE",
               LIMITS_COUNT, "IN USE", LIMITS_COUNT, "SHARE", LIMITS_SHORT, "RESERVE", LIMITS_SHORT,
               "REACHED", limits_has_about() ? "  ABOUT" : "");
        put_style(cli, stdout, STYLE_PLAIN);
    }
    (void)tidings_json_each(tidings_str(text), "", limits_put, cli);
    tidings_free(text);
    return 0;
}

const struct command command_limits = {
    .name = "limits",
    .help = "list the limits of a server, and how often they were reached",
    .about = "List every limit that clients can reach: its value and how often it was reached. "
             "Limits that all clients share also have their use, the share of one principal, and "
             "the reserve for operators. A terminal of less than 91 columns "
             "shows no descriptions. The server must run with --self, and you must be "
             "allowed to read tidings://self/limits.\n\n"
             "--json prints an object for each.\n",
    .has_target = true,
    .ask = limits_ask,
};
