/* SPDX-License-Identifier: MIT
 *
 * The cache of names from a server: byte limit, file limit and lifetime; readers see complete
 * files; and untrusted files in the directory are neither used nor followed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/completions.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "support/remove_tree.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char home[64], directory[80], file[200], head[128];
static int64_t now_s; /* the start of the test: files get the system time */

static int setup(void **state)
{
    (void)state;
    (void)snprintf(home, sizeof home, "/tmp/tidings-names-XXXXXX");
    assert_non_null(mkdtemp(home));
    (void)snprintf(directory, sizeof directory, "%s/tidings", home);
    (void)snprintf(file, sizeof file, "%s/names-" KEY, directory);
    now_s = (int64_t)time(NULL);
    (void)snprintf(head, sizeof head, "tidings-names 1 %" PRId64 " " KEY "\n", now_s);
    return setenv("XDG_CACHE_HOME", home, 1);
}

static int teardown(void **state)
{
    (void)state;
    return remove_tree(home);
}

static void save(const char *key, int64_t at_s, const char *lines)
{
    char digest[TIDINGS_DIGEST_MAX];
    (void)snprintf(digest, sizeof digest, "%s", key);
    names_cache_save(digest, at_s, tidings_str(lines));
}

struct notifications {
    unsigned count;
    char text[200];
};

static void hear(void *user, struct tidings_str name)
{
    struct notifications *h = user;
    size_t len = strlen(h->text);
    h->count++;
    (void)snprintf(h->text + len, sizeof h->text - len, "%.*s ", (int)name.len, name.ptr);
}

