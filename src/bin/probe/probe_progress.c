/* SPDX-License-Identifier: MIT
 *
 * What `tidings probe` is doing, for a person at a terminal: one line of standard error that is
 * written over, and a line that stays when it is the person's turn. Nothing anywhere else.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "bin/cli/output.h"
#include "bin/probe/probe.h"

/* The line as it is shown; there is one terminal. */
static struct {
    char text[160];
    uint64_t seconds;
} shown;

static bool progress_is_seen(const struct probe *p)
{
    return !p->cli.quiet && is_terminal(stderr);
}

void probe_clear(void)
{
    if (shown.text[0]) {
        fputs("\r\033[K", stderr);
        shown.text[0] = '\0';
    }
}

static void progress_put(void)
{
    fputs("\r\033[K", stderr);
    put_text(stderr, tidings_str(shown.text));
}

void probe_doing(const struct probe *p, const char *format, ...)
{
    va_list args;
    if (progress_is_seen(p)) {
        va_start(args, format);
        vsnprintf(shown.text, sizeof(shown.text), format, args);
        va_end(args);
        shown.seconds = 0;
        progress_put();
    }
}

void probe_waits(uint64_t left_ms)
{
    uint64_t seconds = (left_ms + 999) / 1000;
    if (shown.text[0] && seconds > 1 && seconds != shown.seconds) {
        shown.seconds = seconds;
        progress_put();
        fprintf(stderr, " (%" PRIu64 " s)", seconds);
    }
}

void probe_ask_person(const struct run *r, const char *why)
{
    if (progress_is_seen(r->probe) && !probe_can_change(r)) {
        probe_clear();
        fputs("change it now: ", stderr);
        put_text(stderr, tidings_str(r->uri));
        fprintf(stderr, " (%s)\n", why);
        probe_doing(r->probe, "waiting for the update");
    }
}
