/* SPDX-License-Identifier: MIT
 *
 * `tidings nodes`: the servers that share a store, and how far each is behind.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/monitor/peer_table.h"
#include "bin/monitor/self_state.h"

enum { COLUMN_NODE = 22, COLUMN_VERSION = 12, COLUMN_ADDRESS = 28 };

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
    put_cell(stdout, address ? address : "", COLUMN_ADDRESS, true);
    (void)tidings_json_each(row, "/owns", nodes_put_owned, NULL);
    fputc('\n', stdout);
    tidings_free(name);
    tidings_free(version);
    tidings_free(address);
    return 0;
}

/* A server that shares its store with nobody: one row, from its status. */
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
               "LAG", "SEEN", "AGE", "SESSIONS", "SUBS", COLUMN_VERSION, "VERSION", COLUMN_ADDRESS,
               "ADDRESS");
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
             "ago it was seen, how long it is there, sessions, subscriptions, version, address, "
             "and the mounts it owns. A server that shares its store with nobody is one node. It "
             "must run with --self, and you must be allowed to read tidings://self/nodes.\n\n"
             "--json prints an object for each; 'alone' says that it is the only one.\n",
    .has_target = true,
    .ask = nodes_ask,
};
