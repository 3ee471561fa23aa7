/* SPDX-License-Identifier: MIT
 *
 * The value of an earlier run's cursor for files: exactly the changes announced after it follow, as
 * far as they are known. The store promises nothing else. */
#include "store/sqlite_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/change.h"
#include "store/change_log.h"
#include "store/sqlite_store.h"
#include "support/fail_alloc.h"

#define MOUNT "file:///d/"

struct fixture {
    struct store *rows;
    uint64_t epoch, first;
    struct file_history *history;
};

static const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};

/* Starts a run with those mounts. */
static void start(struct fixture *f, const struct file_mount_row *mounts, size_t count)
{
    struct tidings_error err = {0};
    struct changelog *log = NULL;
    assert_int_equal(changelog_sqlite_create(f->rows, &limits, &log, &err), 0);
    f->epoch = log->ops->epoch(log);
    f->first = log->ops->first(log);
    log->ops->destroy(log);
    assert_int_equal(f->rows->ops->begin(f->rows, &err), 0);
    assert_int_equal(sqlite_files_set_mounts(f->rows, mounts, count, &err), 0);
    assert_int_equal(f->rows->ops->commit(f->rows, &err), 0);
    file_history_destroy(f->history);
    f->history = NULL;
    assert_int_equal(file_history_read(f->rows, f->epoch, &f->history, &err), 0);
}

static const struct file_mount_row mount = {{MOUNT, sizeof MOUNT - 1}, {"settings", 8}};

static int fixture_open(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    struct tidings_error err = {0};
    *state = f;
    if (!f || sqlite_store_open(":memory:", &f->rows, &err) < 0) {
        return -1;
    }
    start(f, &mount, 1);
    return 0;
}

static int fixture_close(void **state)
{
    struct fixture *f = *state;
    file_history_destroy(f->history);
    f->rows->ops->destroy(f->rows);
    mem_free(f);
    return 0;
}

/* A complete part: that change (NULL: none) was announced, up to that number. */
static void save(struct fixture *f, const char *uri, enum tidings_change_kind kind, uint64_t number,
                 const char *scope, uint64_t scope_number)
{
    struct tidings_error err = {0};
    struct file_chunk *chunk = file_chunk_create(STR(MOUNT));
    struct tidings_change told = {.uri = tidings_str(uri ? uri : ""), .kind = kind};
    told.not_subscribable = strstr(told.uri.ptr, "dark") != NULL;
    chunk->is_whole = true;
    chunk->epoch = f->epoch;
    chunk->number = number;
    chunk->change_max = limits.max_entries;
    chunk->root_print = 1;
    if (uri) {
        chunk->changes = mem_zalloc(sizeof *chunk->changes);
        chunk->changes[0].change = change_create(&told, f->epoch, number);
        chunk->changes[0].kind = kind;
        chunk->change_count = 1;
    }
    if (scope) {
        chunk->scopes = mem_zalloc(sizeof *chunk->scopes);
        chunk->scopes[0].uri = tidings_strn(str_dup(tidings_str(scope)), strlen(scope));
        chunk->scopes[0].number = scope_number;
        chunk->scope_count = 1;
    }
    assert_int_equal(f->rows->ops->begin(f->rows, &err), 0);
    assert_int_equal(sqlite_files_write(f->rows, chunk, &err), 0);
    assert_int_equal(f->rows->ops->commit(f->rows, &err), 0);
    file_chunk_free(chunk);
}

#define UNKNOWN UINT64_MAX

static uint64_t resume(const struct fixture *f, const char *scope, uint64_t epoch, uint64_t number)
{
    const struct file_cursor at = {.epoch = epoch, .number = number};
    uint64_t since = 0;
    return file_history_resume(f->history, tidings_str(scope), &at, &since) ? since : UNKNOWN;
}

struct seen {
    char text[400];
    uint64_t after;
};

