/* SPDX-License-Identifier: MIT
 *
 * What the keeper watches to be woken by others: when a connection is lost and made again, nothing
 * of the old one stays in its loop, whoever else still holds that open.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/keeper.h"
#include "support/shared_memory.h"

#define JOBS_MAX 10000u

struct looking {
    struct keeper_job job;
    struct entity_rows *rows; /* is to be connected anew */
    int held;
    unsigned watched;
};

/* Descriptors that are in an epoll instance of this process. */
static unsigned count_watched(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fdinfo");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[300], line[256];
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", e->d_name);
        FILE *info = fopen(path, "r");
        while (info && fgets(line, sizeof(line), info)) {
            count += strncmp(line, "tfd:", 4) == 0;
        }
        if (info) {
            fclose(info);
        }
    }
    closedir(dir);
    return count;
}

/* On the keeper's thread: no turn of its loop is half done elsewhere. */
static int look(struct keeper_job *job, struct entities *e)
{
    struct looking *l = (struct looking *)(void *)job;
    (void)e;
    l->held = l->rows ? shared_memory_reconnect(l->rows) : -1;
    l->watched = count_watched();
    return 0;
}

static struct looking look_now(struct keeper *k, struct entity_rows *reconnect)
{
    struct looking l = {.job = {.run = look}, .rows = reconnect};
    assert_int_equal(keeper_run(k, &l.job), 0);
    return l;
}

/* It is woken, by the connection that it has now. */
static void await_woken(struct keeper *k, struct entity_rows *rows)
{
    shared_memory_wake(rows);
    for (unsigned i = 0; !shared_memory_is_awake(rows); i++) {
        assert_true(i < JOBS_MAX);
        (void)look_now(k, NULL);
    }
}

static void of_a_connection_that_was_lost_nothing_is_watched(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct keeper_follower follower = {0};
    struct keeper *k = NULL;
    struct shared_memory *db = shared_memory_create();
    struct entity_rows *rows = shared_memory_connect(db);
    assert_int_equal(keeper_open(rows, &k, &err), 0);
    assert_int_equal(keeper_on_follow(k, &follower, &err), 0);
    await_woken(k, rows);
    unsigned watched = look_now(k, NULL).watched;
    for (int i = 0; i < 3; i++) {
        int held = look_now(k, rows).held;
        uint64_t one = 1;
        await_woken(k, rows);
        assert_int_equal(look_now(k, NULL).watched, watched);
        assert_int_equal(write(held, &one, sizeof(one)), sizeof(one)); /* is heard by nobody */
        await_woken(k, rows);
        close(held);
    }
    keeper_close(k);
    shared_memory_destroy(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_connection_that_was_lost_nothing_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
