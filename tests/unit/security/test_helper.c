/* SPDX-License-Identifier: MIT
 *
 * The helper opens and runs only what its plan contains. A process has at most one helper, so each
 * case runs in a child process. */
#include "security/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/process.h"
#include "support/remove_tree.h"

static struct {
    char dir[64], file[96], root[96];
} f;

static void put(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", f.dir, name);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static int set_up(void **state)
{
    (void)state;
    snprintf(f.dir, sizeof f.dir, "/tmp/test_helper.XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    snprintf(f.file, sizeof f.file, "%s/tokens", f.dir);
    snprintf(f.root, sizeof f.root, "%s/root", f.dir);
    assert_int_equal(mkdir(f.root, 0700), 0);
    put("tokens", "first");
    put("other", "other");
    put("root/a", "in the root");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(f.dir);
    return 0;
}

static bool start(void)
{
    static char sh[] = "sh", c[] = "-c", path[] = "PATH=/usr/bin:/bin";
    static char hello[] = "echo out; echo err >&2; exit 3";
    static char sleepy[] = "echo $$; sleep 1000 & wait";
    static char *const first[] = {sh, c, hello, NULL}, *const second[] = {sh, c, sleepy, NULL};
    static char *const env[] = {path, NULL};
    const char *files[] = {f.file};
    const struct helper_root roots[] = {{f.root, geteuid()}};
    const struct helper_command commands[] = {
        {.name = "hello", .argv = first, .env = env, .path = "/usr/bin:/bin"},
        {.name = "sleep", .argv = second, .env = env, .path = "/usr/bin:/bin"},
        {.name = "sleep too", .argv = second, .env = env, .path = "/usr/bin:/bin"},
    };
    static char log_file[96];
    snprintf(log_file, sizeof log_file, "%s/log", f.dir);
    const struct helper_plan plan = {.files = files,
                                     .file_count = 1,
                                     .log_file = log_file,
                                     .roots = roots,
                                     .root_count = 1,
                                     .commands = commands,
                                     .command_count = 3};
    return helper_start(&plan, NULL) == 0;
}

/* The line number of the first failed check. */
#define EXPECT(condition)                                                                          \
    if (!(condition)) {                                                                            \
        return __LINE__ % 255 + 1;                                                                 \
    }

static void in_child(int (*fn)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        _exit(fn());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool holds(int fd, const char *text)
{
    char room[64] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, room, sizeof room - 1);
    if (fd >= 0) {
        close(fd);
    }
    return n == (ssize_t)strlen(text) && memcmp(room, text, (size_t)n) == 0;
}

static int opens_files(void)
{
    char other[96], fresh[96];
    snprintf(other, sizeof other, "%s/other", f.dir);
    snprintf(fresh, sizeof fresh, "%s/fresh", f.dir);
    EXPECT(!helper_is_there() && start() && helper_is_there());
    EXPECT(helper_start(&(struct helper_plan){0}, NULL) == TIDINGS_E_EXISTS);
    EXPECT(holds(helper_open(f.file), "first"));
    EXPECT(helper_open(other) == -EPERM);
    EXPECT(helper_open("/etc/passwd") == -EPERM);
    put("fresh", "second"); /* as editors and certbot do */
    EXPECT(rename(fresh, f.file) == 0);
    EXPECT(holds(helper_open(f.file), "second"));
    EXPECT(unlink(f.file) == 0 && helper_open(f.file) == -ENOENT);
    return 0;
}

static void only_files_of_the_plan_are_opened(void **state)
{
    (void)state;
    in_child(opens_files);
}

static int opens_log(void)
{
    char path[96];
    EXPECT(start());
    snprintf(path, sizeof path, "%s/log", f.dir);
    for (int round = 0; round < 2; round++) { /* the first call creates it */
        int fd = helper_open_log(path);
        EXPECT(fd >= 0 && (fcntl(fd, F_GETFL) & (O_APPEND | O_ACCMODE)) == (O_APPEND | O_WRONLY));
        EXPECT(write(fd, "line", 4) == 4);
        close(fd);
    }
    EXPECT(holds(open(path, O_RDONLY | O_CLOEXEC), "lineline"));
    EXPECT(helper_open(path) == -EPERM);       /* not readable */
    EXPECT(helper_open_log(f.file) == -EPERM); /* nor may another file be written */
    return 0;
}

static void log_of_the_plan_is_opened_for_appending_and_no_other_file(void **state)
{
    (void)state;
    in_child(opens_log);
}

/* The directory that has the name now. */
static int open_below(const char *root, const char *path, int flags)
{
    int fd = open(root, O_PATH | O_CLOEXEC);
    int rc = helper_open_below(root, fd, path, flags, 0);
    close(fd);
    return rc;
}

static int opens_below(void)
{
    char away[128], link[128];
    snprintf(away, sizeof away, "%s/away", f.dir);
    snprintf(link, sizeof link, "%s/link", f.root);
    EXPECT(start());
    EXPECT(holds(open_below(f.root, "a", O_RDONLY), "in the root"));
    EXPECT(open_below(f.dir, "other", O_RDONLY) == -EPERM);
    EXPECT(open_below("/", "etc/passwd", O_RDONLY) == -EPERM);
    EXPECT(open_below(f.root, "../other", O_RDONLY) == -EXDEV);
    EXPECT(open_below(f.root, "/etc/passwd", O_RDONLY) == -EXDEV);
    EXPECT(symlink("../other", link) == 0);
    EXPECT(open_below(f.root, "link", O_RDONLY) == -EXDEV);
    EXPECT(open_below(f.root, "a", O_WRONLY) == -EPERM);
    EXPECT(open_below(f.root, "b", O_RDWR | O_CREAT) == -EPERM);
    EXPECT(open_below(f.root, "b", O_RDONLY) == -ENOENT);
    /* Removed and created again: the original directory is gone. */
    EXPECT(rename(f.root, away) == 0 && mkdir(f.root, 0700) == 0);
    put("root/a", "made again");
    EXPECT(holds(open_below(f.root, "a", O_RDONLY), "made again"));
    int fd = open_below(f.root, "", O_RDONLY | O_DIRECTORY);
    EXPECT(fd >= 0);
    /* Not the intended directory, but another user's. */
    EXPECT(helper_open_below(f.root, open(away, O_PATH), "a", O_RDONLY, 0) == -ESTALE);
    EXPECT(geteuid() != 0 ||
           (chown(f.root, 65534, 65534) == 0 && open_below(f.root, "a", O_RDONLY) == -ESTALE));
    return 0;
}

static void only_files_below_a_root_are_opened(void **state)
{
    (void)state;
    in_child(opens_below);
}

static bool await(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 30000) == 1;
}

static int runs(void)
{
    struct spawn s;
    struct tidings_error err = {0, ""};
    enum spawn_ending how;
    int value;
    char text[16];
    EXPECT(start());
    EXPECT(helper_run("hello", &s, &err) == 0 && s.pid > 0);
    EXPECT(await(s.pidfd) && spawn_reap(&s, &how, &value));
    EXPECT(how == SPAWN_EXITED && value == 3);
    EXPECT(read(s.out, text, sizeof text) == 4 && memcmp(text, "out\n", 4) == 0);
    EXPECT(read(s.err, text, sizeof text) == 4 && memcmp(text, "err\n", 4) == 0);
    spawn_deinit(&s);
    EXPECT(helper_run("/bin/true", &s, &err) == TIDINGS_E_DENIED);
    EXPECT(strstr(err.text, "was not configured"));
    return 0;
}

static void only_commands_of_the_plan_are_run(void **state)
{
    (void)state;
    in_child(runs);
}

static int kills(void)
{
    struct spawn s[2];
    enum spawn_ending how;
    int value;
    char text[16] = "";
    EXPECT(start());
    for (size_t i = 0; i < 2; i++) {
        EXPECT(helper_run(i == 0 ? "sleep" : "sleep too", &s[i], NULL) == 0);
        EXPECT(await(s[i].out) && read(s[i].out, text, sizeof text - 1) > 0);
    }
    spawn_terminate(&s[0]);
    EXPECT(await(s[0].pidfd) && spawn_reap(&s[0], &how, &value));
    EXPECT(how == SPAWN_KILLED && value == SIGTERM);
    /* Its background processes end with it: no process holds the pipe. */
    EXPECT(await(s[0].out) && read(s[0].out, text, sizeof text) == 0);
    spawn_deinit(&s[0]);
    pid_t pid = s[1].pid;
    EXPECT(kill(pid, 0) == 0);
    spawn_deinit(&s[1]); /* kills it, and waits for its end */
    EXPECT(kill(pid, 0) < 0 && errno == ESRCH);
    return 0;
}

static void command_is_killed_with_its_descendants(void **state)
{
    (void)state;
    in_child(kills);
}

#define MANY 300u

static bool start_many(void)
{
    static char sleep[] = "sleep", long_time[] = "1000";
    static char *const argv[] = {sleep, long_time, NULL}, *const env[] = {NULL};
    static char names[MANY][8];
    struct helper_command commands[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "c%u", i);
        commands[i] = (struct helper_command){
            .name = names[i], .argv = argv, .env = env, .path = "/usr/bin:/bin"};
    }
    const struct helper_plan plan = {.commands = commands, .command_count = MANY};
    return helper_start(&plan, NULL) == 0;
}

