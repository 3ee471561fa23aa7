/* SPDX-License-Identifier: MIT
 *
 * Newline framing (stdio, TCP): one message per line, LF; a CR before it is dropped; blank lines
 * (nothing but blanks) are skipped. A line longer than the maximum, its line end not counted, is
 * skipped to its end and reported once. What comes out does not depend on how the bytes were cut.
 *
 * A caller that asks for lines until LINE_MORE after each feed never makes the reader hold more
 * than the maximum and one feed.
 */
#ifndef WIRE_LINE_H
#define WIRE_LINE_H

#include "base/str.h"

struct line_reader {
    struct buf in;
    size_t start;   /* of the first line not given yet */
    size_t scanned; /* no LF before this */
    size_t max;
    bool skipping;
};

enum line_result {
    LINE_MORE = 0,
    LINE_READY = 1,
    LINE_TOO_LONG = 2, /* one over-long line was passed over (or is being) */
};

void line_reader_init(struct line_reader *r, size_t max_line);
void line_reader_deinit(struct line_reader *r);
int line_reader_feed(struct line_reader *r, const char *bytes, size_t len); /* TIDINGS_E_NOMEM */
/* The next line; the slice is valid until the next feed or next. At LINE_MORE the memory of an
 * emptied reader is released. */
enum line_result line_reader_next(struct line_reader *r, struct tidings_str *line);
/* At end of input: an unfinished last line counts as a line. */
enum line_result line_reader_finish(struct line_reader *r, struct tidings_str *line);
/* Between lines: forgetting it and beginning anew would change nothing. */
bool line_reader_is_idle(const struct line_reader *r);

#endif
