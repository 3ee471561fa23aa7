/* SPDX-License-Identifier: MIT
 *
 * Entities as resources: typed JSON values with their history, kept in a file or in memory.
 *
 * One mount of provider_entity_ops at ENTITY_URI_PREFIX serves what a keeper has. It takes no
 * configuration. Everything is asked of the thread that keeps the store (store/keeper.h), which is
 * also the one that answers. Writing goes there too: whoever writes submits jobs to entity_keeper
 * and, once they are committed, announces what they did.
 */
#ifndef PROVIDER_ENTITY_H
#define PROVIDER_ENTITY_H

#include <tidings/provider.h>

#include "provider/entity_uri.h"
#include "store/keeper.h"
#include "json/write.h"

#define ENTITY_ALIAS "/entity/" /* may be written instead of the prefix */

extern const struct tidings_provider_ops provider_entity_ops;

/* Who carries out what is put, patched or removed over HTTP: `write` of the table. Before requests
 * come; without one everything is read-only there. */
typedef void (*entity_writer_fn)(struct tidings_provider *provider, struct tidings_write *write,
                                 struct tidings_str uri);
void entity_set_writer(struct tidings_provider *provider, entity_writer_fn writer);

/* It serves what `keeper` has, which outlives it. Before it is asked anything. */
void entity_bind(struct tidings_provider *provider, struct keeper *keeper);
struct keeper *entity_keeper(struct tidings_provider *provider);

/* The members that describe a version, without its value, inside an object. */
void entity_put_version(struct jw *w, const struct entity_version *version);

/* Tell that a write was committed: nothing when it changed nothing. From `done` of the job.
 */
struct entity_cause {
    struct tidings_str origin, traceparent; /* of struct tidings_change; or empty */
};
void entity_announce(struct tidings_provider *provider, const struct entity_done *done,
                     const struct entity_cause *cause);
/* The registry of types changed. */
void entity_announce_types(struct tidings_provider *provider, uint64_t position,
                           const struct entity_cause *cause);
/* What would be told of a write; its slices live until `fn` returns. false: out of memory. */
typedef void (*entity_change_fn)(void *user, const struct tidings_change *change);
bool entity_describe_change(const struct entity_done *done, struct tidings_str origin,
                            entity_change_fn fn, void *user);

#endif
