/* SPDX-License-Identifier: MIT
 *
 * Prints messages as they go over the wire, for -v, and lines of the server's log.
 */
#include "bin/remote/verbose.h"

#include <stdio.h>

#include <tidings/json.h>

#include "bin/cli/output.h"

/* Not inside a character. */
static size_t verbose_cut(struct tidings_str text)
{
    size_t at = VERBOSE_MAX;
    while (at > VERBOSE_MAX - 4 && ((unsigned char)text.ptr[at] & 0xc0) == 0x80) {
        at--;
    }
    return at;
}

static void verbose_put(struct tidings_str text)
{
    if (text.len > VERBOSE_MAX) {
        put_text(stderr, tidings_strn(text.ptr, verbose_cut(text)));
        fprintf(stderr, "… (%zu bytes)", text.len);
    } else {
        put_text(stderr, text);
    }
    fputc('\n', stderr);
}

void verbose_tell(void *user, const struct tidings_client_wire *wire)
{
    struct tidings_str text = wire->text;
    (void)user;
    fflush(stdout);
    fputs(wire->is_sent ? "> " : "< ", stderr);
    if (wire->status > 0) {
        fprintf(stderr, "HTTP %ld%s", wire->status, wire->reason.len > 0 ? ": " : " ");
    }
    put_text(stderr, wire->reason);
    verbose_put(text);
}

void verbose_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                 struct tidings_str data)
{
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
    char *text = tidings_json_string(data, "");
    (void)user;
    fflush(stdout);
    fprintf(stderr, "server, %s", names[level]);
    fputs(logger.len > 0 ? " of " : "", stderr);
    put_text(stderr, logger);
    fputs(": ", stderr);
    verbose_put(text ? tidings_str(text) : data);
    tidings_free(text);
}
