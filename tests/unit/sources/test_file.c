/* SPDX-License-Identifier: MIT
 *
 * The file provider: configuration, names, describing, reading. Each further part has its own
 * program: test_file_containment.c, test_file_list.c, test_file_watch.c, test_file_watch_scope.c.
 */
#include "sources/file.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/str.h"
#include "base/time.h"
#include "formats/uri.h"
#include "support/file_fixture.h"

/* ---- configuration --------------------------------------------------------------------------- */

static void invalid_configuration_is_rejected_with_key_and_accepted_values(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *config, *part;
    } rows[] = {
        {"{}", "'root' is missing"},
        {"[]", "must be an object"},
        {"{", "configuration"},
        {"{\"root\": 1}", "'root' must be the path"},
        {"{\"root\": \"\"}", "'root' must be the path"},
        {"{\"root\": \"/tmp\\u0000x\"}", "'root' must be the path"},
        {"{\"root\": \"/nonexistent/x\"}", "open root '/nonexistent/x'"},
        {"{\"root\": \"/etc/passwd\"}", "open root '/etc/passwd'"},
        {"{\"root\": \"/tmp\", \"color\": 1}", "unknown key 'color'; accepted: root, exclude"},
        {"{\"root\": \"/tmp\", \"maxRead\": \"big\"}", "'maxRead' must be a whole number from 1"},
        {"{\"root\": \"/tmp\", \"maxRead\": 0}", "'maxRead' must be a whole number from 1"},
        {"{\"root\": \"/tmp\", \"quietMs\": 1.5}", "'quietMs' must be a whole number"},
        {"{\"root\": \"/tmp\", \"pollMs\": 1}", "from 10 to 3600000"},
        {"{\"root\": \"/tmp\", \"exclude\": \"*.tmp\"}", "'exclude' must be an array"},
        {"{\"root\": \"/tmp\", \"exclude\": [1]}", "'exclude': a pattern must be a string"},
        {"{\"root\": \"/tmp\", \"exclude\": [\"[a\"]}", "'exclude': "},
        {"{\"root\": \"/tmp\", \"excludeDefaults\": 0}", "'excludeDefaults' must be true or"},
    };
    (void)f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tidings_error err = {0};
        assert_null(host_open(&provider_file_ops, MOUNT, rows[i].config, &err));
        if (!strstr(err.text, rows[i].part)) {
            fail_msg("%s: '%s' does not hold '%s'", rows[i].config, err.text, rows[i].part);
        }
    }
}

