/* SPDX-License-Identifier: MIT
 *
 * How long requests took on one worker, by method, era and outcome. Methods are numbered by
 * whoever has the table of them (protocol/method.h); number 0 is all that are none.
 */
#ifndef REQUEST_OPERATIONS_H
#define REQUEST_OPERATIONS_H

#include <stdbool.h>

#include "base/durations.h"

#define OPERATIONS_METHODS 32u
#define OPERATIONS_ERAS 2u

struct operations {
    struct durations at[OPERATIONS_METHODS][OPERATIONS_ERAS][2]; /* [2]: well, with an error */
};

#endif
