/* SPDX-License-Identifier: MIT
 *
 * The least that keeps the same rows: one INSERT bound and stepped per row into a table of SQLite,
 * a commit that is synced after every so many. Nothing is parsed, checked or compared.
 */
#ifndef BENCH_BARE_ROWS_H
#define BENCH_BARE_ROWS_H

#include <stddef.h>

struct bare_cost {
    double wall_us, cpu_us; /* per row */
};

/* `count` rows of `entities` entities with values of so many bytes, in the scratch directory. */
struct bare_cost bare_rows(unsigned long count, unsigned long per_commit, unsigned long entities,
                           size_t value_bytes);

/* The `n`th value, an object with `n` and a string that pads it. */
void bare_value(char *out, size_t size, unsigned long n, size_t value_bytes);

#endif
