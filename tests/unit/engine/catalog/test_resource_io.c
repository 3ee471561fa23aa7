/* SPDX-License-Identifier: MIT
 *
 * One resource as plain bytes: the results of reads and writes. No failed allocation leaks.
 */
#include "engine/catalog/resource_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/worker.h"
#include "support/fail_alloc.h"

#define GREETING "gr\xc3\xbc\xc3\x9f"

static const struct worker_limits limits = {
    .page_size = 100, .max_read_bytes = 1000, .max_depth = 32};
static struct worker worker = {.limits = &limits};
static struct tidings_provider *mounts[2];

/* ---- a readable and writable provider -------------------------------------------------------- */

static struct {
    char *given;                  /* memory of the last content handed over */
    struct tidings_read *waiting; /* content of mem:///slow */
    char written[32], match[32], type[32];
    bool removed, absent;
    int code; /* the result of the write */
} told;

static int op_open(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void op_close(struct tidings_provider *p)
{
    (void)p;
}

static void op_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    struct tidings_error err = {0};
    struct tidings_resource about = {0};
    about.name = STR("x");
    about.etag = STR("tag");
    int rc = 0;
    if (str_ends(uri, STR("slow"))) {
        told.waiting = read;
        return;
    }
    if (str_ends(uri, STR("taken"))) {
        told.given = tidings_alloc(6);
        rc = told.given ? 0 : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        if (rc == 0) {
            memcpy(told.given, GREETING, 6);
            rc = tidings_read_take(read, &about, told.given, 6, &err);
        }
    } else if (str_ends(uri, STR("text"))) {
        about.mime_type = STR("text/a");
        rc = tidings_read_text(read, &about, STR(GREETING), &err);
        about.mime_type = STR("text/b");
        about.etag = STR("tag b");
        rc = rc < 0 ? rc : tidings_read_text(read, &about, STR("other"), &err);
    } else {
        rc = TIDINGS_E_NOTFOUND;
    }
    tidings_read_done(read, rc, rc == TIDINGS_E_NOTFOUND ? NULL : &err);
}

static void op_write(struct tidings_provider *p, struct tidings_write *write,
                     struct tidings_str uri)
{
    (void)p;
    (void)uri;
    told.removed = tidings_write_is_removal(write);
    told.absent = tidings_write_if_absent(write);
    snprintf(told.written, sizeof(told.written), "%.*s", STR_ARG(tidings_write_bytes(write)));
    snprintf(told.match, sizeof(told.match), "%.*s", STR_ARG(tidings_write_if_match(write)));
    snprintf(told.type, sizeof(told.type), "%.*s", STR_ARG(tidings_write_mime_type(write)));
    tidings_write_done(write, told.code, STR("new tag"), NULL);
}

/* Last modified at 5.9 s. */
static void op_stat(struct tidings_provider *p, struct tidings_stat *stat, struct tidings_str uri)
{
    (void)p;
    struct tidings_resource about = {0};
    about.uri = uri;
    about.name = STR("x");
    about.modified_ms = 5900;
    about.etag = str_ends(uri, STR("weak")) ? STR("W/tag") : STR("tag");
    int code = str_ends(uri, STR("none"))     ? TIDINGS_E_NOTFOUND
               : str_ends(uri, STR("broken")) ? TIDINGS_E_IO
                                              : 0;
    tidings_stat_done(stat, code, &about, NULL);
}

static const struct tidings_provider_ops ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "mem",
    .stat = op_stat,
    .open = op_open,
    .close = op_close,
    .read = op_read,
    .write = op_write,
};
static const struct tidings_provider_ops read_only = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "fixed",
    .open = op_open,
    .close = op_close,
    .read = op_read,
};

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

/* From here on the catalog has this resource too. */
static void add(struct catalog_entry *entry, struct tidings_provider *mount)
{
    struct catalog *catalog = catalog_derive(worker.catalog, entry, mount, STR_EMPTY);
    assert_non_null(catalog);
    catalog_set_current(&worker, catalog);
}

