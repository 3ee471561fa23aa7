/* SPDX-License-Identifier: MIT
 *
 * A provider for tests of the worker, mounted at "mem://x/": a settable set of URIs, counters, and
 * control over when any request completes, on this thread or on another.
 *
 *     struct fake fake;
 *     fake_mount(&fake, &b);               // fake_mount_blocking: its calls run on the pool
 *     fake_add(&fake, "mem://x/a");
 *     fake.holds_watches = true;
 *     …
 *     fake_finish_watches(&fake, 0, NULL); // or fake_finish_reads, fake_finish_stats
 */
#ifndef SUPPORT_HARNESS_PROVIDER_H
#define SUPPORT_HARNESS_PROVIDER_H

#include <semaphore.h>

#include "support/harness_core.h"

#define FAKE_RESOURCES 64u
#define FAKE_WAITING 256u

struct fake_resource {
    char uri[96];
    char own[96]; /* its type in stat */
    bool is_listable, is_mute;
};

struct fake {
    struct tidings_provider *provider;
    struct fake_resource resources[FAKE_RESOURCES];
    size_t count;
    size_t content_bytes; /* of each text; 0: "content of URI" */

    bool holds_watches, holds_stats, holds_reads, holds_lists;
    const char *refuses; /* watches, with this reason */
    bool on_thread;      /* the finish functions finish on another thread */
    bool stops_at_gate;  /* reads wait for `gate` (blocking ones) */
    sem_t gate;

    unsigned opens, closes, watches, unwatches; /* hub thread */
    unsigned armed;                             /* watches finished well and not unwatched */
    unsigned stats, reads, lists, outstanding;  /* atomic */
    unsigned outstanding_at_close;
    bool saw_cancel;  /* a read was canceled */
    bool opened_gate; /* close opens the gate: for tests of what is under way then */
    char last_watch[96];

    struct tidings_watch *waiting_watches[FAKE_WAITING];
    struct tidings_stat *waiting_stats[FAKE_WAITING];
    struct tidings_read *waiting_reads[FAKE_WAITING];
    struct tidings_list *waiting_lists[FAKE_WAITING];
    char waiting_uris[FAKE_WAITING][96]; /* of stats and reads, whichever is held */
    size_t watch_count, stat_count, read_count, list_count;
};

void fake_mount(struct fake *f, struct harness *b);
void fake_mount_blocking(struct fake *f, struct harness *b);
struct fake_resource *fake_add(struct fake *f, const char *uri);
void fake_clear(struct fake *f);

/* Finish all that wait: code 0 and the ordinary result, or a failure with its reason. */
void fake_finish_watches(struct fake *f, int code, const char *reason);
void fake_finish_stats(struct fake *f);
void fake_finish_reads(struct fake *f);
void fake_finish_lists(struct fake *f);

#endif
