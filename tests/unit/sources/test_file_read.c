/* SPDX-License-Identifier: MIT
 *
 * Parts of files, files that the client already has, and directories with their children. */
#include "support/file_fixture.h"

#include "base/str.h"
#include "base/time.h"
#include "formats/http_fields.h"

#define BYTES TIDINGS_UNIT_BYTES
#define LINES TIDINGS_UNIT_LINES

static struct host_answer *read_part(struct fixture *f, const char *uri, struct tidings_range range)
{
    return host_read_with(f->host, uri, &range, NULL, SIZE_MAX);
}

/* The rest after removing the margins, as the worker does. */
static void check_part(const struct host_answer *a, struct tidings_range range, const char *text)
{
    assert_int_equal(a->code, 0);
    const struct host_row *row = &a->rows[0];
    assert_true(row->is_part);
    int64_t from = row->offset, to = row->offset + (int64_t)row->length;
    if (range.unit == BYTES) {
        assert_int_equal(byte_range_clip(&range, row->size, &from, &to, NULL), 0);
    }
    assert_true(from >= row->offset && to <= row->offset + (int64_t)row->length);
    assert_int_equal(to - from, strlen(text));
    assert_memory_equal(row->bytes + (from - row->offset), text, strlen(text));
}

/* A first line that makes a file too large to be read completely for one part. */
#define LONG 70000

static void put_long(struct fixture *f, const char *path, const char *text)
{
    char *line = mem_alloc(LONG);
    assert_non_null(line);
    memset(line, 'x', LONG);
    line[LONG - 1] = '\n';
    write_with(f, path, O_TRUNC, line, LONG);
    append(f, path, text);
    mem_free(line);
}

