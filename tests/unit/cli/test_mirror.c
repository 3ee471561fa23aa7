/* SPDX-License-Identifier: MIT
 *
 * A mirror killed at any moment: before each call that changes its directory, and in the middle of
 * each line it writes. The next pass completes it without an error, and keeps files edited after
 * the kill. Also updates of a resource whose name is in use.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/folder.h"
#include "cli/mirror.h"
#include "cli/output.h"
#include "cli/range.h"
#include "support/fake_transport.h"
#include "support/remove_tree.h"

/* ---- death ----------------------------------------------------------------------------------- */

static long calls_left; /* 0: never */

static bool is_last_call(void)
{
    return calls_left > 0 && --calls_left == 0;
}

static void die_at_last(void)
{
    if (is_last_call()) {
        raise(SIGKILL);
    }
}

/* These replace the functions of the C library. */
int renameat2(int from, const char *old, int to, const char *name, unsigned flags)
{
    die_at_last();
    return (int)syscall(SYS_renameat2, from, old, to, name, flags);
}

int renameat(int from, const char *old, int to, const char *name)
{
    return renameat2(from, old, to, name, 0);
}

int mkdirat(int at, const char *name, mode_t mode)
{
    die_at_last();
    return (int)syscall(SYS_mkdirat, at, name, mode);
}

int unlinkat(int at, const char *name, int flags)
{
    die_at_last();
    return (int)syscall(SYS_unlinkat, at, name, flags);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    if (is_last_call()) {
        syscall(SYS_write, fd, bytes, len / 2);
        raise(SIGKILL);
    }
    return syscall(SYS_write, fd, bytes, len);
}

/* ---- a world to mirror ----------------------------------------------------------------------- */

struct thing {
    const char *name; /* a directory ends with a slash */
    const char *text;
};

static const struct thing first[] = {
    {"a", "1"},  {"d/", NULL},  {"d/x", "x1"},    {"d/y", "y1"}, {"e/", NULL},
    {"e/z", ""}, {"k", "file"}, {"same", "same"}, {NULL, NULL},
};
static const struct thing second[] = {
    {"a", "2"},     {"d/", NULL},   {"d/x", "x2"},    {"k/", NULL}, {"k/in", "in"},
    {"new/", NULL}, {"new/n", "n"}, {"same", "same"}, {NULL, NULL},
};
static const struct thing third[] = {
    {"a", "3"},     {"d/", NULL},    {"d/x", "x2"},    {"d/y", "y3"}, {"k", "file again"},
    {"new/", NULL}, {"new/n", "n3"}, {"same", "same"}, {NULL, NULL},
};

static void serve(struct fake *f, const char *method, int64_t id, struct json *m)
{
    const struct thing *t = f->user;
    struct tidings_str uri = jv_str(jv_get(jv_get(m, "params"), "uri"));
    if (fake_modern(f, method, id)) {
        return;
    }
    while (t->name && (uri.len < 3 || strcmp(t->name, uri.ptr + 3) != 0)) {
        t++;
    }
    assert_non_null(t->text);
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":{\"contents\":[{\"uri\":\"%s\","
              "\"text\":\"%s\"}]}}",
              id, uri.ptr, t->text);
}

struct told {
    unsigned bad;
    char last[256];
};

static void on_deed(void *user, enum mirror_result deed, struct tidings_str uri, const char *reason)
{
    struct told *told = user;
    if (deed >= MIRROR_KEPT) {
        told->bad++;
        snprintf(told->last, sizeof(told->last), "%.*s: %s", (int)uri.len, uri.ptr, reason);
    }
}

struct fixture {
    struct mirror m;
    struct fake f;
};

static void enter(struct fixture *p, const char *dir, const struct thing *world, struct told *told)
{
    struct tidings_error err = {0};
    p->m = (struct mirror){.max_message = 1 << 20, .report = on_deed, .user = told};
    p->m.client = fake_client(&p->f, serve, (void *)(uintptr_t)world, NULL);
    assert_int_equal(folder_open(dir, &p->m.root), 0);
    assert_int_equal(mirror_state_open(&p->m.state, p->m.root, "w:/", &err), 0);
}

static void leave(struct fixture *p)
{
    mirror_state_close(&p->m.state);
    close(p->m.root);
    tidings_client_destroy(p->m.client);
}

static void take(struct fixture *p, const char *name, bool is_directory)
{
    struct tidings_error err = {0};
    char uri[64];
    snprintf(uri, sizeof(uri), "w:/%s", name);
    struct mirror_item item = {tidings_str(uri), "", -1, is_directory};
    assert_int_equal(mirror_take(&p->m, &item, &err), 0);
}

