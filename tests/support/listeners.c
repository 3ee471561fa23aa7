/* SPDX-License-Identifier: MIT
 *
 * Listening nodes, and the untrusted client.
 */
#include "support/listeners.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WAIT_MS 10000

struct store *hearer_open(const char *at)
{
    struct store *b = store_open(at);
    store_followed(b, false);
    (void)b->ops->descriptor(b); /* once: it may have the number of another */
    assert_true(b->ops->descriptor(b) >= 0);
    return b;
}

int hearer_take(struct store *b)
{
    struct pollfd p = {.fd = b->ops->descriptor(b), .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    return b->ops->wake(b);
}

void hearer_await(struct store *b)
{
    while (hearer_take(b) != 1) {
    }
}

struct notification_counts hearer_heard(struct store *b)
{
    struct notification_counts h;
    b->ops->notifications(b, &h);
    return h;
}

void hearer_follows(struct store *b, const char *lines, unsigned applied, unsigned asked,
                    unsigned refused, const struct notification_counts *before)
{
    assert_string_equal(store_followed(b, true), lines);
    struct notification_counts now = hearer_heard(b);
    assert_int_equal(now.applied - before->applied, applied);
    assert_int_equal(now.asked - before->asked, asked);
    assert_int_equal(now.refused - before->refused, refused);
}

/* ---- the stranger ---------------------------------------------------------------------------- */

static const char *const statements[] = {"SELECT pg_notify($1::text, $2::text)"};

void stranger_open(struct stranger *w, struct postgres_server *server, const char *schema)
{
    struct tidings_error err = {0};
    char at[POSTGRES_URL], sql[128];
    (void)snprintf(at, sizeof at, "postgresql://stranger@127.0.0.1:%d/tidings",
                   postgres_server_port(server));
    (void)snprintf(w->channel, sizeof w->channel, "tidings_%016llx",
                   (unsigned long long)postgres_server_number(server, schema,
                                                              "SELECT id FROM tidings_cluster"));
    if (postgres_server_number(server, "",
                               "SELECT count(*) FROM pg_roles WHERE rolname='stranger'") == 0) {
        postgres_server_exec(server, "", "CREATE ROLE stranger LOGIN");
    }
    buf_init(&w->seen, 1u << 20);
    assert_int_equal(postgres_create(at, statements, &w->db, &err), 0);
    if (postgres_ready(w->db, WAIT_MS, &err) != 1) {
        fail_msg("%s", err.text);
    }
    assert_true(postgres_exec(w->db, "SELECT 1 FROM tidings_cluster", &err) < 0);
    (void)snprintf(sql, sizeof sql, "LISTEN %s", w->channel);
    assert_int_equal(postgres_exec(w->db, sql, NULL), 0);
}

void stranger_close(struct stranger *w)
{
    postgres_destroy(w->db);
    buf_deinit(&w->seen);
}

static void see(void *user, struct tidings_str payload)
{
    struct stranger *w = user;
    buf_puts(&w->seen, payload);
    buf_putc(&w->seen, '\n');
}

/* The next notification, which only it sees. */
struct tidings_str stranger_hears(struct stranger *w)
{
    buf_clear(&w->seen);
    while (w->seen.len == 0) {
        struct pollfd p = {.fd = postgres_descriptor(w->db), .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        assert_int_equal(postgres_notified(w->db, see, w), 0);
    }
    return tidings_strn(w->seen.ptr, w->seen.len - 1);
}

void stranger_says(struct stranger *w, struct tidings_str payload)
{
    struct postgres_values v = {0};
    struct tidings_error err = {0};
    struct pg_result *r = NULL;
    postgres_put_str(&v, tidings_str(w->channel));
    postgres_put_str(&v, payload);
    if (postgres_ask(w->db, 0, &v, &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    postgres_free(r);
}