static void prefix_without_slash_serves_the_same_uris(void **state)
{
    struct fixture *f = *state;
    char config[200];
    struct tidings_error err = {0};
    put(f, "a.txt", "hello");
    (void)snprintf(config, sizeof config, "{\"root\": \"%s\"}", f->root);
    f->host = host_open(&provider_file_ops, "file:///srv/data", config, &err);
    assert_non_null(f->host);
    check_read(f, "file:///srv/data/a.txt", "hello");
    check_refused(f, "file:///srv/database/a.txt", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, "file:///srv/dataa.txt", TIDINGS_E_NOTFOUND, "no such file");
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_of_any_bytes_round_trip(void **state)
{
    struct fixture *f = *state;
    char name[3] = {'x', 0, 0};
    for (int byte = 1; byte < 256; byte++) {
        if (byte != '/') {
            name[1] = (char)byte;
            put(f, name, name);
        }
    }
    serve(f, "");
    struct host_answer *a = host_list(f->host, "", 1000);
    assert_int_equal(a->count, 254);
    for (size_t i = 0; i < a->count; i++) {
        struct host_answer *content = host_read(f->host, a->rows[i].uri);
        assert_int_equal(content->code, 0);
        struct buf uri;
        buf_init(&uri, 1000);
        buf_puts(&uri, STR(MOUNT));
        uri_encode_path(&uri, tidings_str(content->rows[0].bytes));
        assert_string_equal(uri.ptr, a->rows[i].uri);
        /* Names are text: the bytes if they are valid, otherwise their encoding. */
        bool is_text = str_is_utf8(tidings_str(content->rows[0].bytes));
        assert_string_equal(a->rows[i].name,
                            is_text ? content->rows[0].bytes : uri.ptr + strlen(MOUNT));
        buf_deinit(&uri);
        host_answer_free(content);
    }
    host_answer_free(a);
}

static void file_is_found_only_by_its_canonical_uri(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a+b.txt", "plus");
    serve(f, "");
    check_read(f, MOUNT "d/a+b.txt", "plus");
    check_refused(f, MOUNT "d/a%2Bb.txt", TIDINGS_E_NOTFOUND, "is spelled 'd/a+b.txt'");
    check_refused(f, MOUNT "%64/a+b.txt", TIDINGS_E_NOTFOUND, "is spelled");
    check_refused(f, MOUNT "d%2Fa+b.txt", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "d//a+b.txt", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "/d/a+b.txt", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "d/a+b.txt?x=1", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "d/a+b.txt/", TIDINGS_E_NOTFOUND, "is a file");
    check_refused(f, MOUNT "d/a+b.txt/x", TIDINGS_E_NOTFOUND, "");
    check_refused(f, MOUNT "nothing", TIDINGS_E_NOTFOUND, "nothing");
    check_refused(f, MOUNT "%00", TIDINGS_E_NOTFOUND, "no such file");
}

static void stat_describes_files_directories_and_the_root(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "notes");
    put(f, "notes/a b.md", "hello");
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000, .tv_nsec = 5000000}};
    assert_int_equal(utimensat(AT_FDCWD, at(f, "notes/a b.md"), times, 0), 0);
    serve(f, "");

    struct host_answer *a = host_stat(f->host, MOUNT "notes/a%20b.md");
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].uri, MOUNT "notes/a%20b.md");
    assert_string_equal(a->rows[0].name, "a b.md");
    assert_string_equal(a->rows[0].mime_type, "text/markdown");
    assert_int_equal(a->rows[0].size, 5);
    assert_int_equal(a->rows[0].modified_ms, 1000000000005);
    assert_int_equal(strspn(a->rows[0].etag, "W/0123456789abcdef"), strlen(a->rows[0].etag));
    assert_false(a->rows[0].listable);
    host_answer_free(a);

    const char *const spellings[] = {MOUNT "notes/", MOUNT "notes"};
    for (size_t i = 0; i < 2; i++) {
        a = host_stat(f->host, spellings[i]);
        assert_int_equal(a->code, 0);
        assert_string_equal(a->rows[0].uri, MOUNT "notes/");
        assert_string_equal(a->rows[0].name, "notes");
        assert_string_equal(a->rows[0].mime_type, "inode/directory");
        assert_int_equal(a->rows[0].size, -1);
        assert_true(a->rows[0].listable);
        host_answer_free(a);
    }

    a = host_stat(f->host, MOUNT);
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].uri, MOUNT);
    assert_string_equal(a->rows[0].name, "data");
    assert_true(a->rows[0].listable);
    host_answer_free(a);
}

static void etag_follows_the_change_time_and_is_weak_while_young(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    put(f, "a", "one");
    serve(f, "");
    struct host_answer *young = host_stat(f->host, MOUNT "a");
    assert_int_equal(strlen(young->rows[0].etag), 18);
    assert_memory_equal(young->rows[0].etag, "W/", 2);
    assert_int_equal(stat(at(f, "a"), &st), 0);
    struct clock_fake later = {.wall_ms = ((int64_t)st.st_ctim.tv_sec + 10) * 1000};
    clock_set_fake(&later);
    struct host_answer *old = host_stat(f->host, MOUNT "a");
    clock_set_fake(NULL);
    assert_int_equal(strlen(old->rows[0].etag), 16);
    assert_string_equal(old->rows[0].etag, young->rows[0].etag + 2);
    put(f, "a", "three");
    struct host_answer *changed = host_stat(f->host, MOUNT "a");
    assert_string_not_equal(changed->rows[0].etag + 2, old->rows[0].etag);
    host_answer_free(young);
    host_answer_free(old);
    host_answer_free(changed);
}

/* ---- links and exclusions -------------------------------------------------------------------- */

static void links_inside_the_root_are_followed(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/target.txt", "inside");
    assert_int_equal(symlink("d/target.txt", at(f, "link")), 0);
    assert_int_equal(symlink("../d/target.txt", at(f, "d/up")), 0);
    assert_int_equal(symlink("d", at(f, "dirlink")), 0);
    assert_int_equal(symlink("nowhere", at(f, "broken")), 0);
    serve(f, "");
    check_read(f, MOUNT "link", "inside");
    check_read(f, MOUNT "d/up", "inside");
    check_read(f, MOUNT "dirlink/target.txt", "inside");
    assert_true(is_listed(f, MOUNT "link"));
    assert_true(is_listed(f, MOUNT "dirlink/"));
    assert_false(is_listed(f, MOUNT "dirlink/target.txt")); /* listed, not entered */
    assert_false(is_listed(f, MOUNT "broken"));
    struct host_answer *a = host_children(f->host, MOUNT "dirlink/", "", 10);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 2);
    assert_string_equal(a->rows[0].uri, MOUNT "dirlink/target.txt");
    host_answer_free(a);
}

