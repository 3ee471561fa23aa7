/* SPDX-License-Identifier: MIT
 *
 * Writers: they read at a node, write at it what must not have changed since, or announce; and
 * repeat under the same key, at any node, what they have no answer to.
 */
#include "sim/sim.h"

#include <stdlib.h>

#include "base/str.h"

static void writer_read(struct node *n, struct job *job, unsigned i)
{
    struct world *w = n->world;
    struct entity_version v;
    arena_reset(&w->arena);
    job->baseline[i] = TIMELINE_NEVER;
    if (entities_find(n->entities, tidings_str(entity_name(job->index[i])), TIMELINE_FOREVER,
                      &w->arena, &v, NULL) == 1) {
        oracle_read(n, job->index[i], v.from);
        job->baseline[i] = v.from;
        job->read_position[i] = w->engine.entity_position[job->index[i]];
    }
}

static void writer_plan(struct writer *writer, struct node *n)
{
    struct world *w = writer->world;
    struct job *job = &writer->job;
    *job = (struct job){.writer = writer->index, .tag = ++w->tags, .count = 1};
    if (world_random(w, 10) < w->announcing) {
        job->is_announcement = true;
        job->index[0] = (unsigned)world_random(w, ANNOUNCED);
        return;
    }
    job->losses = w->oracle.loss_count;
    job->count = 1 + (unsigned)world_random(w, JOB_WRITES);
    job->key = world_random(w, 2) == 0 ? job->tag : 0;
    job->index[0] = (unsigned)world_random(w, ENTITIES);
    job->index[1] = (job->index[0] + 1) % ENTITIES;
    bool is_careful = world_random(w, 10) < 7;
    struct node *other = &w->nodes[world_random(w, NODES)]; /* it may read elsewhere */
    struct node *at = world_random(w, 2) == 0 && node_is_well(other) ? other : n;
    for (unsigned i = 0; i < job->count; i++) {
        job->baseline[i] = TIMELINE_NEVER;
        if (is_careful && !at->has_batch) {
            writer_read(at, job, i);
        }
    }
}

void writer_step(struct writer *writer, bool is_ending)
{
    struct world *w = writer->world;
    struct node *n = &w->nodes[world_random(w, NODES)];
    if (writer->is_waiting || (is_ending && !writer->repeats) || !node_is_well(n)) {
        return;
    }
    if (!writer->repeats) {
        writer_plan(writer, n);
    } else {
        w->counts->repeated++;
    }
    if (node_submit(n, &writer->job)) {
        writer->is_waiting = true;
        writer->repeats = false;
    }
}

void writer_answer(struct writer *writer, const struct job *job, int code,
                   const uint64_t *positions)
{
    struct world *w = writer->world;
    writer->is_waiting = false;
    if (code == TIDINGS_E_UNKNOWN || code == TIDINGS_E_BUSY) {
        writer->repeats = job->key > 0;
    }
    if (code < 0 && code != TIDINGS_E_UNKNOWN && !writer->repeats) {
        oracle_deny(w, job->tag);
    }
    world_say(w, "writer %u: %d (tag %llu)", writer->index, code, (unsigned long long)job->tag);
    for (unsigned i = 0; code == 0 && i < job->count; i++) {
        if (positions[i] == 0) {
            continue; /* it existed before */
        }
        if (job->is_announcement) {
            w->oracle.announced[job->index[i]] = positions[i];
        } else {
            oracle_acknowledge(w, job->index[i], positions[i], job->tag);
        }
    }
}
