/* SPDX-License-Identifier: MIT
 *
 * `tidings top`: shows a server and its clients on the whole screen, refreshed periodically like
 * top(1).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>
#include <tidings/types.h>

#include "cli/monitor.h"
#include "cli/output.h"

/* -------------------------------------------------------------------------------------------------
 * A full-screen terminal: enter, draw, leave. The terminal is restored however the program ends,
 * except by SIGKILL: by `screen_leave`, at exit, and by signals, before other handlers run.
 */

#define SCREEN_END "\033[K\r\n"

/* -------------------------------------------------------------------------------------------------
 * The terminal: raw keys, the alternate screen, no cursor, no line wrapping. Leaving restores the
 * previous settings.
 */

#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios screen_before;
static volatile sig_atomic_t screen_is_on;
static volatile sig_atomic_t screen_was_left; /* by a signal: no more drawing */
static int screen_wake[2] = {-1, -1}; /* a pipe: a signal requests a new frame at any time */
static char *screen_text;
static size_t screen_len;

static const int screen_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
#define SCREEN_SIGNALS (sizeof(screen_signals) / sizeof(screen_signals[0]))
static struct sigaction screen_others[SCREEN_SIGNALS];

/* Uses only async-signal-safe functions. */
static void screen_restore(void)
{
    if (screen_is_on) {
        screen_is_on = 0;
        ssize_t n = write(STDOUT_FILENO, SCREEN_LEAVE, sizeof(SCREEN_LEAVE) - 1);
        (void)n;
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen_before);
    }
}

static void screen_draw_on(void)
{
    struct termios raw = screen_before;
    raw.c_lflag &= (tcflag_t) ~(unsigned)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    ssize_t n = write(STDOUT_FILENO, SCREEN_ENTER, sizeof(SCREEN_ENTER) - 1);
    (void)n;
    screen_is_on = 1;
}

static void screen_ask_frame(void)
{
    ssize_t n = write(screen_wake[1], "", 1); /* full: a frame is already requested */
    (void)n;
}

/* Leave, then call the previous handler; without one, the signal ends or stops the program. */
static void screen_on_signal(int number)
{
    int error = errno;
    bool was_on = screen_is_on;
    screen_restore();
    for (size_t i = 0; i < SCREEN_SIGNALS; i++) {
        if (screen_signals[i] == number && number != SIGTSTP) {
            screen_was_left = 1;
            sigaction(number, &screen_others[i], NULL);
            raise(number);
        }
    }
    if (number == SIGTSTP) {
        raise(SIGSTOP); /* … until SIGCONT */
        if (was_on) {
            screen_draw_on();
            screen_ask_frame();
        }
    }
    errno = error;
}

static void screen_on_resize(int number)
{
    (void)number;
    int error = errno;
    screen_ask_frame(); /* it has the new size */
    errno = error;
}

/* Returns false if standard input and output are not a terminal that supports drawing. */
static bool screen_enter(void)
{
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0 ||
        tcgetattr(STDIN_FILENO, &screen_before) < 0 ||
        (screen_wake[0] < 0 && pipe2(screen_wake, O_CLOEXEC | O_NONBLOCK) < 0)) {
        return false;
    }
    atexit(screen_restore);
    struct sigaction act = {.sa_handler = screen_on_signal};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < SCREEN_SIGNALS; i++) {
        sigaction(screen_signals[i], &act, &screen_others[i]);
    }
    struct sigaction resize = {.sa_handler = screen_on_resize};
    sigemptyset(&resize.sa_mask);
    sigaction(SIGWINCH, &resize, NULL);
    screen_draw_on();
    return true;
}

/* Twice is fine */
static void screen_leave(void)
{
    screen_restore();
}

/* Columns and rows, now. */
static void screen_size(size_t *columns, size_t *rows)
{
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns = size.ws_col > 0 ? size.ws_col : 80;
    *rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* Returns a stream for the next frame, whose lines end with SCREEN_END, and which is then shown.
 * NULL: no memory. */
static FILE *screen_begin(void)
{
    FILE *frame = open_memstream(&screen_text, &screen_len);
    if (frame) {
        fputs("\033[H", frame);
    }
    return frame;
}

static void screen_show(FILE *frame)
{
    fputs("\033[J", frame);
    if (fclose(frame) == 0 && screen_is_on && !screen_was_left) {
        for (size_t at = 0; at < screen_len;) {
            ssize_t n = write(STDOUT_FILENO, screen_text + at, screen_len - at);
            if (n < 0 && errno != EINTR) {
                break;
            }
            at += n > 0 ? (size_t)n : 0;
        }
    }
    free(screen_text);
    screen_text = NULL;
}

/* Wait for a key for at most `ms`: its byte; 0: none, or the window was resized; -1: end of input,
 * or a signal. Sequences of function keys are skipped. */
static int screen_key(uint64_t ms)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = screen_wake[0], .events = POLLIN}};
    int n = poll(fds, 2, (int)ms);
    if (screen_was_left) {
        return -1;
    }
    char asked[64];
    while (n > 0 && fds[1].revents && read(screen_wake[0], asked, sizeof(asked)) > 0) {
    }
    if (n <= 0 || !fds[0].revents) {
        return 0;
    }
    unsigned char key = 0;
    ssize_t len = read(STDIN_FILENO, &key, 1);
    if (len <= 0) {
        return len < 0 && errno == EINTR ? 0 : -1;
    }
    if (key == 033) { /* ESC [ … letter, or ESC O letter, all at once */
        bool is_sequence = read(STDIN_FILENO, &key, 1) == 1 && (key == '[' || key == 'O');
        while (is_sequence && read(STDIN_FILENO, &key, 1) == 1 && (key < 0x40 || key > 0x7e)) {
        }
        return 0;
    }
    return key;
}

/* ---------------------------------------------------------------------------------------------- */

#define PLAIN_WIDTH 400u

struct top {
    struct cli cli;
    uint64_t delay_ms;
    unsigned order;
    bool once;
    /* while it runs: */
    struct overview_before before; /* of the sample before the shown one */
    struct overview_before shown;
    size_t first; /* first visible row */
};

/* The data of a sample. */
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

/* Handles a key; returns false if it quits. */
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

/* Handle keys until the next sample is due; returns false on quit. */
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
            top_draw(top, sample, trouble); /* new sort order or size */
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
                            "standard output is not a terminal; use --once or --json");
    }
    bool goes_on = true;
    while (goes_on && !remote_caught) {
        top_draw(top, &sample, rc < 0 ? err->text : NULL);
        goes_on = top_wait(top, &sample, rc < 0 ? err->text : NULL) && !remote_caught;
        if (goes_on) {
            struct top_sample next;
            rc = top_ask(client, &next, err); /* the client reconnects by itself */
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
     .help = "sort order",
     .choices = peer_orders,
     .value = "lag"},
    {.name = "once", .kind = OPTION_FLAG, .offset = AT(once), .help = "look once, and end"},
    {0},
};

const struct command command_top = {
    .name = "top",
    .help = "watch a server and its clients on the whole screen",
    .about =
        "Show the status and the clients of a server, and refresh them. Keys: l w b "
        "s t sort by lag, waiting, bytes, subscriptions, connection time; j and k move through the "
        "list; space refreshes; q quits. The server must run with --self, and you must be "
        "allowed to read tidings://self/status and tidings://self/peers.\n\n"
        "--once prints one look as text, for scripts.\n"
        "--json prints an object for each look: status, peers; with --once a single one.\n",
    .options = options,
    .size = sizeof(struct top),
    .has_target = true,
    .ask = top_run,
};
