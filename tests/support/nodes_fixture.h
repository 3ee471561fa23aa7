/* SPDX-License-Identifier: MIT
 *
 * The fixture of tests about sessions that move: two nodes A and B (support/nodes.h), and a session
 * that starts at A. Messages to it wait until all nodes are idle.
 */
#ifndef SUPPORT_NODES_FIXTURE_H
#define SUPPORT_NODES_FIXTURE_H

#include <stdio.h>

#include "support/harness_client.h"
#include "support/harness_json.h"
#include "support/nodes.h"

#define A 0u
#define B 1u

static struct nodes all;
static struct harness_session s;

static inline int begin(void **state)
{
    (void)state;
    nodes_init(&all);
    nodes_start(&all);
    nodes_session(&all, A, &s);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    nodes_stop(&all);
    return 0;
}

static inline void request_subscribe(const char *params)
{
    struct client *c = session_request(&s, "5", "resources/subscribe", params);
    nodes_run_until_idle(&all);
    assert_null(json_at(client_answer(c)->text, "error"));
    client_free(c);
}

static inline void subscribe(const char *uri)
{
    request_subscribe(text_of("\"uri\":\"%s\"", uri));
}

static inline void subscribe_with(const char *uri, const char *options)
{
    request_subscribe(
        text_of("\"uri\":\"%s\",\"_meta\":{\"dev.tidings/options\":%s}", uri, options));
}

static inline int ping(void)
{
    struct client *c = session_request(&s, "1", "ping", NULL);
    nodes_run_until_idle(&all);
    int status = client_answer(c)->status;
    client_free(c);
    return status;
}

/* A stream that comes with the id of an event, or NULL. */
static inline struct client *stream(const char *id)
{
    struct client *c = session_stream(&s, id);
    nodes_run_until_idle(&all);
    assert_true(c->is_streaming);
    return c;
}

struct event_name {
    char text[256];
};

/* The id of the last event. */
static inline struct event_name last_id(const struct client *c)
{
    struct event_name id = {""};
    for (size_t i = 0; i < c->count; i++) {
        if (c->said[i].id[0]) {
            snprintf(id.text, sizeof(id.text), "%s", c->said[i].id);
        }
    }
    assert_true(id.text[0]);
    return id;
}

static inline size_t sessions_at(size_t node)
{
    return all.at[node].b.worker[0]->stats.sessions;
}

#endif
