/* SPDX-License-Identifier: MIT
 *
 * Announcements of a server whose store others share: what a program or a client says has changed
 * goes through the store, so that every node tells it, at one position. It is told here after its
 * commit, like what is written.
 *
 * What lies in a mount that this node has for itself (files, commands, metrics) is told here alone.
 * What cannot be committed because the store is away waits, in order, until it is back. All of it
 * together is bounded by `max-announced`.
 */
#include "server/server_private.h"

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "store/keeper.h"
#include "store/shared.h"

#define TRIES_MAX 8u /* of one whose commit fails though the store can be reached */

/* One on its way; its texts follow. */
struct announcing {
    struct keeper_job job;
    struct list link; /* in `announcing`, while the store is away */
    struct tidings_server *server;
    size_t bytes;
    unsigned tries;
    uint64_t left_at, position; /* a move has two: that it left, and that it is there */
    struct tidings_change change;
};

/* A move is told as two: what left, and what came. */
static struct tidings_change change_at_old_uri(const struct tidings_change *move)
{
    return (struct tidings_change){
        .uri = move->from,
        .kind = TIDINGS_CHANGE_DELETED,
        .metadata = move->metadata,
        .origin = move->origin,
    };
}

static struct tidings_change change_at_new_uri(const struct tidings_change *change)
{
    struct tidings_change copy = *change;
    copy.kind = change->kind == TIDINGS_CHANGE_MOVED ? TIDINGS_CHANGE_CREATED : change->kind;
    return copy;
}

static int run_announce(struct keeper_job *job, struct entities *e)
{
    struct announcing *a = list_entry(job, struct announcing, job);
    struct entity_rows *rows = entities_rows(e);
    struct tidings_change left = change_at_old_uri(&a->change),
                          came = change_at_new_uri(&a->change);
    int rc = a->change.kind == TIDINGS_CHANGE_MOVED
                 ? rows->shared->announce(rows, &left, &a->left_at, &job->err)
                 : 0;
    rc = rc == 0 ? rows->shared->announce(rows, &came, &a->position, &job->err) : rc;
    job->is_lost = rc < 0;
    return rc;
}

static void announcing_free(struct announcing *a)
{
    __atomic_sub_fetch(&a->server->announced_bytes, a->bytes, __ATOMIC_RELAXED);
    list_remove(&a->link);
    mem_free(a);
}

static void announcing_submit(struct announcing *a);

static void announced(struct keeper_job *job, int code)
{
    struct announcing *a = list_entry(job, struct announcing, job);
    struct tidings_server *s = a->server;
    if (code >= 0) {
        struct tidings_change left = change_at_old_uri(&a->change),
                              came = change_at_new_uri(&a->change);
        if (a->change.kind == TIDINGS_CHANGE_MOVED) {
            (void)hub_announce_kept(s->hub, &left, a->left_at, NULL);
        }
        (void)hub_announce_kept(s->hub, &came, a->position, NULL);
    } else if (code != TIDINGS_E_CLOSED && hub_is_away(s->hub)) {
        list_append(&s->announcing, &a->link);
        return;
    } else if (code != TIDINGS_E_CLOSED && ++a->tries < TRIES_MAX) {
        announcing_submit(a); /* perhaps it is told twice: better than never */
        return;
    } else if (code != TIDINGS_E_CLOSED) {
        log_warn("announced here alone", "uri=%.*s reason=\"%s\"", STR_ARG(a->change.uri),
                 job->err.text);
        (void)hub_announce(s->hub, &a->change, NULL);
    } else {
        s->announced_lost++;
    }
    announcing_free(a);
}

static void announcing_submit(struct announcing *a)
{
    a->job = (struct keeper_job){.is_write = true, .run = run_announce, .done = announced};
    list_init(&a->job.letter.link);
    keeper_submit(a->server->keeper, &a->job);
}

void server_announce_again(struct tidings_server *s)
{
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &s->announcing);
    while (!list_empty(&waiting)) {
        struct announcing *a = list_entry(waiting.next, struct announcing, link);
        list_remove(&a->link);
        announcing_submit(a);
    }
}

void server_announce_close(struct tidings_server *s)
{
    while (!list_empty(&s->announcing)) {
        s->announced_lost++;
        announcing_free(list_entry(s->announcing.next, struct announcing, link));
    }
    if (s->announced_lost > 0) {
        log_warn("announcements lost",
                 "count=%zu reason=\"the server ended before the store could be reached again\"",
                 s->announced_lost);
    }
}

/* Is it in a mount of which each node has its own? */
static bool is_local(struct tidings_server *s, struct tidings_str uri)
{
    const struct catalog *mounts = __atomic_load_n(&s->mounted, __ATOMIC_ACQUIRE);
    const struct tidings_provider *p = mounts ? catalog_mount(mounts, uri) : NULL;
    return !mounts || (p && !p->is_durable);
}

static struct announcing *announcing_create(struct tidings_server *s,
                                            const struct tidings_change *change, size_t bytes)
{
    struct announcing *a = mem_zalloc(bytes);
    if (!a) {
        return NULL;
    }
    char *at = (char *)(a + 1);
    a->server = s;
    a->bytes = bytes;
    a->change = *change;
    list_init(&a->link);
    struct tidings_str *texts[] = {&a->change.uri,      &a->change.etag,     &a->change.from,
                                   &a->change.metadata, &a->change.checksum, &a->change.origin,
                                   &a->change.target};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = str_pack(&at, *texts[i]);
    }
    return a;
}

int server_announce(void *user, const struct tidings_change *change, bool may_wait,
                    struct tidings_error *err)
{
    struct tidings_server *s = user;
    if (is_local(s, change->uri)) {
        return hub_announce(s->hub, change, err);
    }
    if (!may_wait && hub_is_away(s->hub)) {
        return tidings_fail(err, TIDINGS_E_BUSY,
                            "the store cannot be reached, so nobody at other nodes would hear of "
                            "it; try again later");
    }
    size_t bytes = sizeof(struct announcing) + change->uri.len + change->etag.len +
                   change->from.len + change->metadata.len + change->checksum.len +
                   change->origin.len + change->target.len;
    size_t before = __atomic_fetch_add(&s->announced_bytes, bytes, __ATOMIC_RELAXED);
    bool fits = before + bytes <= s->config.max_announced;
    struct announcing *a = fits ? announcing_create(s, change, bytes) : NULL;
    if (!a) {
        __atomic_sub_fetch(&s->announced_bytes, bytes, __ATOMIC_RELAXED);
        hub_lose(s->hub);
        return fits ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                    : tidings_fail(err, TIDINGS_E_BUSY,
                                   "more changes than can be told: %zu bytes wait already", before);
    }
    announcing_submit(a);
    return 0;
}