/* Files directly in the root use a shorter code path. */
static void files_are_read_alike_in_the_root_and_below(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name;
        int code;
    } rows[] = {
        {"file", 0},
        {"link", 0},
        {"chain", 0},
        {"file/", TIDINGS_E_NOTFOUND},
        {"absent", TIDINGS_E_NOTFOUND},
        {"dangling", TIDINGS_E_NOTFOUND},
        {"loop", TIDINGS_E_DENIED},
        {"file/below", TIDINGS_E_NOTFOUND},
        {".git", TIDINGS_E_NOTFOUND},
        {"a.tmp", TIDINGS_E_NOTFOUND},
        {"fifo", TIDINGS_E_DENIED},
        {"out", TIDINGS_E_DENIED},
    };
    static const char *const places[] = {"", "d/", "d/e/"};
    make_dir(f, "d");
    make_dir(f, "d/e");
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        char where[300];
        int n = snprintf(where, sizeof where, "%s/%s", f->root, places[p]);
        int dir = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(n > 0 && dir >= 0);
        assert_int_equal(symlinkat("file", dir, "link"), 0);
        assert_int_equal(symlinkat("link", dir, "chain"), 0);
        assert_int_equal(symlinkat("nowhere", dir, "dangling"), 0);
        assert_int_equal(symlinkat("loop", dir, "loop"), 0);
        assert_int_equal(symlinkat("/etc/passwd", dir, "out"), 0);
        assert_int_equal(mkfifoat(dir, "fifo", 0644), 0);
        close(dir);
        static const char *const files[] = {"file", ".git", "a.tmp"};
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            (void)snprintf(where, sizeof where, "%s%s", places[p], files[i]);
            put(f, where, "text");
        }
    }
    serve(f, ", \"exclude\": [\"*.tmp\"]");
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char uri[300];
            (void)snprintf(uri, sizeof uri, MOUNT "%s%s", places[p], rows[i].name);
            if (rows[i].code == 0) {
                check_read(f, uri, "text");
            } else {
                check_refused(f, uri, rows[i].code, "");
            }
        }
    }
}

