/* SPDX-License-Identifier: MIT
 *
 * tidings://self/subscriptions/mine: what whoever reads it is subscribed to.
 */
#ifndef SERVER_STATUS_MINE_H
#define SERVER_STATUS_MINE_H

#include <tidings/types.h>

struct tidings_read;

/* Finishes the read later; `after`: where the page before ended. */
void status_mine_read(struct tidings_read *read, struct tidings_str after);

#endif