static void take_all(struct fixture *p, const struct thing *world)
{
    struct tidings_error err = {0};
    mirror_begin(&p->m);
    for (; world->name; world++) {
        take(p, world->name, !world->text);
    }
    mirror_end(&p->m);
    assert_int_equal(mirror_state_compact(&p->m.state, &err), 0);
}

static void go_over(const char *dir, const struct thing *world, struct told *told)
{
    struct fixture p;
    enter(&p, dir, world, told);
    take_all(&p, world);
    leave(&p);
}

/* ---- what is there --------------------------------------------------------------------------- */

static unsigned found;

static int count_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)path;
    (void)st;
    (void)kind;
    found += ftw->level > 0 ? 1 : 0;
    return 0;
}

static void at(const char *dir, const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", dir, name);
}

static void check_text(const char *dir, const char *name, const char *expected)
{
    char path[256], text[64] = "";
    at(dir, name, path);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    size_t len = fread(text, 1, sizeof(text) - 1, in);
    text[len] = '\0';
    fclose(in);
    assert_string_equal(text, expected);
}

/* Exactly that, and the state. */
static void check_world(const char *dir, const struct thing *world)
{
    unsigned count = 1;
    for (; world->name; world++, count++) {
        struct stat st;
        char path[256];
        at(dir, world->name, path);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(S_ISDIR(st.st_mode), !world->text);
        if (world->text) {
            check_text(dir, world->name, world->text);
        }
    }
    found = 0;
    nftw(dir, count_one, 8, FTW_PHYS);
    assert_int_equal(found, count);
}

/* The second world, until the call with that number. True: it completed. */
static bool live_for(long calls, const char *dir)
{
    struct told told = {0};
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        calls_left = calls;
        go_over(dir, second, &told);
        _exit(told.bad == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

static void killed_at(long calls, bool edits, bool *ret_lived)
{
    char dir[] = "/tmp/tidings-mirror-XXXXXX", path[256];
    struct told told = {0};
    assert_non_null(mkdtemp(dir));
    go_over(dir, first, &told);
    check_world(dir, first);
    *ret_lived = live_for(calls, dir);
    if (edits) {
        at(dir, "a", path);
        FILE *out = fopen(path, "we");
        assert_non_null(out);
        fputs("edited here", out);
        fclose(out);
    }
    go_over(dir, third, &told);
    if (told.bad != (edits ? 1u : 0u)) {
        fail_msg("killed at call %ld: %u were not done, the last %s", calls, told.bad, told.last);
    }
    if (edits) {
        check_text(dir, "a", "edited here");
        assert_string_equal(told.last, "w:/a: it was changed here");
    } else {
        check_world(dir, third);
    }
    assert_int_equal(remove_tree(dir), 0);
}

static void mirror_resumes_after_kill_at_any_step(void **state)
{
    (void)state;
    bool lived = false;
    long calls = 0;
    while (!lived) {
        killed_at(++calls, false, &lived);
    }
    assert_true(calls > 20);
}

static void mirror_keeps_edits_made_after_kill(void **state)
{
    (void)state;
    bool lived = false;
    for (long calls = 1; !lived; calls++) {
        killed_at(calls, true, &lived);
    }
}

/* ---- what is told between two looks at everything -------------------------------------------- */

static void conflicting_changes_wait_for_full_pass(void **state)
{
    (void)state;
    char dir[] = "/tmp/tidings-mirror-XXXXXX";
    struct told told = {0};
    struct fixture p;
    assert_non_null(mkdtemp(dir));
    enter(&p, dir, first, &told);
    take_all(&p, first);
    assert_false(p.m.needs_pass);
    take(&p, "d", false); /* as a file, although it is a directory */
    assert_true(p.m.needs_pass);
    p.m.needs_pass = false;
    take(&p, "k/in", false); /* below what is a file */
    assert_true(p.m.needs_pass);
    p.m.needs_pass = false;
    mirror_remove(&p.m, TIDINGS_STR("w:/d")); /* a file that existed before the directory */
    assert_true(p.m.needs_pass);
    check_world(dir, first);
    assert_int_equal(told.bad, 0);
    p.m.needs_pass = false;
    mirror_remove(&p.m, TIDINGS_STR("w:/a"));
    mirror_remove(&p.m, TIDINGS_STR("w:/d/"));
    mirror_remove(&p.m, TIDINGS_STR("w:/e/"));
    assert_false(p.m.needs_pass);
    static const struct thing rest[] = {{"k", "file"}, {"same", "same"}, {NULL, NULL}};
    check_world(dir, rest);
    leave(&p);
    assert_int_equal(remove_tree(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mirror_resumes_after_kill_at_any_step),
        cmocka_unit_test(mirror_keeps_edits_made_after_kill),
        cmocka_unit_test(conflicting_changes_wait_for_full_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
