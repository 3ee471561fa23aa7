/* SPDX-License-Identifier: MIT
 *
 * Messages over two descriptors, one per line: standard input and output of a program that a host
 * launched. Their flags stay as they are, since the parent shares them. Input may be a pipe, a
 * socket, a terminal, a file or /dev/null.
 *
 * At the end of input what is under way is finished and written, then `ended` is called once.
 */
#ifndef TRANSPORT_STDIO_H
#define TRANSPORT_STDIO_H

#include "delivery/delivery.h"

struct stdio;

struct stdio_options {
    int in, out;
    size_t max_line;
    void (*ended)(void *user);
    void *user;
};

struct stdio *stdio_open(struct worker *worker, const struct stdio_options *options,
                         struct tidings_error *err);
/* After drain_begin: when its turn has come and what is under way is answered, `ended`. */
void stdio_drain(struct stdio *s);
void stdio_close(struct stdio *s); /* NULL is fine; closes no descriptor */

#endif
