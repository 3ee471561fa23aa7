/* SPDX-License-Identifier: MIT
 *
 * The contract of a store for data besides entities.
 */
#include "contract/durable_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"

static kept_open_fn open_store;

static const struct changelog_limits roomy_limits = {.max_entries = 1000, .max_bytes = 1u << 20};

/* ---- writing --------------------------------------------------------------------------------- */

void kept_begin(struct store *store)
{
    assert_int_equal(store->ops->begin(store, NULL), 0);
}

void kept_commit(struct store *store)
{
    assert_int_equal(store->ops->commit(store, NULL), 0);
}

uint64_t kept_put_entity(struct store *store, const char *id, int64_t from, const char *version,
                         const char *was, bool instead)
{
    const struct entity_version v = {
        .id = tidings_str(id),
        .from = from,
        .type = STR("T"),
        .type_version = tidings_str(version),
        .old_type_version = tidings_str(was),
        .value = STR("{}"),
        .changed_by = STR("[]"),
        .created = from == 1,
    };
    kept_begin(store);
    assert_int_equal(store->ops->put(store, &v, instead, NULL), 0);
    uint64_t position = store->ops->position(store);
    kept_commit(store);
    return position;
}

uint64_t kept_publish(struct store *store, const char *uri, const char *content)
{
    struct published_row row = {.content = tidings_str(content ? content : ""), .created = true};
    uint64_t position = 0;
    row.about.uri = tidings_str(uri);
    row.about.etag = STR("e");
    kept_begin(store);
    int rc = content ? store->ops->publish(store, &row, &position, NULL)
                     : store->ops->unpublish(store, &row, &position, NULL);
    assert_int_equal(rc, 0);
    kept_commit(store);
    return position;
}

static int unpublish(struct store *store, const char *uri, bool not_subscribable,
                     uint64_t *ret_position)
{
    struct published_row gone = {.created = false};
    gone.about.uri = tidings_str(uri);
    gone.about.not_subscribable = not_subscribable;
    return store->ops->unpublish(store, &gone, ret_position, NULL);
}

/* ---- what the file knows --------------------------------------------------------------------- */

static bool print_change(void *user, const struct log_entry *c)
{
    struct buf *out = user;
    static const char *const kinds[] = {"entity", "moved", "types", "published"};
    buf_putf(out, "%llu %s %.*s%s%.*s%s%s%s", (unsigned long long)c->position, kinds[c->kind],
             STR_ARG(c->uri), c->version.type_version.len > 0 ? "@" : "",
             STR_ARG(c->version.type_version), c->removed ? " gone" : "", c->created ? " new" : "",
             c->not_subscribable ? " mute" : "");
    if (c->old_type_version.len > 0) {
        buf_putf(out, " from %.*s", STR_ARG(c->old_type_version));
    }
    buf_putc(out, '\n');
    return true;
}