/* "a b ", or NULL: none cached. */
static const char *found(const char *key, int64_t at_s)
{
    static struct notifications h;
    char digest[TIDINGS_DIGEST_MAX];
    h = (struct notifications){0};
    (void)snprintf(digest, sizeof digest, "%s", key);
    bool is_found = names_cache_find(digest, at_s, hear, &h);
    assert_true(is_found || h.count == 0);
    return is_found ? h.text : NULL;
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        count += e->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

/* One of the earlier entries; `age` in seconds. */
static void leave(const char *name, int64_t age)
{
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const struct timespec times[2] = {{.tv_sec = (time_t)(now_s - age)},
                                      {.tv_sec = (time_t)(now_s - age)}};
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void saved_names_are_found_for_a_minute_by_key(void **state)
{
    (void)state;
    assert_null(found(KEY, now_s));
    save(KEY, now_s, "app://a\nb.c\n");
    assert_string_equal(found(KEY, now_s), "app://a b.c ");
    assert_string_equal(found(KEY, now_s + NAMES_CACHE_S), "app://a b.c ");
    assert_null(found(KEY, now_s + NAMES_CACHE_S + 1));
    assert_null(found(KEY, now_s - 1)); /* the clock was set back */
    assert_null(found(OTHER, now_s));
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(directory, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    save(KEY, now_s + 1, ""); /* an empty list is also cached */
    assert_string_equal(found(KEY, now_s + 1), "");
    assert_int_equal(count_files(), 1);
}

static void file_size_is_limited(void **state)
{
    (void)state;
    size_t room = NAMES_CACHE_MAX - strlen(head);
    char *lines = calloc(1, room + 2);
    assert_non_null(lines);
    for (size_t at = 0; at < room; at++) {
        lines[at] = at % 200 == 199 || at + 1 == room ? '\n' : 'n';
    }
    save(KEY, now_s, lines);
    assert_non_null(found(KEY, now_s));
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, NAMES_CACHE_MAX);
    assert_int_equal(unlink(file), 0);
    lines[room - 1] = 'n';
    lines[room] = '\n';
    save(KEY, now_s, lines);
    assert_null(found(KEY, now_s));
    assert_int_equal(count_files(), 0);
    free(lines);
}

static void file_count_is_limited_and_oldest_are_evicted(void **state)
{
    (void)state;
    char name[100];
    save(OTHER, now_s, "a\n");
    leave("names-" OTHER, 0);
    for (unsigned i = 1; i < NAMES_CACHE_FILES; i++) {
        (void)snprintf(name, sizeof name, "names-%u", i);
        leave(name, i % 2 ? NAMES_CACHE_S : 0);
    }
    leave("mine", 1000000);
    save(KEY, now_s, "a\n");
    assert_null(found(KEY, now_s)); /* there is no room */
    assert_int_equal(count_files(), NAMES_CACHE_FILES + 1);
    leave("names-1", NAMES_CACHE_S + 1);
    leave("names-2", -(int64_t)NAMES_CACHE_S - 1); /* of a future time */
    save(KEY, now_s, "a\n");
    assert_string_equal(found(KEY, now_s), "a ");
    assert_int_equal(count_files(),
                     NAMES_CACHE_FILES); /* two removed, one added; and "mine" remains */
    (void)snprintf(name, sizeof name, "%s/mine", directory);
    assert_int_equal(access(name, F_OK), 0);
}

/* A reader that opens the file during a write sees either the old or the new one, complete. */
static void file_is_replaced_atomically(void **state)
{
    (void)state;
    char text[400], expected[200];
    save(KEY, now_s, "old\n");
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat before, after;
    assert_int_equal(fstat(fd, &before), 0);
    save(KEY, now_s, "new\n");
    assert_int_equal(stat(file, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    (void)snprintf(expected, sizeof expected, "%sold\n", head);
    assert_string_equal(text, expected);
    close(fd);
    assert_string_equal(found(KEY, now_s), "new ");
    assert_int_equal(count_files(), 1); /* no temporary file remains */
}

/* An obstacle at the target belongs to someone else: it is not followed or written, and it is
 * removed if it was ours. */
static void obstacles_in_cache_folder_are_not_written(void **state)
{
    (void)state;
    char aside[260], victim[100];
    struct stat st;
    save(KEY, now_s, "old\n");
    (void)snprintf(victim, sizeof victim, "%s/victim", home);
    (void)snprintf(aside, sizeof aside, "%s.%ld", file, (long)getpid());
    assert_int_equal(symlink(victim, aside), 0);
    save(KEY, now_s, "new\n");
    assert_int_equal(access(victim, F_OK), -1);
    assert_string_equal(found(KEY, now_s), "old ");
    save(KEY, now_s, "new\n"); /* the next time there is space again */
    assert_string_equal(found(KEY, now_s), "new ");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink(victim, file), 0);
    save(KEY, now_s, "newer\n"); /* the name is replaced, its link target is not */
    assert_int_equal(lstat(file, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(access(victim, F_OK), -1);
    assert_int_equal(chmod(file, 0666), 0); /* any user may have written it */
    assert_null(found(KEY, now_s));
}

static void file_is_rejected_if_a_name_is_unsafe_in_shell(void **state)
{
    (void)state;
    static const char *const bad[] = {"$x", "-x", "a b", "a;b", "~", "", "a\x1b", "a'", "ü", "=x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char lines[40];
        (void)snprintf(lines, sizeof lines, "good\n%s\n", bad[i]);
        assert_false(name_is_offered(tidings_str(bad[i])));
        save(KEY, now_s, lines);
        assert_null(found(KEY, now_s)); /* none of it, not even the valid name */
    }
    static char longest[NAME_MAX_BYTES + 2];
    memset(longest, 'n', NAME_MAX_BYTES);
    assert_true(name_is_offered(tidings_str(longest)));
    longest[NAME_MAX_BYTES] = 'n';
    assert_false(name_is_offered(tidings_str(longest)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(saved_names_are_found_for_a_minute_by_key),
        TEST(file_size_is_limited),
        TEST(file_count_is_limited_and_oldest_are_evicted),
        TEST(file_is_replaced_atomically),
        TEST(obstacles_in_cache_folder_are_not_written),
        TEST(file_is_rejected_if_a_name_is_unsafe_in_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
