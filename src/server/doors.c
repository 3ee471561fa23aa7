/* SPDX-License-Identifier: MIT
 *
 * The doors of a server: which there are, how many may come in, and what they are called.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/server_private.h"

#define SPARE_DESCRIPTORS 64u

/* Only a program of its own raises the limit: it belongs to the whole process. */
static size_t descriptor_limit(const struct tidings_server *s)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 1024;
    }
    if (s->is_program && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return (size_t)limit.rlim_cur;
}

static size_t connection_limit(const struct tidings_server *s)
{
    size_t descriptors = descriptor_limit(s);
    size_t most =
        descriptors > 2 * SPARE_DESCRIPTORS ? descriptors - SPARE_DESCRIPTORS : descriptors / 2;
    size_t wanted = s->config.max_connections;
    size_t limit = wanted > 0 && wanted < most ? wanted : most;
    log_debug("limits", "descriptors=%zu connections=%zu", descriptors, limit);
    return limit;
}

/* ---- one door -------------------------------------------------------------------------------- */

static int open_one(struct tidings_server *s, struct door door, const struct endpoint_address *at,
                    size_t max_connections, struct tidings_error *err)
{
    if (s->door_count >= SERVER_DOORS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a server has at most %u doors",
                            SERVER_DOORS_MAX);
    }
    struct server_door *d = &s->doors[s->door_count];
    d->door = door;
    struct listener_options o = {
        .door = &d->door,
        .at = *at,
        .max_connections = max_connections,
        .entrances = s->entrances,
        .entrance_count = s->worker_count,
    };
    d->listener = listener_open(s->loop, &o, err);
    if (!d->listener) {
        return err->code < 0 ? err->code : TIDINGS_E_IO;
    }
    s->door_count++;
    if (!endpoint_is_local(listener_endpoint(d->listener))) {
        log_warn("open to the network", "door=%s reason=\"no authentication is configured\"",
                 listener_url(d->listener));
    }
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void input_ended(void *user)
{
    struct tidings_server *s = user;
    if (s->door_count == 0) {
        tidings_server_stop(s);
    }
}

int doors_open(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    if (c->stdio) {
        int rc = worker_open_stdio(s->workers[0], STDIN_FILENO, STDOUT_FILENO, c->max_line, err);
        if (rc < 0) {
            return rc;
        }
        s->workers[0]->input_ended = input_ended;
        s->workers[0]->user = s;
    }
    s->doors = mem_zalloc(SERVER_DOORS_MAX * sizeof(*s->doors));
    if (!s->doors) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    size_t most = connection_limit(s);
    int rc = 0;
    if (config_wants_http(c)) {
        struct endpoint_address at = {
            .option = "--http ADDR:PORT", .host = c->http.host, .port = c->http.port};
        rc = open_one(s, (struct door){.kind = DOOR_HTTP}, &at, most, err);
    }
    return rc;
}

void doors_close(struct tidings_server *s)
{
    for (size_t i = 0; i < s->door_count; i++) {
        listener_close(s->doors[i].listener);
        s->doors[i].listener = NULL;
    }
}

void doors_destroy(struct tidings_server *s)
{
    doors_close(s);
    mem_free(s->doors);
    s->doors = NULL;
    s->door_count = 0;
}
