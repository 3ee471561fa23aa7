/* SPDX-License-Identifier: MIT
 *
 * A server on its own thread, created and used through the public header, for tests of the
 * program's own uses: subscriptions and pages. One at a time, unless another is selected.
 *
 *     served_begin(&state) as setup, served_end as teardown; *state names the number of workers
 *     served_subscribe("app:///a", NULL, &ears);
 *     served_run();
 *     struct told t = ears_await(&ears, 0);
 *
 * It has the resources app:///a and app:///b and the template app:///row/{id}, which read as their
 * URI, and no window.
 */
#ifndef SUPPORT_SERVED_H
#define SUPPORT_SERVED_H

#include <pthread.h>

#include <tidings/tidings.h>

#define EARS_MAX 64u

struct told {
    char uri[96], subscribed[96], metadata[512], value[1024], refused[256], from[96];
    enum tidings_change_kind kind;
    unsigned merged;
    bool truncated, initial, ended;
};

/* The updates of a subscription: filled on a worker's thread, read on the test's. */
struct ears {
    pthread_mutex_t lock;
    pthread_cond_t more;
    size_t count;
    struct told told[EARS_MAX];
    unsigned asked; /* for the use of filters; atomic */
};

void ears_init(struct ears *e);
size_t ears_count(struct ears *e);
/* The n-th update, waited for. */
struct told ears_await(struct ears *e, size_t n);
/* The callbacks of a subscription; a rejection or an end is recorded like an update. */
void ears_hear(void *user, const struct tidings_update *update);
void ears_state(void *user, const struct tidings_state_event *event);

#define SERVED_MAX 3u
/* Selects one of several servers for all later calls; the default is the first. Ears belong to no
 * server. */
void served_select(unsigned i);
int served_begin(void **state);
/* A test twice: folded into one worker, and with two. */
extern char served_two_workers[];
#define SERVED_BOTH(test)                                                                          \
    cmocka_unit_test_setup_teardown(test, served_begin, served_end),                               \
        cmocka_unit_test_prestate_setup_teardown(test, served_begin, served_end,                   \
                                                 served_two_workers)
int served_end(void **state);
void served_run(void);
void served_stop(void); /* else served_end does */
struct tidings_server *served(void);

void served_set(const char *name, const char *value);
struct tidings_subscription *served_subscribe(const char *uri, const char *json, struct ears *e);
/* Announces `uri` until `e` receives it, so its subscription exists. Returns the count; more
 * updates may be in transit. */
size_t served_await_subscribed(const char *uri, struct ears *e);
void served_announce(const char *uri, const char *metadata, enum tidings_change_kind kind);

/* One request on its own connection: request line and headers without the last line break, and a
 * body. Returns the whole answer. */
const char *served_http(const char *head, const char *body);
/* A stream of the modern era that listens to one URI: the socket, behind the acknowledgement. */
int served_listen(const char *uri);
/* The same over WebSocket; -1: wslay cannot be loaded. */
int served_listen_websocket(const char *uri);
/* Only ask: the connection, to be closed by the caller. */
int served_ask(const char *head, const char *body);
/* A counter of tidings://self/stats, over all workers (set "self" before start); and a wait until
 * there are no subscriptions. */
uint64_t served_stat(const char *name);
void served_await_empty(void);
/* A request of the modern era about a URI. */
const char *served_modern(const char *method, const char *uri);
/* The same of a tool, with these members as its arguments. */
const char *served_call(const char *tool, const char *arguments);

#endif