uint64_t log_entry_check_changes(struct store *store, size_t max, const char *expected)
{
    struct buf out;
    struct tidings_error err = {0};
    uint64_t floor = 77;
    buf_init(&out, 65536);
    if (store->ops->each_change(store, max, &floor, print_change, &out, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(out.len > 0 ? out.ptr : "", expected);
    buf_deinit(&out);
    return floor;
}

static void changes_survive_restart_in_order(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    const struct entity_type_row type = {.name = STR("T"), .version = STR("1")};
    kept_begin(store);
    assert_int_equal(store->ops->put_type(store, &type, NULL), 0);
    assert_int_equal(store->ops->position(store), 1);
    kept_commit(store);
    assert_int_equal(kept_put_entity(store, "a", 1, "1", "", false), 2);
    assert_int_equal(kept_publish(store, "p:///x", "hello"), 3);
    assert_int_equal(kept_put_entity(store, "a", 2, "2", "1", false), 5);
    assert_int_equal(kept_publish(store, "p:///y", "there"), 6);
    assert_int_equal(kept_publish(store, "p:///x", NULL), 7);
    static const char all[] =
        "1 types \n2 entity a@1 new\n4 moved a@2 from 1\n5 entity a@2 from 1\n"
        "6 published p:///y new\n7 published p:///x gone\n";
    assert_int_equal(log_entry_check_changes(store, 100, all), 0);
    assert_true(store->ops->idle(store, NULL) >= 0);
    assert_int_equal(log_entry_check_changes(store, 100, all), 0);
    store->ops->destroy(store);
    store = open_store(false);
    assert_int_equal(store->ops->position(store), 7);
    assert_int_equal(log_entry_check_changes(store, 100, all), 0);
    /* The newest; the rest is below the floor. */
    assert_int_equal(
        log_entry_check_changes(store, 2, "6 published p:///y new\n7 published p:///x gone\n"), 5);
    assert_int_equal(log_entry_check_changes(store, 1, "7 published p:///x gone\n"), 6);
    store->ops->destroy(store);
}

static void move_survives_eviction_of_its_version(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    kept_put_entity(store, "a", 1, "1", "", false);
    kept_put_entity(store, "a", 2, "2", "1", true);
    kept_put_entity(store, "a", 3, "2", "", true);
    assert_true(store->ops->idle(store, NULL) >= 0);
    assert_int_equal(log_entry_check_changes(store, 100, "2 moved a@2 from 1\n4 entity a@2\n"), 0);
    store->ops->destroy(store);
}

static void rolled_back_change_uses_no_position(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    uint64_t position = 0;
    kept_publish(store, "p:///x", "1");
    kept_begin(store);
    assert_int_equal(unpublish(store, "p:///x", false, &position), 0);
    store->ops->rollback(store);
    assert_int_equal(store->ops->position(store), 1);
    assert_int_equal(kept_publish(store, "p:///y", "2"), 2);
    assert_int_equal(
        log_entry_check_changes(store, 9, "1 published p:///x new\n2 published p:///y new\n"), 0);
    store->ops->destroy(store);
}

static void newest_removals_are_kept_and_older_raise_the_floor(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    uint64_t position = 0, floor = 0;
    kept_begin(store);
    for (unsigned i = 0; i < PUBLISHED_MAX_REMOVED + 600; i++) {
        char uri[32];
        (void)snprintf(uri, sizeof uri, "p:///%u", i);
        assert_int_equal(unpublish(store, uri, false, &position), 0);
    }
    kept_commit(store);
    struct buf out;
    buf_init(&out, 1u << 24);
    assert_int_equal(store->ops->each_change(store, SIZE_MAX, &floor, print_change, &out, NULL), 0);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++) {
        lines += out.ptr[i] == '\n';
    }
    buf_deinit(&out);
    assert_in_range(floor, 300, 600);
    assert_int_equal(lines, position - floor);
    store->ops->destroy(store);
    store = open_store(false);
    assert_int_equal(store->ops->position(store), position);
    store->ops->destroy(store);
}

static void removed_resource_stays_unsubscribable(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    struct published_row row = {.content = STR("1"), .created = true};
    uint64_t position = 0;
    kept_begin(store);
    row.about.not_subscribable = true;
    for (unsigned i = 0; i < 3; i++) {
        row.about.uri = tidings_str((const char *[]){"p:///here", "p:///gone", "p:///back"}[i]);
        assert_int_equal(store->ops->publish(store, &row, &position, NULL), 0);
    }
    kept_commit(store);
    kept_begin(store);
    assert_int_equal(unpublish(store, "p:///gone", true, &position), 0);
    assert_int_equal(unpublish(store, "p:///back", true, &position), 0);
    kept_commit(store);
    kept_publish(store, "p:///back", "2");
    static const char all[] = "1 published p:///here new mute\n4 published p:///gone gone mute\n"
                              "6 published p:///back new\n";
    assert_int_equal(log_entry_check_changes(store, 100, all), 0);
    store->ops->destroy(store);
    store = open_store(false);
    assert_int_equal(log_entry_check_changes(store, 100, all), 0);
    store->ops->destroy(store);
}

struct found {
    unsigned count;
    struct buf text;
};

static int print_row(void *user, const struct published_row *row, struct tidings_error *err)
{
    struct found *f = user;
    (void)err;
    f->count++;
    buf_putf(&f->text, "%.*s %.*s %.*s %lld %zu %g %d\n", STR_ARG(row->about.uri),
             STR_ARG(row->about.mime_type), STR_ARG(row->about.title),
             (long long)row->about.modified_ms, row->content.len, row->about.priority,
             !row->about.not_subscribable);
    return 0;
}

static void publications_survive_restart_unchanged(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    static const char bytes[] = "a\0\xff z";
    struct published_row row = {.content = tidings_strn(bytes, sizeof bytes)};
    uint64_t position = 0;
    row.about = (struct tidings_resource){0};
    row.about.uri = STR("p:///x");
    row.about.mime_type = STR("text/x");
    row.about.title = STR("title");
    row.about.modified_ms = 12345;
    row.about.priority = 0.3;
    row.about.has_priority = true;
    kept_begin(store);
    assert_int_equal(store->ops->publish(store, &row, &position, NULL), 0);
    row.about.uri = STR("p:///empty");
    row.content = STR_EMPTY;
    assert_int_equal(store->ops->publish(store, &row, &position, NULL), 0);
    row.about.uri = STR("p:///gone");
    assert_int_equal(store->ops->publish(store, &row, &position, NULL), 0);
    assert_int_equal(unpublish(store, "p:///gone", false, &position), 0);
    kept_commit(store);
    store->ops->destroy(store);
    store = open_store(false);
    struct found f = {.count = 0};
    buf_init(&f.text, 4096);
    assert_int_equal(store->ops->each_published(store, print_row, &f, NULL), 0);
    assert_string_equal(f.text.ptr, "p:///x text/x title 12345 6 0.3 1\n"
                                    "p:///empty text/x title 12345 0 0.3 1\n");
    buf_deinit(&f.text);
    store->ops->destroy(store);
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* A running program: its rows, its log. */
struct run {
    struct store *rows;
    struct changelog *log;
    uint64_t epoch;
};

static struct run start(bool is_fresh)
{
    struct run r = {.rows = open_store(is_fresh)};
    struct tidings_error err = {0};
    uint64_t position = r.rows->ops->position(r.rows);
    if (r.rows->ops->create_changelog(r.rows, &roomy_limits, &r.log, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_true(r.log->is_durable);
    r.epoch = r.log->ops->epoch(r.log);
    assert_int_equal(r.log->ops->first(r.log), position);
    assert_int_equal(r.log->ops->last(r.log), position);
    return r;
}

static void stop(struct run *r)
{
    r->log->ops->destroy(r->log);
    r->rows->ops->destroy(r->rows);
}

static void check_resumes(const struct run *r, uint64_t epoch, uint64_t position, bool expected)
{
    uint64_t at = 77;
    assert_int_equal(r->log->ops->resume(r->log, epoch, position, true, &at), expected);
    assert_true(!expected || at == position);
}

static void cursor_resumes_after_restart(void **state)
{
    (void)state;
    struct run a = start(true);
    assert_int_equal(a.log->ops->first(a.log), 0);
    uint64_t one = kept_publish(a.rows, "p:///x", "1");
    uint64_t two = kept_publish(a.rows, "p:///x", "2");
    stop(&a);
    struct run b = start(false);
    assert_int_not_equal(a.epoch, b.epoch);
    check_resumes(&b, a.epoch, 0, true);
    check_resumes(&b, a.epoch, one, true);
    check_resumes(&b, a.epoch, two, true);
    check_resumes(&b, a.epoch, two + 1, false); /* it never came so far */
    check_resumes(&b, a.epoch + 1, one, false);
    uint64_t three = kept_publish(b.rows, "p:///x", "3");
    stop(&b);
    struct run c = start(false);
    check_resumes(&c, a.epoch, two, true);
    check_resumes(&c, a.epoch, three, false); /* which belongs to the second start */
    check_resumes(&c, b.epoch, three, true);
    stop(&c);
}

static void cursor_is_unknown_to_another_store(void **state)
{
    (void)state;
    struct run a = start(true);
    stop(&a);
    struct run other = start(true);
    check_resumes(&other, a.epoch, 0, false);
    stop(&other);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void put_task(struct store *store, const char *id, const char *status, const char *payload,
                     int64_t ttl_ms, int expected)
{
    static int64_t now; /* all began then */
    now = now > 0 ? now : clock_wall_ms();
    const struct stored_task task = {
        .id = tidings_str(id),
        .client = STR("al\xC3\xACs"),
        .status = tidings_str(status),
        .message = STR("half\nway"),
        .payload = tidings_str(payload),
        .created_ms = now,
        .updated_ms = now + 1,
        .ttl_ms = ttl_ms,
    };
    kept_begin(store);
    assert_int_equal(store->ops->put_task(store, &task, NULL), expected);
    kept_commit(store);
}

static void print_task(void *user, const struct stored_task *task)
{
    assert_true(str_eq(task->client, STR("al\xC3\xACs")));
    assert_true(str_eq(task->message, STR("half\nway")));
    assert_int_equal(task->updated_ms, task->created_ms + 1);
    buf_putf(user, "%.*s %.*s %.*s %lld\n", STR_ARG(task->id), STR_ARG(task->status),
             STR_ARG(task->payload), (long long)task->ttl_ms);
}

static void check_tasks(struct store *store, const char *expected)
{
    struct buf lines;
    buf_init(&lines, 4096);
    assert_int_equal(store->ops->each_task(store, print_task, &lines, NULL), 0);
    assert_string_equal(lines.len > 0 ? lines.ptr : "", expected);
    buf_deinit(&lines);
}

static void tasks_and_their_results_survive_restart(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    check_tasks(store, "");
    put_task(store, "b", "working", "", 3600000, 0);
    put_task(store, "a", "working", "", 3600000, 0);
    put_task(store, "b", "input_required", "", 3600000, 0);
    put_task(store, "a", "completed", "{\"x\":\"\xC3\xA4\"}", 7200000, 0);
    put_task(store, "a", "cancelled", "", 3600000, TIDINGS_E_CONFLICT);
    put_task(store, "a", "working", "", 3600000, TIDINGS_E_CONFLICT);
    store->ops->destroy(store);
    store = open_store(false);
    check_tasks(store, "a completed {\"x\":\"\xC3\xA4\"} 7200000\nb input_required  3600000\n");
    store->ops->destroy(store);
}

static void expired_tasks_are_dropped(void **state)
{
    (void)state;
    struct store *store = open_store(true);
    put_task(store, "brief", "completed", "{}", 60000, 0);
    put_task(store, "long", "working", "", 3600000, 0);
    put_task(store, "none", "working", "", 0, 0); /* during a rollback */
    kept_begin(store);
    assert_int_equal(store->ops->sweep_tasks(store, clock_wall_ms() + 1000, NULL), 0);
    kept_commit(store);
    check_tasks(store, "brief completed {} 60000\nlong working  3600000\n");
    kept_begin(store);
    assert_int_equal(store->ops->sweep_tasks(store, clock_wall_ms() + 120000, NULL), 0);
    store->ops->rollback(store);
    check_tasks(store, "brief completed {} 60000\nlong working  3600000\n");
    kept_begin(store);
    assert_int_equal(store->ops->sweep_tasks(store, clock_wall_ms() + 120000, NULL), 0);
    kept_commit(store);
    check_tasks(store, "long working  3600000\n");
    store->ops->destroy(store);
}

int kept_suite(const char *name, kept_open_fn open)
{
    open_store = open;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_survive_restart_in_order),
        cmocka_unit_test(move_survives_eviction_of_its_version),
        cmocka_unit_test(rolled_back_change_uses_no_position),
        cmocka_unit_test(newest_removals_are_kept_and_older_raise_the_floor),
        cmocka_unit_test(removed_resource_stays_unsubscribable),
        cmocka_unit_test(publications_survive_restart_unchanged),
        cmocka_unit_test(cursor_resumes_after_restart),
        cmocka_unit_test(cursor_is_unknown_to_another_store),
        cmocka_unit_test(tasks_and_their_results_survive_restart),
        cmocka_unit_test(expired_tasks_are_dropped),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
