/* SPDX-License-Identifier: MIT
 *
 * Rejections over SQLite. Commits fail while the file has a second name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/refusals_suite.h"
#include "store/sqlite_store.h"

static char directory[] = "/tmp/tidings-refusals-XXXXXX";
static char path[64], away[64];

static struct store *open_file(void)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    if (sqlite_store_open(path, &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return r;
}

static void break_commits(bool fails)
{
    static bool is_away;
    if (fails != is_away) {
        assert_int_equal(fails ? rename(path, away) : rename(away, path), 0);
        is_away = fails;
    }
}

int main(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    const struct refusals_store store = {.open = open_file, .break_commits = break_commits};
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/store.db", directory);
    (void)snprintf(away, sizeof away, "%s/away.db", directory);
    int failures = refusals_suite("refusals in SQLite", &store);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(directory);
    return failures;
}