static int setup(void **state)
{
    (void)state;
    struct tidings_resource about = {.uri = STR("mem:///registered"), .name = STR("n")};
    static const struct provider_host host = {0};
    struct tidings_error err = {0};
    memset(&told, 0, sizeof(told));
    struct catalog_entry *entry = catalog_entry_create(&about, false, read_nothing, NULL, &err);
    assert_non_null(entry);
    add(entry, NULL);
    catalog_entry_unref(entry);
    assert_int_equal(provider_create(&ops, &host, STR("mem:///"), STR_EMPTY, &mounts[0], &err), 0);
    assert_int_equal(
        provider_create(&read_only, &host, STR("fixed:///"), STR_EMPTY, &mounts[1], &err), 0);
    add(NULL, mounts[0]);
    add(NULL, mounts[1]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    catalog_set_current(&worker, NULL);
    provider_destroy(mounts[0]);
    provider_destroy(mounts[1]);
    return 0;
}

/* ---- one exchange ---------------------------------------------------------------------------- */

static unsigned finished;

static void on_done(struct resource_io *p)
{
    (void)p;
    finished++;
}

static void begin(struct resource_io *p, const char *uri)
{
    finished = 0;
    resource_io_init(p, &worker, on_done, NULL);
    p->as_requested = tidings_str(uri);
}

static void check_content(struct resource_io *p, const char *content)
{
    assert_int_equal(finished, 1);
    assert_int_equal(p->code, 0);
    assert_int_equal(p->len, strlen(content));
    assert_memory_equal(p->memory, content, p->len);
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void first_format_is_returned_by_default(void **state)
{
    (void)state;
    struct resource_io p;
    begin(&p, "MEM:///text");
    resource_io_start(&p, RESOURCE_IO_READ);
    check_content(&p, GREETING);
    assert_true(str_eq(p.about->mime_type, STR("text/a")) && str_eq(p.etag, STR("tag")));
    assert_true(p.is_text && !p.is_part && p.size == 6);
    resource_io_deinit(&p);
    begin(&p, "mem:///text");
    p.options.formats[p.options.format_count++] = STR("text/b");
    resource_io_start(&p, RESOURCE_IO_READ);
    check_content(&p, "other");
    resource_io_deinit(&p);
    begin(&p, "mem:///text");
    p.options.formats[p.options.format_count++] = STR("image/png");
    resource_io_start(&p, RESOURCE_IO_READ);
    assert_true(p.code < 0 && str_eq(p.reason, READ_NOT_ACCEPTABLE) && !p.memory);
    resource_io_deinit(&p);
}

static void range_is_exact_to_the_byte(void **state)
{
    (void)state;
    struct resource_io p;
    begin(&p, "mem:///text");
    p.options.has_range = true;
    p.options.range = (struct tidings_range){.from = 3, .to = 5};
    resource_io_start(&p, RESOURCE_IO_READ);
    check_content(&p, "\xbc\xc3");
    assert_true(p.is_part && p.from == 3 && p.size == 6);
    resource_io_deinit(&p);
    begin(&p, "mem:///text");
    p.options.has_range = true;
    p.options.range = (struct tidings_range){.from = 7, .to = -1};
    resource_io_start(&p, RESOURCE_IO_READ);
    assert_true(p.code < 0 && str_eq(p.reason, READ_OUT_OF_RANGE));
    assert_int_equal(p.size, 6);
    resource_io_deinit(&p);
}

static void content_with_known_etag_is_not_returned(void **state)
{
    (void)state;
    struct resource_io p;
    begin(&p, "mem:///text");
    p.options.etags[p.options.etag_count++] = STR("tag");
    resource_io_start(&p, RESOURCE_IO_READ);
    assert_true(p.code == 0 && p.unchanged && !p.memory && !p.about);
    assert_true(str_eq(p.etag, STR("tag")));
    resource_io_deinit(&p);
}

static void handed_over_content_is_not_copied(void **state)
{
    (void)state;
    struct resource_io p;
    begin(&p, "mem:///taken");
    resource_io_start(&p, RESOURCE_IO_READ);
    check_content(&p, GREETING);
    assert_ptr_equal(p.memory, told.given);
    resource_io_deinit(&p);
    begin(&p, "mem:///taken");
    p.options.has_range = true;
    p.options.range = (struct tidings_range){.from = 1, .to = -1};
    resource_io_start(&p, RESOURCE_IO_READ); /* does not start at the start of the memory */
    check_content(&p, &GREETING[1]);
    resource_io_deinit(&p);
}

static void missing_resource_fails_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        int code;
    } rows[] = {
        {"mem:///none", TIDINGS_E_NOTFOUND},
        {"other:///x", TIDINGS_E_NOTFOUND},
        {"mem:///a/../b", TIDINGS_E_INVALID},
        {"", TIDINGS_E_INVALID},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_io p;
        begin(&p, rows[i].uri);
        resource_io_start(&p, RESOURCE_IO_READ);
        assert_int_equal(finished, 1);
        assert_int_equal(p.code, rows[i].code);
        assert_true(p.err.text[0] != '\0');
        resource_io_cancel(&p); /* too late, and harmless */
        resource_io_deinit(&p);
    }
}

