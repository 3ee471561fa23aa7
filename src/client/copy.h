/* SPDX-License-Identifier: MIT
 *
 * Live copies of entities (<tidings/copy.h>), as their client sees them.
 */
#ifndef CLIENT_COPY_H
#define CLIENT_COPY_H

struct tidings_client;

void copy_end_all(struct tidings_client *c);

#endif