static void byte_and_line_ranges_are_read(void **state)
{
    struct fixture *f = *state;
    put_long(f, "a", "one\ntwo\nthree");
    serve(f, "");
    const struct {
        struct tidings_range range;
        const char *text; /* NULL: refused */
    } rows[] = {
        {{BYTES, LONG, -1, 0}, "one\ntwo\nthree"},
        {{BYTES, LONG + 3, LONG + 7, 0}, "\ntwo"},
        {{BYTES, LONG + 11, LONG + 100, 0}, "ee"},
        {{BYTES, LONG + 13, -1, 0}, ""},
        {{BYTES, 0, 0, 0}, ""},
        {{BYTES, 0, -1, 4}, "hree"},
        {{BYTES, LONG + 14, -1, 0}, NULL},
        {{LINES, 1, 2, 0}, "one\n"},
        {{LINES, 2, 4, 0}, "two\nthree"},
        {{LINES, 2, -1, 0}, "two\nthree"},
        {{LINES, 3, 3, 0}, ""},
        {{LINES, 4, -1, 0}, ""},
        {{LINES, 0, -1, 2}, "two\nthree"},
        {{LINES, 5, -1, 0}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_answer *a = read_part(f, MOUNT "a", rows[i].range);
        if (rows[i].text) {
            check_part(a, rows[i].range, rows[i].text);
            assert_int_equal(a->rows[0].size, LONG + 13);
            assert_string_equal(a->rows[0].mime_type, "text/plain");
        } else {
            assert_int_equal(a->code, TIDINGS_E_INVALID);
            assert_non_null(
                strstr(a->error, rows[i].range.unit == BYTES ? "there are 70013" : "there are 4"));
        }
        host_answer_free(a);
    }
}

static void range_includes_margins_of_characters(void **state)
{
    struct fixture *f = *state;
    put_long(f, "a", "\xe2\x82\xac\xe2\x82\xac"); /* two of three bytes each */
    serve(f, "");
    struct host_answer *a =
        read_part(f, MOUNT "a", (struct tidings_range){BYTES, LONG + 2, LONG + 4, 0});
    assert_int_equal(a->code, 0);
    const struct host_row *row = &a->rows[0];
    size_t from = (size_t)(LONG + 2 - row->offset), to = from + 2;
    assert_true(byte_range_fit_text(tidings_strn(row->bytes, row->length), &from, &to));
    assert_int_equal(row->offset + (int64_t)from, LONG);
    assert_int_equal(to - from, 3);
    assert_string_equal(row->mime_type, "text/plain");
    host_answer_free(a);
}

static void small_file_is_returned_whole_for_the_core_to_cut(void **state)
{
    struct fixture *f = *state;
    write_with(f, "a", O_TRUNC, "\xff\0a\n", 4);
    serve(f, "");
    struct host_answer *a = read_part(f, MOUNT "a", (struct tidings_range){BYTES, 0, -1, 2});
    assert_int_equal(a->code, 0);
    assert_false(a->rows[0].is_part);
    assert_false(a->rows[0].is_text);
    assert_int_equal(a->rows[0].length, 4);
    host_answer_free(a);
}

static void empty_file_is_returned_whole_without_lines(void **state)
{
    struct fixture *f = *state;
    put(f, "empty", "");
    serve(f, "");
    struct host_answer *a = read_part(f, MOUNT "empty", (struct tidings_range){LINES, 0, -1, 5});
    assert_int_equal(a->code, 0);
    assert_false(a->rows[0].is_part); /* the worker cuts */
    assert_string_equal(a->rows[0].bytes, "");
    host_answer_free(a);
}

static void end_of_a_huge_file_is_read_without_the_rest(void **state)
{
    struct fixture *f = *state;
    put(f, "huge.log", "");
    const int64_t hole = INT64_C(8) << 30;
    assert_int_equal(truncate(at(f, "huge.log"), hole), 0);
    append(f, "huge.log", "\nfirst\nsecond\nthird\n");
    serve(f, "");
    struct tidings_range lines = {LINES, 0, -1, 2};
    struct host_answer *a = read_part(f, MOUNT "huge.log", lines);
    check_part(a, lines, "second\nthird\n");
    assert_int_equal(a->rows[0].offset, hole + 7);
    assert_int_equal(a->rows[0].size, hole + 20);
    host_answer_free(a);
    struct tidings_range bytes = {BYTES, 0, -1, 6};
    a = read_part(f, MOUNT "huge.log", bytes);
    check_part(a, bytes, "third\n");
    host_answer_free(a);
    struct tidings_range middle = {BYTES, hole + 1, hole + 6, 0};
    a = read_part(f, MOUNT "huge.log", middle);
    check_part(a, middle, "first");
    host_answer_free(a);
    /* The hole is the fourth line from the end. */
    a = read_part(f, MOUNT "huge.log", (struct tidings_range){LINES, 0, -1, 4});
    assert_int_equal(a->code, TIDINGS_E_LIMIT);
    host_answer_free(a);
}

static void line_search_stops_at_its_limit(void **state)
{
    struct fixture *f = *state;
    put(f, "huge.log", "first\n");
    assert_int_equal(truncate(at(f, "huge.log"), INT64_C(8) << 30), 0);
    serve(f, "");
    struct host_answer *a = read_part(f, MOUNT "huge.log", (struct tidings_range){LINES, 2, -1, 0});
    assert_int_equal(a->code, TIDINGS_E_LIMIT);
    assert_non_null(strstr(a->error, "ask for bytes, or for the last lines"));
    host_answer_free(a);
    struct tidings_range first = {LINES, 0, 1, 0};
    a = read_part(f, MOUNT "huge.log", first);
    check_part(a, first, "first\n");
    host_answer_free(a);
}

static void lines_across_search_chunks_are_found(void **state)
{
    struct fixture *f = *state;
    /* The thread sanitizer checks every byte that memrchr might read, so use fewer lines, but many
     * chunks. */
    const int64_t n = getenv("TIDINGS_TSAN") ? 8000 : 40000;
    struct buf text;
    buf_init(&text, 8u << 20);
    for (unsigned i = 0; i < n; i++) {
        buf_putf(&text, "%06u %.*s\n", i, (int)(i % 40),
                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
    }
    write_with(f, "a.log", O_TRUNC, text.ptr, text.len);
    serve(f, "");
    const struct tidings_range ranges[] = {
        {LINES, 0, -1, 1},     {LINES, 0, -1, n / 4}, {LINES, 0, -1, n - 1},
        {LINES, 0, -1, n + 1}, {LINES, n - 1, -1, 0}, {LINES, n / 2, n / 2 + 1, 0},
        {LINES, 9, n - 99, 0}, {LINES, n, -1, 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct host_answer *a = read_part(f, MOUNT "a.log", ranges[i]);
        size_t from, to;
        assert_int_equal(byte_range_find(&ranges[i], buf_str(&text), &from, &to, NULL), 0);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->rows[0].offset, from);
        assert_int_equal(a->rows[0].length, to - from);
        assert_memory_equal(a->rows[0].bytes, text.ptr + from, to - from);
        host_answer_free(a);
    }
    struct host_answer *a =
        read_part(f, MOUNT "a.log", (struct tidings_range){LINES, n + 1, -1, 0});
    assert_int_equal(a->code, TIDINGS_E_INVALID);
    char expected[32];
    snprintf(expected, sizeof(expected), "there are %lld", (long long)n);
    assert_non_null(strstr(a->error, expected));
    host_answer_free(a);
    buf_deinit(&text);
}

static void file_above_the_cap_is_rejected_with_both_sizes_but_read_in_ranges(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "0123456789");
    serve(f, ", \"maxRead\": 8");
    struct host_answer *a = host_read(f->host, MOUNT "a");
    assert_int_equal(a->code, TIDINGS_E_LIMIT);
    assert_non_null(strstr(a->error, "has 10 bytes, at most 8 are read at once"));
    host_answer_free(a);
    struct tidings_range most = {BYTES, 2, 10, 0};
    a = read_part(f, MOUNT "a", most);
    check_part(a, most, "23456789");
    host_answer_free(a);
    struct tidings_range six = {BYTES, 0, 6, 0};
    a = host_read_with(f->host, MOUNT "a", &six, NULL, 4); /* the caller's own cap */
    assert_int_equal(a->code, TIDINGS_E_LIMIT);
    assert_non_null(strstr(a->error, "the 4 bytes"));
    host_answer_free(a);
    a = read_part(f, MOUNT "a", (struct tidings_range){LINES, 0, -1, 1});
    assert_int_equal(a->code, TIDINGS_E_LIMIT);
    host_answer_free(a);
}

static void file_is_not_read_if_the_client_has_it(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    put(f, "a", "text");
    serve(f, "");
    struct host_answer *young = host_read(f->host, MOUNT "a");
    assert_memory_equal(young->rows[0].etag, "W/", 2);
    assert_int_equal(stat(at(f, "a"), &st), 0);
    struct clock_fake later = {.wall_ms = ((int64_t)st.st_ctim.tv_sec + 10) * 1000};
    clock_set_fake(&later);
    struct host_answer *a =
        host_read_with(f->host, MOUNT "a", NULL, young->rows[0].etag + 2, SIZE_MAX);
    assert_int_equal(a->code, 0);
    assert_true(a->is_unchanged);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    a = host_read_with(f->host, MOUNT "a", NULL, "0123456789abcdef", SIZE_MAX);
    assert_false(a->is_unchanged);
    assert_string_equal(a->rows[0].bytes, "text");
    clock_set_fake(NULL);
    host_answer_free(a);
    host_answer_free(young);
}

/* ---- directories ----------------------------------------------------------------------------- */

static const struct host_row *row_of(const struct host_answer *a, const char *uri)
{
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->rows[i].uri, uri) == 0) {
            return &a->rows[i];
        }
    }
    fail_msg("no element '%s'", uri);
    return NULL;
}

