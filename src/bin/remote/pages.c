/* SPDX-License-Identifier: MIT
 *
 * Counts the pages of an answer, and ends one that goes on too long or in a circle.
 */
#include "bin/remote/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 10000u
#define ANSWERS_MAX 10u
#define ANSWER_MS 30000u

int pages_next(struct pages *p, const char *cursor, uint64_t answer_ms, struct tidings_error *err)
{
    if (p->mark && strcmp(p->mark, cursor) == 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the pages of the server go in a circle");
    }
    if (++p->count >= PAGES_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "there are more than %u pages", PAGES_MAX);
    }
    if (p->waited_ms > ANSWERS_MAX * (answer_ms > 0 ? answer_ms : ANSWER_MS)) {
        return tidings_fail(err, TIDINGS_E_TIMEOUT,
                            "%u page%s took %" PRIu64 " ms, and there are more", p->count,
                            p->count == 1 ? "" : "s", p->waited_ms);
    }
    if ((p->count & (p->count - 1)) == 0) {
        free(p->mark);
        p->mark = strdup(cursor);
    }
    return 0;
}

void pages_deinit(struct pages *p)
{
    free(p->mark);
}
