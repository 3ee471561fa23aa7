/* SPDX-License-Identifier: MIT
 *
 * A failed start and the next one: the program's subscriptions and announcements survive, and no
 * state of the first start reaches the second.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/server_internal.h"
#include "support/cluster.h"
#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

/* A start fails because its address is in use; the next start may use any address. */
static void fail_once(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct tidings_error err = {0, ""};
    char address[32];
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(taken >= 0 && bind(taken, (struct sockaddr *)&at, size) == 0);
    assert_true(listen(taken, 1) == 0 && getsockname(taken, (struct sockaddr *)&at, &size) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    served_set("http", address);
    assert_int_equal(tidings_server_run(served(), &err), TIDINGS_E_EXISTS);
    close(taken);
    served_set("http", "127.0.0.1:0");
}

static void subscription_of_the_program_survives_a_failed_start(void **state)
{
    (void)state;
    struct ears e;
    ears_init(&e);
    (void)served_subscribe("app:///a", NULL, &e);
    fail_once();
    served_announce("app:///a", NULL, TIDINGS_CHANGE_UPDATED);
    served_run();
    (void)served_await_subscribed("app:///a", &e);
    assert_string_equal(ears_await(&e, 0).refused, "");
}

static void node_change_is_delivered_once_after_a_failed_start(void **state)
{
    (void)state;
    run(0);
    publish(0, "published:///x", "one");
    served_select(1);
    fail_once();
    served()->store.given_store = stores[1] = shared_memory_connect(db);
    publish(0, "published:///x", "two");
    served_select(1);
    (void)served_subscribe("published:///x", NULL, &ears);
    served_run();
    publish(0, "published:///y", "other");
    await_followed(1);
    publish(0, "published:///x", "three");
    hear(0, 1, TIDINGS_CHANGE_UPDATED, "three");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(subscription_of_the_program_survives_a_failed_start),
        CASE(node_change_is_delivered_once_after_a_failed_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
