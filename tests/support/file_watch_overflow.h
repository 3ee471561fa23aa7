/* SPDX-License-Identifier: MIT
 *
 * Makes the kernel lose events of watched files: the watcher's thread is held while more happens
 * than the queue takes. Header only.
 *
 *     hold_begin(&h, f);
 *     hold_overflow(&h, f, "a", "b");
 *     hold_end(&h);           // the watcher goes on, and finds that events were lost
 *     … await something …
 *     hold_deinit(&h);
 */
#ifndef TESTS_SUPPORT_FILE_WATCH_OVERFLOW_H
#define TESTS_SUPPORT_FILE_WATCH_OVERFLOW_H

#include <semaphore.h>

#include "base/list.h"
#include "base/thread.h"
#include "support/file_fixture.h"

struct hold {
    struct thread_message message;
    sem_t is_held, go;
    int limit; /* of the queue */
};

static inline void hold_deliver(struct thread_message *message, void *owner)
{
    struct hold *h = list_entry(message, struct hold, message);
    (void)owner;
    sem_post(&h->is_held);
    sem_wait(&h->go);
}

static inline void hold_drop(struct thread_message *message)
{
    (void)message;
}

/* Skips the test if overflowing the queue would take too many events. */
static inline void hold_begin(struct hold *h, const struct fixture *f)
{
    *h = (struct hold){.message = {.deliver = hold_deliver, .drop = hold_drop}};
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &h->limit), 1);
    (void)fclose(file);
    if (h->limit > 100000) {
        skip();
    }
    list_init(&h->message.link);
    sem_init(&h->is_held, 0, 0);
    sem_init(&h->go, 0, 0);
    mailbox_send(provider_file_mailbox(host_provider(f->host)), &h->message);
    sem_wait(&h->is_held);
}

static inline void hold_end(struct hold *h)
{
    sem_post(&h->go);
}

static inline void hold_deinit(struct hold *h)
{
    sem_destroy(&h->is_held);
    sem_destroy(&h->go);
}

/* More events than the queue takes. Both files exist, and are watched. */
static inline void hold_overflow(const struct hold *h, const struct fixture *f, const char *one,
                                 const char *other)
{
    /* Events of two files in turn never merge: the queue fills without filling the disk. */
    for (int i = 0; i < h->limit; i++) {
        assert_int_equal(chmod(at(f, one), i % 2 ? 0644 : 0600), 0);
        assert_int_equal(chmod(at(f, other), i % 2 ? 0644 : 0600), 0);
    }
}

#endif
