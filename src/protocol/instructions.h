/* SPDX-License-Identifier: MIT
 *
 * The instructions that initialize and server/discover return, unless the program has its own: the
 * roots that the client may list, and how it waits for a change. A host gives them to its model.
 */
#ifndef PROTOCOL_INSTRUCTIONS_H
#define PROTOCOL_INSTRUCTIONS_H

#include <tidings/types.h>

struct buf;
struct request;

#define INSTRUCTIONS_MAX 600u /* bytes */

/* Returns the text for this client, in `room` if it had to be written. Empty: there is nothing to
 * say. */
struct tidings_str instructions_for(const struct request *request, struct buf *room);

#endif
