/* SPDX-License-Identifier: MIT
 *
 * Errands to the thread of a provider.
 */
#include "provider/errand.h"

#include "base/mem.h"

static void drop(struct letter *letter)
{
    struct errand *e = list_entry(letter, struct errand, letter);
    if (e->read) {
        tidings_read_done(e->read, TIDINGS_E_CLOSED, NULL);
    }
    if (e->watch) {
        tidings_watch_done(e->watch, TIDINGS_E_CLOSED, NULL);
    }
    mem_free(e);
}

bool errand_send(struct mailbox *to, const struct errand *errand, errand_fn deliver)
{
    struct errand *e = mem_alloc(sizeof(*e));
    if (!e) {
        return false;
    }
    *e = *errand;
    list_init(&e->letter.link);
    list_init(&e->link);
    e->letter.deliver = deliver;
    e->letter.drop = drop;
    mailbox_send(to, &e->letter);
    return true;
}
