/* SPDX-License-Identifier: MIT
 *
 * One sample of load, memory, disk and network of this machine, as JSON text.
 */
#ifndef PROVIDER_SYSTEM_SAMPLE_H
#define PROVIDER_SYSTEM_SAMPLE_H

#include "base/str.h"

/* In ascending order of their names. */
enum system_metric { SYSTEM_DISK, SYSTEM_LOAD, SYSTEM_MEMORY, SYSTEM_NETWORK, SYSTEM_METRICS };

#define SYSTEM_TEXT_MAX 1048576u /* bytes read from one file of /proc */
#define SYSTEM_ROWS_MAX 64u      /* file systems, interfaces; more are left out */
#define SYSTEM_JSON_MAX 262144u  /* bytes of one metric */

/* Append the metric as one JSON object to `out`. `proc` is the folder to read, "/proc". May block
 * as long as the system does. */
int system_sample(const char *proc, enum system_metric metric, struct buf *out,
                  struct tidings_error *err);

#endif