static bool see(void *user, const struct log_entry *k)
{
    struct seen *s = user;
    static const char *const kinds[] = {"~", "+", "-"};
    size_t len = strlen(s->text);
    if (k->kind == LOG_ENTRY_FILE && k->position > s->after) {
        (void)snprintf(
            s->text + len, sizeof s->text - len, "%s%.*s%s ", kinds[k->removed ? 2 : k->created],
            STR_ARG(str_skip(k->uri, sizeof MOUNT - 1)), k->not_subscribable ? "(mute)" : "");
    }
    return true;
}

/* The changes after that position, in order: "+created ~updated -deleted ". */
static const char *follows(const struct fixture *f, uint64_t after)
{
    static struct seen seen;
    uint64_t floor = 0;
    seen = (struct seen){.after = after};
    assert_int_equal(sqlite_changes_each(f->rows, 1000, &floor, see, &seen, NULL), 0);
    return seen.text;
}

static void changes_announced_after_the_cursor_follow(void **state)
{
    struct fixture *f = *state;
    uint64_t epoch = f->epoch;
    save(f, NULL, 0, 3, MOUNT, 3);
    save(f, MOUNT "a", TIDINGS_CHANGE_CREATED, 5, NULL, 0);
    save(f, MOUNT "b", TIDINGS_CHANGE_UPDATED, 6, NULL, 0);
    save(f, MOUNT "a", TIDINGS_CHANGE_UPDATED, 8, NULL, 0);
    save(f, MOUNT "c", TIDINGS_CHANGE_DELETED, 9, NULL, 0);
    start(f, &mount, 1);
    assert_string_equal(follows(f, resume(f, MOUNT, epoch, 3)), "+a ~b ~a -c ");
    assert_string_equal(follows(f, resume(f, MOUNT, epoch, 5)), "~b ~a -c ");
    assert_string_equal(follows(f, resume(f, MOUNT "a", epoch, 6)), "~a -c ");
    assert_string_equal(follows(f, resume(f, MOUNT "x/", epoch, 9)), "");
    /* After another run. */
    uint64_t second = f->epoch, second_first = f->first;
    save(f, MOUNT "d", TIDINGS_CHANGE_CREATED, second_first + 2, NULL, 0);
    start(f, &mount, 1);
    assert_string_equal(follows(f, resume(f, MOUNT, epoch, 8)), "-c +d ");
    assert_string_equal(follows(f, resume(f, MOUNT, second, second_first + 1)), "+d ");
    /* A number that is a position, because the client was catching up. */
    assert_string_equal(follows(f, resume(f, MOUNT, second, second_first - 1)), "-c +d ");
}

static void unsubscribable_changes_keep_their_flag(void **state)
{
    struct fixture *f = *state;
    uint64_t epoch = f->epoch;
    save(f, NULL, 0, 3, MOUNT, 3);
    save(f, MOUNT "dark", TIDINGS_CHANGE_CREATED, 4, NULL, 0);
    save(f, MOUNT "dark", TIDINGS_CHANGE_UPDATED, 5, NULL, 0);
    save(f, MOUNT "darker", TIDINGS_CHANGE_DELETED, 6, NULL, 0);
    save(f, MOUNT "light", TIDINGS_CHANGE_UPDATED, 7, NULL, 0);
    start(f, &mount, 1);
    assert_string_equal(follows(f, resume(f, MOUNT, epoch, 3)),
                        "+dark(mute) ~dark(mute) -darker(mute) ~light ");
}