static void directory_content_is_its_names_then_its_children(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/sub");
    put(f, "d/sub/deep.txt", "not here");
    put(f, "d/b.txt", "bee");
    put(f, "d/a b", "text");
    put(f, "d/line\nbreak", "");
    put(f, "d/\xff", "\xff");
    serve(f, "");
    struct host_answer *a = host_read(f->host, MOUNT "d");
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 6);
    assert_string_equal(a->rows[0].uri, MOUNT "d/");
    assert_string_equal(a->rows[0].mime_type, "inode/directory");
    assert_true(a->rows[0].is_text);
    assert_true(a->rows[0].listable);
    assert_string_equal(a->rows[0].bytes, "%FF\na b\nb.txt\nline%0Abreak\nsub/\n");
    const struct host_row *b = row_of(a, MOUNT "d/b.txt");
    assert_string_equal(b->name, "b.txt");
    assert_string_equal(b->bytes, "bee");
    assert_int_equal(b->size, 3);
    assert_string_equal(row_of(a, MOUNT "d/a%20b")->mime_type, "text/plain");
    assert_false(row_of(a, MOUNT "d/%FF")->is_text);
    const struct host_row *sub = row_of(a, MOUNT "d/sub/");
    assert_true(sub->listable);
    assert_string_equal(sub->bytes, "deep.txt\n");
    host_answer_free(a);
}

