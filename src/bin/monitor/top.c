/* SPDX-License-Identifier: MIT
 *
 * `tidings top`: a server and its clients on the whole screen, again and again, like top(1).
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/monitor/overview.h"
#include "bin/monitor/peer_table.h"
#include "bin/monitor/screen.h"
#include "bin/monitor/self_state.h"

#define PLAIN_WIDTH 400u

struct top {
    struct cli cli;
    uint64_t delay_ms;
    unsigned order;
    bool once;
    /* while it runs: */
    struct overview_before before; /* of the sample before the one that is shown */
    struct overview_before shown;
    size_t first; /* row that is shown first */
};

/* What a sample brought. */
struct top_sample {
    char *status, *peers;
};

static void top_sample_deinit(struct top_sample *sample)
{
    tidings_free(sample->status);
    tidings_free(sample->peers);
}

static int top_ask(struct tidings_client *client, struct top_sample *ret, struct tidings_error *err)
{
    *ret = (struct top_sample){.status = self_state_read(client, "status", err)};
    ret->peers = ret->status ? self_state_read_all(client, "peers", err) : NULL;
    if (!ret->peers) {
        top_sample_deinit(ret);
        return err->code;
    }
    return 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static int top_put(struct top *top, FILE *out, const struct top_sample *sample, size_t width,
                   size_t rows, const char *end, struct tidings_error *err)
{
    struct peer_table table = {0};
    struct tidings_str status = tidings_str(sample->status);
    int rc = peer_table_read(&table, tidings_str(sample->peers), err);
    top->shown = top->before;
    size_t used = overview_put(&top->cli, out, status, &top->shown, width, end) + 2;
    peer_table_sort(&table, (enum peer_order)top->order);
    size_t room = rows > used + 1 ? rows - used - 1 : 1;
    if (top->first + room > table.count) {
        top->first = table.count > room ? table.count - room : 0;
    }
    fputs(end, out);
    peer_table_put(&top->cli, out, &table, top->first, room, width,
                   self_state_number(status, "/nowMs"), end);
    peer_table_deinit(&table);
    return rc;
}

static void top_draw(struct top *top, const struct top_sample *sample, const char *trouble)
{
    struct tidings_error err;
    size_t columns = 0, rows = 0;
    screen_size(&columns, &rows);
    FILE *frame = screen_begin();
    if (!frame) {
        return;
    }
    if (sample) {
        (void)top_put(top, frame, sample, columns, rows - 1, SCREEN_END, &err);
    }
    char foot[512];
    snprintf(foot, sizeof(foot), "%s%ssorted by %s; l w b s t sort, j k move, space looks, q quits",
             trouble ? trouble : "", trouble ? "  " : "", peer_orders[top->order]);
    put_style(&top->cli, frame, trouble ? STYLE_BAD : STYLE_DIM);
    put_cell(frame, foot, columns, false);
    put_style(&top->cli, frame, STYLE_PLAIN);
    fputs("\033[K", frame);
    screen_show(frame);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* What a key does; false: it is over. */
static bool top_obey(struct top *top, int key)
{
    static const char letters[] = "lwbst";
    const char *order = key > 0 ? strchr(letters, key) : NULL;
    if (order) {
        top->order = (unsigned)(order - letters);
        top->first = 0;
    }
    top->first += key == 'j' ? 10 : 0;
    top->first -= key != 'k' ? 0 : top->first < 10 ? top->first : 10;
    return key >= 0 && key != 'q' && key != 'Q' && key != 3 && key != 4;
}

/* Keys until the next sample is due; false: it is over. */
static bool top_wait(struct top *top, const struct top_sample *sample, const char *trouble)
{
    uint64_t begun = now_ms();
    for (;;) {
        uint64_t passed = now_ms() - begun;
        if (passed >= top->delay_ms) {
            return true;
        }
        int key = screen_key(top->delay_ms - passed);
        if (!top_obey(top, key)) {
            return false;
        }
        if (key == ' ') {
            return true;
        }
        if (now_ms() - begun < top->delay_ms) {
            top_draw(top, sample, trouble); /* sorted anew, or of another size */
        }
    }
}

static int top_on_screen(struct top *top, struct tidings_client *client, struct tidings_error *err)
{
    struct top_sample sample = {0};
    int rc = top_ask(client, &sample, err);
    if (rc < 0) {
        return rc;
    }
    if (!screen_enter()) {
        top_sample_deinit(&sample);
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "this is no terminal to draw on: say --once or --json");
    }
    bool goes_on = true;
    while (goes_on && !remote_caught) {
        top_draw(top, &sample, rc < 0 ? err->text : NULL);
        goes_on = top_wait(top, &sample, rc < 0 ? err->text : NULL) && !remote_caught;
        if (goes_on) {
            struct top_sample next;
            rc = top_ask(client, &next, err); /* the client comes back by itself */
            if (rc == 0) {
                top_sample_deinit(&sample);
                sample = next;
                top->before = top->shown;
            }
        }
    }
    screen_leave();
    top_sample_deinit(&sample);
    return 0;
}

static int top_plain(struct top *top, struct tidings_client *client, struct tidings_error *err)
{
    for (;;) {
        struct top_sample sample;
        int rc = top_ask(client, &sample, err);
        if (rc < 0) {
            return rc;
        }
        if (top->cli.json) {
            fputs("{\"status\":", stdout);
            put_json_text(stdout, tidings_str(sample.status));
            fputs(",\"peers\":", stdout);
            put_json_text(stdout, tidings_str(sample.peers));
            fputs("}\n", stdout);
        } else {
            rc = top_put(top, stdout, &sample, PLAIN_WIDTH, SIZE_MAX / 2, "\n", err);
        }
        top_sample_deinit(&sample);
        top->before = top->shown;
        if (rc < 0 || top->once || fflush(stdout) != 0) {
            return rc;
        }
        struct timespec pause = {.tv_sec = (time_t)(top->delay_ms / 1000),
                                 .tv_nsec = (long)(top->delay_ms % 1000) * 1000000};
        if (nanosleep(&pause, NULL) != 0 || remote_caught) {
            return 0;
        }
    }
}

static int top_run(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct top *top = (struct top *)cli;
    return top->once || cli->json ? top_plain(top, client, err) : top_on_screen(top, client, err);
}

#define AT(member) offsetof(struct top, member)

static const struct option options[] = {
    {.name = "delay",
     .letter = 'd',
     .kind = OPTION_TIME,
     .offset = AT(delay_ms),
     .metavar = "TIME",
     .help = "between two looks",
     .min = 100,
     .max = 3600000,
     .value = "2s"},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .offset = AT(order),
     .metavar = "BY",
     .help = "what comes first",
     .choices = peer_orders,
     .value = "lag"},
    {.name = "once", .kind = OPTION_FLAG, .offset = AT(once), .help = "look once, and end"},
    {0},
};

const struct command command_top = {
    .name = "top",
    .help = "watch a server and its clients on the whole screen",
    .about =
        "Show how a server fares and who its clients are, and look again and again. Keys: l w b "
        "s t sort by lag, waiting, bytes, subscriptions, since when; j and k move through the "
        "list; space looks now; q ends. The server must run with --self, and you must be "
        "allowed to read tidings://self/status and tidings://self/peers.\n\n"
        "--once prints one look as text, for scripts.\n"
        "--json prints an object for each look: status, peers; with --once a single one.\n",
    .options = options,
    .size = sizeof(struct top),
    .has_target = true,
    .ask = top_run,
};