static void cancelled_read_ends_once(void **state)
{
    (void)state;
    struct resource_io p;
    begin(&p, "mem:///slow");
    resource_io_start(&p, RESOURCE_IO_READ);
    assert_int_equal(finished, 0);
    resource_io_cancel(&p);
    assert_true(tidings_read_cancelled(told.waiting));
    tidings_read_done(told.waiting, TIDINGS_E_CANCELLED, NULL);
    assert_int_equal(finished, 1);
    assert_int_equal(p.code, TIDINGS_E_CANCELLED);
    resource_io_deinit(&p);
}

/* ---- writes ---------------------------------------------------------------------------------- */

static void write_reaches_the_provider_whole(void **state)
{
    (void)state;
    struct resource_io p;
    told.code = 1;
    begin(&p, "mem:///new");
    p.bytes = STR("content");
    p.mime_type = STR("text/x");
    p.if_match = STR("old tag");
    p.if_absent = true;
    resource_io_start(&p, RESOURCE_IO_WRITE);
    assert_true(finished == 1 && p.code == 1 && str_eq(p.etag, STR("new tag")));
    assert_string_equal(told.written, "content");
    assert_string_equal(told.type, "text/x");
    assert_string_equal(told.match, "old tag");
    assert_true(told.absent && !told.removed);
    resource_io_deinit(&p);
    told.code = TIDINGS_E_CONFLICT;
    begin(&p, "mem:///new");
    resource_io_start(&p, RESOURCE_IO_REMOVE);
    assert_true(finished == 1 && p.code == TIDINGS_E_CONFLICT && told.removed);
    resource_io_deinit(&p);
}

/* The write carries the etag that the condition was checked against. */
static void write_conditional_on_a_date_sends_the_etag(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        int64_t since;
        int code;
        const char *match; /* NULL: it is not written */
    } rows[] = {
        {"mem:///x", 5, 0, "tag"}, {"mem:///x", 4, TIDINGS_E_CONFLICT, NULL},
        {"mem:///weak", 5, 0, ""}, {"mem:///weak", 4, TIDINGS_E_CONFLICT, NULL},
        {"mem:///none", 0, 0, ""}, {"mem:///broken", 5, TIDINGS_E_IO, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_io p;
        begin(&p, rows[i].uri);
        snprintf(told.match, sizeof(told.match), "not written");
        p.has_unmodified_since = true;
        p.unmodified_since = rows[i].since;
        resource_io_start(&p, RESOURCE_IO_WRITE);
        assert_int_equal(finished, 1);
        assert_int_equal(p.code, rows[i].code);
        assert_string_equal(told.match, rows[i].match ? rows[i].match : "not written");
        resource_io_deinit(&p);
    }
}

static void write_fails_if_provider_cannot_write(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        int code;
    } rows[] = {
        {"mem:///registered", TIDINGS_E_UNSUPPORTED},
        {"fixed:///x", TIDINGS_E_UNSUPPORTED},
        {"other:///x", TIDINGS_E_NOTFOUND},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_io p;
        begin(&p, rows[i].uri);
        resource_io_start(&p, RESOURCE_IO_WRITE);
        assert_int_equal(finished, 1);
        assert_int_equal(p.code, rows[i].code);
        resource_io_deinit(&p);
    }
}

static void failed_allocation_ends_request_once_and_leaks_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        enum resource_io_op op;
    } rows[] = {{"mem:///text", RESOURCE_IO_READ},
                {"mem:///taken", RESOURCE_IO_READ},
                {"mem:///x", RESOURCE_IO_WRITE}, /* on condition of a date */
                {"mem:///none", RESOURCE_IO_WRITE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool reached = true;
        for (long n = 1; reached; n++) {
            struct resource_io p;
            long live = fail_alloc_live();
            fail_alloc_start(n);
            begin(&p, rows[i].uri);
            p.has_unmodified_since = true;
            p.unmodified_since = 5;
            resource_io_start(&p, rows[i].op);
            reached = fail_alloc_stop();
            assert_int_equal(finished, 1);
            assert_true(p.code == 0 || p.code == TIDINGS_E_NOMEM);
            resource_io_deinit(&p);
            assert_int_equal(fail_alloc_live(), live);
        }
    }
    fail_alloc_end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_format_is_returned_by_default),
        TEST(range_is_exact_to_the_byte),
        TEST(content_with_known_etag_is_not_returned),
        TEST(handed_over_content_is_not_copied),
        TEST(missing_resource_fails_at_once),
        TEST(cancelled_read_ends_once),
        TEST(write_reaches_the_provider_whole),
        TEST(write_conditional_on_a_date_sends_the_etag),
        TEST(write_fails_if_provider_cannot_write),
        TEST(failed_allocation_ends_request_once_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