static void children_beyond_the_limit_are_left_out(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a", "0123456789");
    put(f, "d/b", "01");
    serve(f, "");
    struct host_answer *a = host_read_with(f->host, MOUNT "d/", NULL, NULL, 4 + 8);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 2);
    assert_string_equal(a->rows[0].bytes, "a\nb\n");
    assert_string_equal(a->rows[1].uri, MOUNT "d/b");
    host_answer_free(a);
    for (unsigned i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "d/x%03u", i);
        put(f, name, "x");
    }
    a = host_read(f->host, MOUNT "d/");
    assert_int_equal(a->count, 1 + 64);
    host_answer_free(a);
    a = read_part(f, MOUNT "d/", (struct tidings_range){LINES, 0, 1, 0});
    assert_int_equal(a->count, 1); /* a part belongs to the directory itself */
    host_answer_free(a);
}

static void listing_of_cyclic_links_ends(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/a", "x");
    assert_int_equal(symlink("../../d", at(f, "d/e/back")), 0);
    assert_int_equal(symlink(".", at(f, "d/self")), 0);
    assert_int_equal(symlink("knot2", at(f, "d/knot1")), 0);
    assert_int_equal(symlink("knot1", at(f, "d/knot2")), 0);
    serve(f, "");
    struct host_answer *a = host_read(f->host, MOUNT "d/");
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].bytes, "a\ne/\nself/\n");
    assert_int_equal(a->count, 4);
    host_answer_free(a);
    a = host_list(f->host, "", 1000); /* everything, flat */
    assert_int_equal(a->count, 5);    /* d/ d/a d/e/ d/e/back/ d/self/ */
    host_answer_free(a);
    a = host_children(f->host, MOUNT "d/self/self/e/back/", "", 100);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 3);
    assert_string_equal(a->rows[0].uri, MOUNT "d/self/self/e/back/a");
    host_answer_free(a);
    check_refused(f, MOUNT "d/knot1", TIDINGS_E_DENIED, "link");
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        FILE_TEST(byte_and_line_ranges_are_read),
        FILE_TEST(range_includes_margins_of_characters),
        FILE_TEST(small_file_is_returned_whole_for_the_core_to_cut),
        FILE_TEST(empty_file_is_returned_whole_without_lines),
        FILE_TEST(end_of_a_huge_file_is_read_without_the_rest),
        FILE_TEST(line_search_stops_at_its_limit),
        FILE_TEST(lines_across_search_chunks_are_found),
        FILE_TEST(file_above_the_cap_is_rejected_with_both_sizes_but_read_in_ranges),
        FILE_TEST(file_is_not_read_if_the_client_has_it),
        FILE_TEST(directory_content_is_its_names_then_its_children),
        FILE_TEST(children_beyond_the_limit_are_left_out),
        FILE_TEST(listing_of_cyclic_links_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
