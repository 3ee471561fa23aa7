/* SPDX-License-Identifier: MIT
 *
 * A terminal that is drawn on as a whole: entered, drawn, left. It is left however the program ends
 * short of SIGKILL: by `screen_leave`, at exit, and by signals, before whoever else handles them.
 */
#ifndef BIN_SCREEN_H
#define BIN_SCREEN_H

#include <stdio.h>
#include <tidings/types.h>

/* False: standard input and output are no terminal that can be drawn on. */
bool screen_enter(void);
void screen_leave(void); /* twice is fine */
/* Columns and rows, now. */
void screen_size(size_t *columns, size_t *rows);
/* A frame is put together on the stream this gives, lines ended by SCREEN_END, and shown. NULL: no
 * memory. */
FILE *screen_begin(void);
void screen_show(FILE *frame);
#define SCREEN_END "\033[K\r\n"
/* A key, within `ms`: its byte; 0: none came, or the window was resized; -1: it is over (end of
 * input, or a signal). Sequences of function keys are passed over. */
int screen_key(uint64_t ms);

#endif
