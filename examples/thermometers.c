/* SPDX-License-Identifier: MIT
 *
 * Sensors that are switched on only while a client watches them: `thermometer:///ROOM`, with watch
 * hooks. `thermometer:///watched` lists the sensors that are on.
 *
 *     kitchen   on at once                    attic   rejected: it is broken
 *     cellar    on after a while, reported    vault   never answers: subscriptions are rejected
 *               by another thread                     after --watch-timeout
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tidings/tidings.h>

enum { KITCHEN, CELLAR, ATTIC, VAULT, EVERY_ROOM, ROOMS };
static const char *const names[ROOMS] = {"kitchen", "cellar", "attic", "vault", "{room}"};

static struct tidings_server *server;
static atomic_bool is_on[ROOMS];
static _Atomic(struct tidings_watch *) waiting; /* for the cellar to warm up */
static atomic_bool is_over;

static int room_of(struct tidings_str uri)
{
    for (int i = 0; i < ROOMS; i++) {
        size_t len = strlen(names[i]);
        if (uri.len > len && memcmp(uri.ptr + uri.len - len, names[i], len) == 0) {
            return i;
        }
    }
    return -1;
}

/* A client needs the room. Runs on a thread of the library, so it must not block. */
static void watch(void *user, struct tidings_watch *w, struct tidings_str uri)
{
    struct tidings_error err;
    int room = room_of(uri);
    (void)user;
    if (room < 0 || room == ATTIC) {
        int code = tidings_fail(&err, TIDINGS_E_UNSUPPORTED, "there is no working sensor here");
        tidings_watch_done(w, code, &err);
    } else if (room == CELLAR) {
        atomic_store(&waiting, w);
    } else if (room != VAULT) {
        atomic_store(&is_on[room], true);
        tidings_watch_done(w, 0, NULL);
    }
}

static void unwatch(void *user, struct tidings_str uri)
{
    (void)user;
    atomic_store(&is_on[room_of(uri)], false);
}

/* Measures the active sensors ten times a second. */
static void *measure(void *user)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    for (unsigned n = 0; !atomic_load(&is_over); n++) {
        nanosleep(&pause, NULL);
        struct tidings_watch *ready = atomic_exchange(&waiting, NULL);
        if (ready) {
            atomic_store(&is_on[CELLAR], true);
            tidings_watch_done(ready, 0, NULL);
        }
        for (int i = 0; i < EVERY_ROOM; i++) {
            char uri[64], metadata[64];
            snprintf(uri, sizeof(uri), "thermometer:///%s", names[i]);
            snprintf(metadata, sizeof(metadata), "{\"celsius\":%u}", 15 + n % 10);
            if (atomic_load(&is_on[i]) || atomic_load(&is_on[EVERY_ROOM])) {
                tidings_changed(server, tidings_str(uri), tidings_str(metadata), NULL);
            }
        }
    }
    return user;
}

static void read_room(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, tidings_read_text(read, NULL, tidings_str("warm\n"), NULL), NULL);
}

static void read_watched(void *user, struct tidings_read *read, struct tidings_str uri)
{
    char text[128] = "";
    size_t len = 0;
    (void)user;
    (void)uri;
    for (int i = 0; i < ROOMS; i++) {
        if (atomic_load(&is_on[i])) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", names[i]);
        }
    }
    tidings_read_done(read, tidings_read_text(read, NULL, tidings_str(text), NULL), NULL);
}

static void on_ready(void *user, const char *url)
{
    fprintf(user, "thermometers: serving on %s\n", url);
}

static void on_signal(int signal)
{
    (void)signal;
    tidings_server_stop(server);
}

static int offer(struct tidings_error *err)
{
    static const struct tidings_watch_hook hook = {.watch = watch, .unwatch = unwatch};
    struct tidings_resource about = {0};
    about.uri = tidings_str("thermometer:///watched");
    about.name = tidings_str("watched");
    int rc = tidings_server_add_resource(server, &about, read_watched, NULL, err);
    about.uri = tidings_str("thermometer:///{room}");
    about.name = tidings_str("thermometer");
    if (rc == 0) {
        rc = tidings_server_on_watch(server, about.uri, &hook, err);
    }
    return rc == 0 ? tidings_server_add_template(server, &about, read_room, NULL, err) : rc;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    if (server && tidings_server_args(server, argc - 1, argv + 1, &err) == 0 && offer(&err) == 0 &&
        pthread_create(&thread, NULL, measure, NULL) == 0) {
        tidings_server_on_ready(server, on_ready, stderr);
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        tidings_server_run(server, &err);
        atomic_store(&is_over, true);
        pthread_join(thread, NULL);
    }
    tidings_server_destroy(server);
    if (err.code != 0) {
        fprintf(stderr, "thermometers: %s\n", err.text);
    }
    return tidings_code_exit(err.code);
}