/* However many commands run, each can start, even if the descriptor limit is low at first. */
static int runs_all(void)
{
    static struct spawn s[MANY];
    struct tidings_error err = {0, ""};
    struct rlimit files, few;
    char name[8];
    EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= 4 * MANY);
    few = (struct rlimit){.rlim_cur = MANY, .rlim_max = files.rlim_max};
    files.rlim_cur = files.rlim_max;
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0 && start_many());
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "c%u", i);
            EXPECT(helper_run(name, &s[i], &err) == 0);
        }
        EXPECT(helper_run("c7", &(struct spawn){0}, &err) == TIDINGS_E_LIMIT);
        EXPECT(strstr(err.text, "'c7' runs already"));
        for (unsigned i = 0; i < MANY; i++) {
            spawn_deinit(&s[i]);
        }
    }
    return 0;
}

static void every_command_can_run_once(void **state)
{
    (void)state;
    in_child(runs_all);
}

/* The process that started it. */
static pid_t parent_of(pid_t pid)
{
    char path[32];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file) {
        (void)!fscanf(file, "%*d %*s %*c %d", &parent);
        fclose(file);
    }
    return parent;
}

/* The helper has unread signals when it reports how a command ended and closes the socket. The
 * kernel then delivers a reset before the report. */
static int tells_how_it_ended(void)
{
    struct spawn s;
    enum spawn_ending how;
    int value, status;
    char text[16];
    EXPECT(start());
    EXPECT(helper_run("sleep", &s, NULL) == 0);
    EXPECT(await(s.out) && read(s.out, text, sizeof text) > 0);
    pid_t helper = parent_of(s.pid);
    EXPECT(helper > 0 && kill(helper, SIGSTOP) == 0);
    EXPECT(waitpid(helper, &status, WUNTRACED) == helper && WIFSTOPPED(status));
    int end = (int)syscall(SYS_pidfd_open, s.pid, 0);
    EXPECT(end >= 0 && kill(s.pid, SIGTERM) == 0 && await(end));
    close(end);
    spawn_kill(&s);
    spawn_kill(&s);
    EXPECT(kill(helper, SIGCONT) == 0);
    struct pollfd hangup = {.fd = s.pidfd};
    EXPECT(poll(&hangup, 1, 30000) == 1 && (hangup.revents & POLLHUP));
    EXPECT(spawn_reap(&s, &how, &value));
    EXPECT(how == SPAWN_KILLED && value == SIGTERM);
    spawn_deinit(&s);
    return 0;
}

