/* SPDX-License-Identifier: MIT
 *
 * The client behind <tidings/client.h>: its life and its loop. client/state.h names its parts.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/connection.h"
#include "client/copy.h"
#include "client/credentials.h"
#include "client/events.h"
#include "client/inbound.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/state.h"
#include "client/subscriptions.h"
#include "client/tool_headers.h"
#include "client/tool_schemas.h"
#include "http_client/fetch.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void on_wake(void *user, uint32_t events)
{
    (void)user;
    (void)events; /* it stays readable: whoever waits looks whether it was stopped */
}

static void on_nudge(void *user)
{
    (void)user; /* the descriptor was readable: that was all */
}

static void on_wire(struct tidings_client *c, const struct tidings_client_wire *wire)
{
    if (c->settings.on_wire) {
        c->settings.on_wire(c->settings.wire_user, wire);
    }
}

static const struct transport_events transport_events = {
    .wire = on_wire,
    .opened = connection_opened,
    .received = inbound_message,
    .unanswered = requests_fail,
    .session_lost = connection_session_lost,
    .streaming = connection_streaming,
    .delivered = connection_delivered,
    .active = inbound_active,
    .admitted = requests_prolong,
    .lost = connection_lost,
};

/* False: there is none. */
static bool set_transport(struct tidings_client *c, struct transport *take)
{
    c->transport = take;
    if (take) {
        take->events = &transport_events;
    }
    return take != NULL;
}

/* Everything but the transport. */
static struct tidings_client *client_create(const struct tidings_client_options *options,
                                            struct tidings_error *err)
{
    struct tidings_client *c = mem_zalloc(sizeof(*c));
    if (!c) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    c->challenge = "";
    c->wake = (struct poller_fd){.fd = -1, .fn = on_wake, .user = c};
    list_init(&c->unsent);
    list_init(&c->in_flight);
    list_init(&c->events);
    list_init(&c->copies);
    map_init(&c->requests);
    poller_timer_init(&c->nudge, on_nudge, c);
    question_init(c);
    connection_init(c);
    subscriptions_init(c);
    subscriptions_later_init(c);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = c->wake_fd < 0 ? error_errno(err, errno, "create a client") : 0;
    rc = rc == 0 ? settings_init(&c->settings, options, err) : rc;
    rc = rc == 0 ? poller_init(&c->poller, err) : rc;
    if (rc == 0 && (rc = poller_add(&c->poller, &c->wake, c->wake_fd, EPOLLIN)) < 0) {
        tidings_fail(err, rc, "create a client: %s", tidings_code_text(rc));
    }
    rc = rc == 0 ? credentials_attach(c, err) : rc;
    if (rc < 0) {
        tidings_client_destroy(c);
        return NULL;
    }
    events_nudge(c); /* the first step connects */
    return c;
}

struct tidings_client *tidings_client_create(const char *address,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    if (!address) {
        tidings_fail(err, TIDINGS_E_INVALID, "no address of a server: it is NULL");
        return NULL;
    }
    struct tidings_client *c = client_create(options, err);
    if (c && !set_transport(c, transport_create(c, address, err))) {
        tidings_client_destroy(c);
        return NULL;
    }
    return c;
}

struct tidings_client *tidings_client_launch(const char *const *argv,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    if (!argv || !argv[0] || !argv[0][0]) {
        tidings_fail(err, TIDINGS_E_INVALID, "no program to launch");
        return NULL;
    }
    struct tidings_client *c = client_create(options, err);
    char **copy = c ? settings_copy_list(argv) : NULL;
    if (c && !copy) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (copy) {
        (void)set_transport(c, transport_child_create(c, copy, err));
    }
    if (c && !c->transport) {
        tidings_client_destroy(c);
        return NULL;
    }
    return c;
}

void tidings_client_destroy(struct tidings_client *c)
{
    if (!c) {
        return;
    }
    copy_end_all(c);
    if (c->transport) {
        connection_leave(c);
        c->transport->ops->destroy(c->transport);
    }
    question_deinit(c);
    events_drop_all(c);
    subscriptions_deinit(c);
    tool_schemas_forget(c);
    tool_headers_forget(c);
    map_deinit(&c->requests);
    connection_info_deinit(&c->info);
    mem_free(c->last_error);
    credentials_detach(c);
    poller_deinit(&c->poller);
    if (c->wake_fd >= 0) {
        close(c->wake_fd);
    }
    settings_deinit(&c->settings);
    mem_free(c);
}

void tidings_client_on_state(struct tidings_client *c, tidings_state_fn fn, void *user)
{
    if (c) {
        c->on_state = fn;
        c->state_user = user;
    }
}

void tidings_client_on_warning(struct tidings_client *c, tidings_client_warning_fn fn, void *user)
{
    if (c) {
        c->on_warning = fn;
        c->warning_user = user;
    }
}

void tidings_client_on_notification(struct tidings_client *c, tidings_client_notification_fn fn,
                                    void *user)
{
    if (c) {
        c->on_notification = fn;
        c->notification_user = user;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

void tidings_client_stop(struct tidings_client *c)
{
    if (!c) {
        return;
    }
    uint64_t one = 1;
    int saved = errno; /* may interrupt anything */
    atomic_store(&c->stopping, true);
    ssize_t n = write(c->wake_fd, &one, sizeof(one));
    (void)n;
    errno = saved;
}

int tidings_client_fd(const struct tidings_client *c)
{
    return c ? c->poller.epoll : -1;
}

int tidings_client_step(struct tidings_client *c, int timeout_ms, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (c->is_stepping) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a callback cannot step its client");
    }
    if (client_is_stopping(c)) {
        return 0;
    }
    c->is_stepping = c->is_eager = true;
    if (c->stage == STAGE_IDLE && c->failure.code == 0) {
        connection_need(c);
    }
    bool has_news = !list_empty(&c->events) || c->failure.code < 0 || question_has_news(c);
    int rc = poller_turn(&c->poller, has_news ? 0 : timeout_ms, err);
    events_deliver(c);
    question_deliver(c);
    subscriptions_sweep(c);
    c->is_stepping = false;
    if (client_is_stopping(c) || rc < 0) {
        return rc;
    }
    if (c->failure.code < 0) {
        rc = c->failure.code;
        if (err) {
            *err = c->failure;
        }
        c->failure.code = 0;
        return rc;
    }
    return 1;
}

int tidings_client_run(struct tidings_client *c, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    int rc = 1;
    if (c->is_stepping) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a callback cannot run its client");
    }
    while (rc > 0) {
        rc = tidings_client_step(c, -1, err);
    }
    connection_leave(c);
    return rc;
}

/* ---- about ----------------------------------------------------------------------------------- */

char *tidings_client_library(void)
{
    struct fetch *f;
    if (fetch_create(-1, 1, &f, NULL) < 0) {
        return NULL;
    }
    /* It names everything it was built with; itself and its TLS library are what matters. */
    struct tidings_str name = tidings_str(fetch_library(f));
    struct tidings_str rest;
    size_t len = str_cut(name, ' ', &rest, NULL).len;
    if (rest.len > 0) {
        len += 1 + str_cut(rest, ' ', &rest, NULL).len;
    }
    char *text = str_dup(tidings_strn(name.ptr, len));
    fetch_destroy(f);
    return text;
}
