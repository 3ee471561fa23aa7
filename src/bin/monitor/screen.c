/* SPDX-License-Identifier: MIT
 *
 * The terminal: raw keys, the alternate screen, no cursor, no wrapping of lines. What is restored
 * is what was found.
 */
#include "bin/monitor/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios screen_before;
static volatile sig_atomic_t screen_is_on;
static volatile sig_atomic_t screen_was_left; /* by a signal: nothing is drawn any more */
static int screen_wake[2] = {-1, -1}; /* a pipe: a signal wants a new frame, whenever it came */
static char *screen_text;
static size_t screen_len;

static const int screen_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
#define SCREEN_SIGNALS (sizeof(screen_signals) / sizeof(screen_signals[0]))
static struct sigaction screen_others[SCREEN_SIGNALS];

/* All that is called here may be called in a handler. */
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
    ssize_t n = write(screen_wake[1], "", 1); /* full: it is asked for already */
    (void)n;
}

/* Leave, then let the other handler have it; what has none ends or stops the program. */
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

bool screen_enter(void)
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

void screen_leave(void)
{
    screen_restore();
}

void screen_size(size_t *columns, size_t *rows)
{
    struct winsize size = {0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns = size.ws_col > 0 ? size.ws_col : 80;
    *rows = size.ws_row > 0 ? size.ws_row : 24;
}

FILE *screen_begin(void)
{
    FILE *frame = open_memstream(&screen_text, &screen_len);
    if (frame) {
        fputs("\033[H", frame);
    }
    return frame;
}

void screen_show(FILE *frame)
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

int screen_key(uint64_t ms)
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
