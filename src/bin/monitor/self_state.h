/* SPDX-License-Identifier: MIT
 *
 * What a server of ours says of itself below tidings://self/ (serve --self), read by the commands
 * of whoever looks after it.
 */
#ifndef BIN_SELF_STATE_H
#define BIN_SELF_STATE_H

#include "bin/remote/remote.h"

/* The JSON text of tidings://self/NAME; tidings_free it. NULL with `err`, whose sentence says how
 * to serve it when it is not there. */
char *self_state_read(struct tidings_client *client, const char *name, struct tidings_error *err);
/* The same of one that comes in pages: one array of all rows, at most SELF_STATE_PAGES pages. */
#define SELF_STATE_PAGES 200u
char *self_state_read_all(struct tidings_client *client, const char *name,
                          struct tidings_error *err);

/* The number at `pointer`, 0 where there is none. */
double self_state_number(struct tidings_str json, const char *pointer);

/* "350 ms", "2.5 s", "4 min", "3 h", "12 d". */
#define SPAN_TEXT_MAX 32u
const char *span_text(double ms, char out[SPAN_TEXT_MAX]);

#endif
