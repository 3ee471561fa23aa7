/* SPDX-License-Identifier: MIT
 *
 * A test bench for whole workers: that of support/harness_delivery.h with one or two that answer
 * requests. Clients are in support/harness_client.h, a provider in support/harness_provider.h.
 *
 *     struct harness b;
 *     harness_init(&b);                  // defaults; change b.limits and so on now
 *     harness_start(&b);
 *     struct client *c = client_http(&b);
 *     client_modern(c, "1", "subscriptions/listen", "\"notifications\":{}");
 *     harness_run_until_idle(&b);
 *     assert_json(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor", …);
 *     client_free(c);
 *     harness_stop(&b);
 */
#ifndef SUPPORT_HARNESS_CORE_H
#define SUPPORT_HARNESS_CORE_H

#include "engine/engine.h"
#include "support/harness_delivery.h"

/* harness_init first. */
void harness_start(struct harness *b);
/* Clients must be gone. */
void harness_stop(struct harness *b);
/* Its first half, for tests of pending work; harness_stop_hub is the other. */
void harness_stop_cores(struct harness *b);
struct core *harness_core(struct harness *b, size_t index);

#endif