static void unknown_history_is_not_promised(void **state)
{
    struct fixture *f = *state;
    uint64_t epoch = f->epoch;
    save(f, NULL, 0, 3, MOUNT "sub/", 3);
    save(f, MOUNT "sub/a", TIDINGS_CHANGE_CREATED, 5, MOUNT "late", 4);
    start(f, &mount, 1);
    assert_int_not_equal(resume(f, MOUNT "sub/x", epoch, 3), UNKNOWN);
    assert_int_equal(resume(f, MOUNT "sub/x", epoch, 2), UNKNOWN); /* before it was known */
    assert_int_equal(resume(f, MOUNT "sub/x", epoch, 6), UNKNOWN); /* announced, but never saved */
    assert_int_equal(resume(f, MOUNT "sub/x", epoch + 1, 3), UNKNOWN);
    assert_int_equal(resume(f, MOUNT, epoch, 3), UNKNOWN);
    assert_int_equal(resume(f, MOUNT "subx", epoch, 3), UNKNOWN);
    assert_int_equal(resume(f, MOUNT "late", epoch, 3), UNKNOWN);
    assert_int_not_equal(resume(f, MOUNT "late", epoch, 4), UNKNOWN);
    assert_int_equal(resume(f, "", epoch, 3), UNKNOWN);
    const struct file_cursor ahead = {.epoch = epoch, .number = 3, .position = 2};
    uint64_t since = 0;
    assert_false(file_history_resume(f->history, STR(MOUNT "sub/"), &ahead, &since));
    /* A run that saved none of it. */
    uint64_t second = f->epoch;
    start(f, &mount, 1);
    assert_int_equal(resume(f, MOUNT "sub/", second, f->first), UNKNOWN);
    assert_int_not_equal(resume(f, MOUNT "sub/", epoch, 3), UNKNOWN);
}

static void changed_or_new_mount_has_no_history(void **state)
{
    struct fixture *f = *state;
    const struct file_mount_row other = {STR(MOUNT), STR("other settings")};
    uint64_t epoch = f->epoch;
    struct saved_root root;
    save(f, NULL, 0, 3, MOUNT, 3);
    start(f, &mount, 1);
    assert_int_equal(file_history_scopes(f->history), 1);
    assert_int_equal(sqlite_files_root(f->rows, STR(MOUNT), &root, NULL), 0);
    assert_true(root.is_known);
    start(f, &other, 1);
    assert_int_equal(file_history_scopes(f->history), 0);
    assert_int_equal(resume(f, MOUNT, epoch, 3), UNKNOWN);
    assert_int_equal(sqlite_files_root(f->rows, STR(MOUNT), &root, NULL), 0);
    assert_false(root.is_known);
    epoch = f->epoch;
    save(f, NULL, 0, f->first + 1, MOUNT, f->first + 1);
    start(f, NULL, 0);
    start(f, &other, 1);
    assert_int_equal(resume(f, MOUNT, epoch, f->first + 1), UNKNOWN);
}

static void changes_beyond_the_log_length_are_reported_as_lost(void **state)
{
    struct fixture *f = *state;
    uint64_t floor = 0;
    struct seen seen = {.after = 0};
    save(f, NULL, 0, 1, MOUNT, 1);
    for (uint64_t i = 0; i < limits.max_entries + 50; i++) {
        char uri[40];
        (void)snprintf(uri, sizeof uri, MOUNT "%u", (unsigned)i);
        save(f, uri, TIDINGS_CHANGE_CREATED, i + 2, NULL, 0);
    }
    struct tidings_error err = {0};
    assert_int_equal(sqlite_changes_each(f->rows, 100000, &floor, see, &seen, &err), 0);
    assert_int_equal(floor, 50);
    assert_int_equal(strncmp(seen.text, "+50 ", 4), 0);
}

static void failed_allocation_is_reported(void **state)
{
    struct fixture *f = *state;
    save(f, MOUNT "a", TIDINGS_CHANGE_CREATED, 5, MOUNT, 3);
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct tidings_error err = {0};
        struct file_history *h = NULL;
        fail_alloc_start(n);
        int rc = file_history_read(f->rows, f->epoch, &h, &err);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        file_history_destroy(h);
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_announced_after_the_cursor_follow, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(unsubscribable_changes_keep_their_flag, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(unknown_history_is_not_promised, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(changed_or_new_mount_has_no_history, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(changes_beyond_the_log_length_are_reported_as_lost,
                                        fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(failed_allocation_is_reported, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