static void excluded_names_are_not_found(void **state)
{
    struct fixture *f = *state;
    make_dir(f, ".git");
    put(f, ".git/config", "x");
    make_dir(f, "sub");
    make_dir(f, "sub/.git");
    put(f, "sub/.git/config", "x");
    put(f, "sub/a.tmp", "x");
    make_dir(f, "build");
    put(f, "build/out", "x");
    make_dir(f, "sub/build");
    put(f, "sub/build/out", "kept");
    serve(f, ", \"exclude\": [\"*.tmp\", \"/build/\"]");
    check_refused(f, MOUNT ".git/config", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "sub/.git/", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "sub/a.tmp", TIDINGS_E_NOTFOUND, "no such file");
    check_refused(f, MOUNT "build/out", TIDINGS_E_NOTFOUND, "no such file");
    check_read(f, MOUNT "sub/build/out", "kept");
    struct host_answer *a = host_list(f->host, "", 100);
    assert_int_equal(a->count, 3); /* sub/, sub/build/, sub/build/out */
    host_answer_free(a);
    host_close(f->host);
    serve(f, ", \"excludeDefaults\": false");
    check_read(f, MOUNT ".git/config", "x");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void text_and_binary_files_are_distinguished_by_content(void **state)
{
    struct fixture *f = *state;
    static const char binary[] = "\xff\xfe\x00\x01";
    put(f, "a.json", "{}");
    put(f, "plain", "gr\xc3\xbc\xc3\x9f dich");
    put(f, "empty", "");
    write_with(f, "binary", O_TRUNC, binary, sizeof binary);
    write_with(f, "fake.txt", O_TRUNC, binary, sizeof binary);
    serve(f, "");
    const struct {
        const char *uri, *type;
        bool is_text;
        size_t length;
    } rows[] = {
        {MOUNT "a.json", "application/json", true, 2},
        {MOUNT "plain", "text/plain", true, 11},
        {MOUNT "empty", "text/plain", true, 0},
        {MOUNT "binary", "application/octet-stream", false, sizeof binary},
        {MOUNT "fake.txt", "text/plain", false, sizeof binary},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_answer *a = host_read(f->host, rows[i].uri);
        assert_int_equal(a->code, 0);
        assert_string_equal(a->rows[0].uri, rows[i].uri);
        assert_string_equal(a->rows[0].mime_type, rows[i].type);
        assert_int_equal(a->rows[0].is_text, rows[i].is_text);
        assert_int_equal(a->rows[0].length, rows[i].length);
        assert_int_equal(a->rows[0].size, rows[i].length);
        assert_true(a->rows[0].modified_ms > 0);
        assert_true(strlen(a->rows[0].etag) >= 16);
        host_answer_free(a);
    }
    struct host_answer *a = host_stat(f->host, MOUNT "plain");
    assert_string_equal(a->rows[0].mime_type,
                        "application/octet-stream"); /* the content was not read */
    host_answer_free(a);
}

static void large_files_are_read_on_the_pool(void **state)
{
    struct fixture *f = *state;
    size_t size = 3u << 20;
    char *bytes = mem_alloc(size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    write_with(f, "large.txt", O_TRUNC, bytes, size);
    serve(f, "");
    struct host_answer *a = host_read(f->host, MOUNT "large.txt");
    assert_int_equal(a->code, 0);
    assert_int_equal(a->rows[0].length, size);
    assert_memory_equal(a->rows[0].bytes, bytes, size);
    assert_true(a->rows[0].is_text);
    host_answer_free(a);
    mem_free(bytes);
}

struct resizer {
    const char *path;
    atomic_bool stop;
};

static void *keep_resizing(void *user)
{
    struct resizer *r = user;
    for (unsigned i = 0; !atomic_load(&r->stop); i++) {
        (void)!truncate(r->path, i % 2 ? 200000 : 10);
    }
    return NULL;
}

static void file_that_shrinks_during_a_read_is_not_read_past_its_end(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "0123456789");
    char path[200];
    (void)snprintf(path, sizeof path, "%s", at(f, "a"));
    struct resizer r = {.path = path};
    pthread_t thread;
    serve(f, "");
    assert_int_equal(pthread_create(&thread, NULL, keep_resizing, &r), 0);
    for (int i = 0; i < 200; i++) {
        struct host_answer *a = host_read(f->host, MOUNT "a");
        if (a->code == 0) {
            assert_true(a->rows[0].length <= 200000);
            assert_true((int64_t)a->rows[0].length <= a->rows[0].size);
        } else { /* it was truncated between the two reads */
            assert_int_equal(a->code, TIDINGS_E_CONFLICT);
        }
        host_answer_free(a);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    struct host_answer *last = host_read(f->host, MOUNT "a");
    assert_int_equal(last->code, 0);
    host_answer_free(last);
}

static void unreadable_file_is_denied(void **state)
{
    struct fixture *f = *state;
    if (geteuid() == 0) {
        skip(); /* root ignores permissions */
    }
    put(f, "a", "x");
    assert_int_equal(chmod(at(f, "a"), 0), 0);
    serve(f, "");
    struct host_answer *a = host_read(f->host, MOUNT "a");
    assert_int_equal(a->code, TIDINGS_E_DENIED);
    host_answer_free(a);
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        FILE_TEST(invalid_configuration_is_rejected_with_key_and_accepted_values),
        FILE_TEST(prefix_without_slash_serves_the_same_uris),
        FILE_TEST(names_of_any_bytes_round_trip),
        FILE_TEST(file_is_found_only_by_its_canonical_uri),
        FILE_TEST(stat_describes_files_directories_and_the_root),
        FILE_TEST(etag_follows_the_change_time_and_is_weak_while_young),
        FILE_TEST(links_inside_the_root_are_followed),
        FILE_TEST(files_are_read_alike_in_the_root_and_below),
        FILE_TEST(excluded_names_are_not_found),
        FILE_TEST(text_and_binary_files_are_distinguished_by_content),
        FILE_TEST(large_files_are_read_on_the_pool),
        FILE_TEST(file_that_shrinks_during_a_read_is_not_read_past_its_end),
        FILE_TEST(unreadable_file_is_denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
