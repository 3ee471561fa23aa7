/* SPDX-License-Identifier: MIT
 *
 * `tidings status`, `tidings peers`, `tidings limits`: what a server says of itself, once.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/monitor/overview.h"
#include "bin/monitor/peer_table.h"
#include "bin/monitor/self_state.h"

#define LINE_WIDTH 400u /* nothing is cut where it is not a screen */

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
    .help = "print how a server fares",
    .about = "Print how a server of ours fares: whether it is ready, what moved, who is there, how "
             "far it is behind, what it uses. The server must run with --self, and you must be "
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
     .help = "what comes first",
     .choices = peer_orders,
     .value = "lag"},
    {0},
};

const struct command command_peers = {
    .name = "peers",
    .help = "list the clients of a server",
    .about = "List the clients that are there: number, principal, address, what they call "
             "themselves, how they come, how long the oldest notification waits for them, how many "
             "do, subscriptions, bytes sent, since when, their last error. The server must run "
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
#define LIMITS_ABOUT 20u /* a narrower terminal shows no texts */

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
    .about = "List every limit that clients of a server can run into: its value and how often it "
             "was reached. Of limits that all clients share also how much is in use, the share of "
             "one principal, and the reserve for operators. A terminal of less than 91 columns "
             "shows no descriptions. The server must run with --self, and you must be "
             "allowed to read tidings://self/limits.\n\n"
             "--json prints an object for each.\n",
    .has_target = true,
    .ask = limits_ask,
};
