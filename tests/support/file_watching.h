/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of file watches: they await expected events, and check the absence of others
 * after a later change has arrived, because changes keep their order. Header only.
 */
#ifndef TESTS_SUPPORT_FILE_WATCHING_H
#define TESTS_SUPPORT_FILE_WATCHING_H

#include "support/file_fixture.h"

#define CREATED TIDINGS_CHANGE_CREATED
#define UPDATED TIDINGS_CHANGE_UPDATED
#define DELETED TIDINGS_CHANGE_DELETED

/* Short times, so that the tests are quick; quiet enough that one burst of a test on a busy machine
 * is one change. */
#define QUICK ", \"quietMs\": 40, \"modifyMs\": 50, \"pollMs\": 50, \"lingerMs\": 60000"

static inline void watch(struct fixture *f, const char *uri)
{
    assert_int_equal(host_watch(f->host, uri), 0);
}

/* Serve the root and watch all of it. */
static inline void serve_and_watch(struct fixture *f)
{
    serve(f, QUICK);
    watch(f, MOUNT);
}

static inline void expect(struct fixture *f, enum tidings_change_kind kind, const char *uri)
{
    host_await(f->host, kind, uri);
}

/* Nothing but what was awaited has been announced, up to now. Needs all of the root watched. */
static inline void expect_no_more(struct fixture *f)
{
    static unsigned turn;
    char name[40], uri[80];
    (void)snprintf(name, sizeof name, "sentinel-%u", turn++);
    (void)snprintf(uri, sizeof uri, MOUNT "%s", name);
    put(f, name, "");
    expect(f, CREATED, uri);
    assert_int_equal(host_untaken(f->host, NULL), 0);
}

#endif
