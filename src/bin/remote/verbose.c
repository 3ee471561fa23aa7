/* SPDX-License-Identifier: MIT
 *
 * Prints messages as they go over the wire, for -v.
 */
#include "bin/remote/verbose.h"

#include <stdio.h>

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
    if (text.len > VERBOSE_MAX) {
        put_text(stderr, tidings_strn(text.ptr, verbose_cut(text)));
        fprintf(stderr, "… (%zu bytes)", text.len);
    } else {
        put_text(stderr, text);
    }
    fputc('\n', stderr);
}
