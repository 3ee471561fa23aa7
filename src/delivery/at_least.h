/* SPDX-License-Identifier: MIT
 *
 * Lets a read wait for a cursor that its client names (`dev.tidings/atLeast`), so that a client
 * that wrote at one node, or was told of a change there, reads at least that at another: the read
 * begins when everything is known here that was committed when it came. At the node that made the
 * cursor that is so already; where nodes share a store, the store is asked.
 */
#ifndef DELIVERY_AT_LEAST_H
#define DELIVERY_AT_LEAST_H

#include <tidings/types.h>

struct principal;
struct worker;

/* worker->at_least: `done` is called once, on the worker's thread and perhaps before this returns,
 * or on whichever thread ends the hub. TIDINGS_E_INVALID: no cursor that `principal` was given, or
 * one that nothing is known of here. TIDINGS_E_BUSY: the store cannot be asked. TIDINGS_E_TIMEOUT:
 * not within HUB_AWAIT_MS. */
void at_least_await(struct worker *worker, const struct principal *principal,
                    struct tidings_str cursor,
                    void (*done)(void *user, int code, const struct tidings_error *err),
                    void *user);

#endif
