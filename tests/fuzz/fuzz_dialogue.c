/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a dialogue on a line socket with a whole server, both eras: the output is JSON-RPC
 * line by line, every request is answered exactly once, notifications never, and no state remains
 * when the client disconnects. Input up to a byte 0x1e is sent together.
 */
#include "formats/rpc.h"
#include "server/config.h"
#include "support/accounts.h"
#include "support/dialogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_DEPTH 16u /* as configured in the server */

/* The account needs the input as the server sees it: lines. */
static void count_lines(struct line_reader *r, struct tidings_str piece, bool is_last)
{
    struct tidings_str line;
    enum line_result result = LINE_MORE;
    dialogue_require(line_reader_feed(r, piece.ptr, piece.len) == 0, "memory");
    while ((result = line_reader_next(r, &line)) != LINE_MORE ||
           (is_last && (result = line_reader_finish(r, &line)) != LINE_MORE)) {
        if (result == LINE_TOO_LONG) {
            accounts_asked(STR("too long"), MAX_DEPTH);
        } else {
            accounts_asked(line, MAX_DEPTH);
        }
    }
}

static void check_heard(void)
{
    struct tidings_str rest = dialogue_heard(), line;
    while (rest.len > 0) {
        bool whole = false;
        line = str_cut(rest, '\n', &rest, &whole);
        dialogue_require(whole, "whole lines are told");
        accounts_told(line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str input = tidings_strn((const char *)data, size), piece;
    struct line_reader lines;
    if (size > 16384) {
        return 0;
    }
    line_reader_init(&lines, DIALOGUE_MAX_BODY);
    accounts_begin();
    dialogue_open(DIALOGUE_LINES);
    while (!dialogue_is_over() && dialogue_next(&input, &piece)) {
        struct tidings_str said = dialogue_say(piece);
        count_lines(&lines, said, false);
    }
    bool was_cut = dialogue_is_over();
    if (!was_cut) {
        dialogue_finish();
        count_lines(&lines, STR_EMPTY, true);
    }
    check_heard();
    accounts_check(!was_cut);
    dialogue_close();
    line_reader_deinit(&lines);
    return 0;
}
