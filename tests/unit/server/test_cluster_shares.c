/* SPDX-License-Identifier: MIT
 *
 * On a shared store, one client's announcements count against its share of `max-announced` until
 * they are committed.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/store.h"
#include "support/cluster.h"
#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

#define DEADLINE_S 60
#define TOKEN "-0123456789abcdef0123456789abcdef012345"
#define SHARE (65536u / 4)

static char tokens[] = "/tmp/test_cluster_shares.XXXXXX";

static void write_tokens(void)
{
    static const char text[] =
        "ada e4752412377d49bd2fda662bf4497d80561d6a14d300979f19974473b10420a8\n"
        "bob ffbe4c59a552ea4c62e188c10de26f68ad6cb9719971843eb9f1e22d37919956\n";
    int fd = mkstemp(tokens);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
}

/* A client announces `count` changed resources; returns the connection that receives the
 * outcome. */
static int notify_as(const char *who, unsigned count)
{
    static unsigned number; /* each is another one */
    char head[160], body[7000] = "{\"changes\":[";
    size_t len = strlen(body);
    snprintf(head, sizeof head,
             "POST /notify HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Authorization: Bearer %s" TOKEN,
             who);
    for (unsigned i = 0; i < count; i++) {
        len += (size_t)snprintf(body + len, sizeof body - len, "%s{\"uri\":\"published:///%s/%u\"}",
                                i > 0 ? "," : "", who, number++);
        assert_true(len < sizeof body - 2);
    }
    snprintf(body + len, sizeof body - len, "]}");
    return served_ask(head, body);
}

static const char *outcome_of(int fd)
{
    static char answer[65536];
    size_t len = 0;
    ssize_t got;
    while ((got = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0) {
        len += (size_t)got;
    }
    answer[len] = '\0';
    close(fd);
    return answer;
}

/* A number in the max-announced row of tidings://self/limits, as bob reads it. */
static uint64_t announced(const char *member)
{
    char key[40];
    const char *answer = served_http("GET /resource?uri=tidings%3A%2F%2Fself%2Flimits HTTP/1.1\r\n"
                                     "Authorization: Bearer bob" TOKEN,
                                     "");
    const char *row = strstr(answer, "\"max-announced\"");
    snprintf(key, sizeof key, "\"%s\":", member);
    row = row ? strstr(row, key) : NULL;
    if (!row) {
        fail_msg("no %s in %s", member, answer);
        return 0;
    }
    return strtoull(row + strlen(key), NULL, 10);
}

/* Waits until that number changes; returns the new one. */
static uint64_t await_other(const char *member, uint64_t before)
{
    time_t until = time(NULL) + DEADLINE_S;
    uint64_t now;
    while ((now = announced(member)) == before) {
        assert_true(time(NULL) < until);
    }
    return now;
}

static void client_share_is_held_until_commit(void **state)
{
    (void)state;
    struct store *holder = shared_memory_connect(db);
    write_tokens();
    served_select(0);
    served_set("auth-tokens", tokens);
    served_set("max-announced", "64k");
    served_set("request-rate", "0"); /* he asks again and again */
    run(0);
    (void)served_subscribe("published:///**", NULL, &ears);
    for (unsigned round = 1; round <= 2; round++) {
        assert_int_equal(holder->ops->begin(holder, NULL), 0); /* no other node commits */
        int ada = notify_as("ada", 200);
        assert_int_equal(await_other("shareReached", round - 1), round);
        uint64_t held = announced("inUse");
        assert_in_range(held, 1, SHARE);
        int bob = notify_as("bob", 1);
        assert_in_range(await_other("inUse", held), held + 1, 65535);
        holder->ops->rollback(holder);
        const char *outcome = outcome_of(bob);
        must_say(outcome, "\"told\":1,\"refused\":0");
        outcome = outcome_of(ada);
        must_say(outcome, "207 ");
        must_say(outcome, "\"told\":true");
        must_say(outcome, "\"reason\":\"limit\",\"limit\":\"max-announced\",\"value\":65536,"
                          "\"share\":16384,\"retryAfterMs\":1000");
        for (uint64_t left = announced("inUse"); left > 0;) {
            left = await_other("inUse", left);
        }
    }
    assert_int_equal(announced("reached"), 2);
    size_t n = 0; /* her announcements truncate no subscription */
    for (struct told t = ears_await(&ears, n); !strstr(t.uri, "/bob/"); t = ears_await(&ears, n)) {
        assert_false(t.truncated);
        n++;
    }
    served_stop();
    holder->ops->destroy(holder);
    unlink(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(client_share_is_held_until_commit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
