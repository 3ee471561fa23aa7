/* SPDX-License-Identifier: MIT
 *
 * Sends a read or a watch to the thread of a provider.
 */
#include "provider/actor_job.h"

#include "base/mem.h"

static void actor_job_drop(struct letter *letter)
{
    struct actor_job *e = list_entry(letter, struct actor_job, letter);
    if (e->read) {
        tidings_read_done(e->read, TIDINGS_E_CLOSED, NULL);
    }
    if (e->watch) {
        tidings_watch_done(e->watch, TIDINGS_E_CLOSED, NULL);
    }
    mem_free(e);
}

bool actor_job_send(struct mailbox *to, const struct actor_job *job, actor_job_fn deliver)
{
    struct actor_job *e = mem_alloc(sizeof(*e));
    if (!e) {
        return false;
    }
    *e = *job;
    list_init(&e->letter.link);
    list_init(&e->link);
    e->letter.deliver = deliver;
    e->letter.drop = actor_job_drop;
    mailbox_send(to, &e->letter);
    return true;
}