static void exit_status_is_reported_despite_unread_signals(void **state)
{
    (void)state;
    in_child(tells_how_it_ended);
}

static int pipe_of_life[2];

static int ends(void)
{
    struct spawn s;
    char text[16] = "";
    EXPECT(start());
    EXPECT(helper_run("sleep", &s, NULL) == 0);
    EXPECT(await(s.out) && read(s.out, text, sizeof text - 1) > 0);
    EXPECT(write(pipe_of_life[1], &s.pid, sizeof s.pid) == sizeof s.pid);
    return 0; /* and exits without notifying any process */
}

static void commands_end_with_their_process(void **state)
{
    (void)state;
    pid_t pid = 0;
    char rest;
    assert_int_equal(pipe(pipe_of_life), 0);
    in_child(ends);
    close(pipe_of_life[1]);
    assert_int_equal(read(pipe_of_life[0], &pid, sizeof pid), sizeof pid);
    /* The helper has closed all descriptors of its process, and exits after the command. */
    assert_int_equal(read(pipe_of_life[0], &rest, 1), 0);
    close(pipe_of_life[0]);
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(process < 0 || await(process)); /* it may have exited so far that it has no name */
}

/* Malformed requests get no answer and do no harm. */
static int confuses(void)
{
    struct helper_request q = {.kind = (enum helper_kind)77};
    memset(q.name, 'x', sizeof q.name);
    memset(q.path, 'x', sizeof q.path);
    EXPECT(close_range(3, ~0u, 0) == 0 && start());
    int socket = fcntl(3, F_GETFD) >= 0 ? 3 : 4; /* one of the two was closed again */
    for (size_t size = 1; size <= sizeof q; size += 97) {
        EXPECT(helper_send(socket, &q, size, NULL, 0) > 0);
    }
    EXPECT(holds(helper_open(f.file), "first"));
    return 0;
}

static void malformed_requests_are_ignored(void **state)
{
    (void)state;
    in_child(confuses);
}

static int lends(void)
{
    struct confined_file copy;
    EXPECT(confined_file_open(&copy, f.file) == 0 && strcmp(copy.path, f.file) == 0);
    confined_file_close(&copy);
    EXPECT(start());
    EXPECT(confined_file_open(&copy, f.file) == 0 && strncmp(copy.path, "/proc/", 6) == 0);
    EXPECT(holds(open(copy.path, O_RDONLY), "first"));
    EXPECT(holds(open(copy.path, O_RDONLY), "first"));
    confined_file_close(&copy);
    EXPECT(confined_file_open(&copy, "/nowhere") == -ENOENT);
    return 0;
}

static void libraries_get_a_copy(void **state)
{
    (void)state;
    in_child(lends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_files_of_the_plan_are_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(log_of_the_plan_is_opened_for_appending_and_no_other_file,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_files_below_a_root_are_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_commands_of_the_plan_are_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(command_is_killed_with_its_descendants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_command_can_run_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exit_status_is_reported_despite_unread_signals, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(commands_end_with_their_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_requests_are_ignored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(libraries_get_a_copy, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
