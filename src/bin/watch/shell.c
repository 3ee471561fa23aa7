/* SPDX-License-Identifier: MIT
 *
 * Starts `sh -c` with what changed in its environment, and waits for its end.
 */
#include "bin/watch/shell.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bin/remote/remote.h"

#define GROUP_LOOK_MS 50 /* nothing tells when the last of a group ends */

extern char **environ;

/* Is it one of those that are given? */
static bool shell_is_ours(const char *variable, char *const *ours)
{
    size_t len = strcspn(variable, "=") + 1;
    for (; *ours; ours++) {
        if (strncmp(variable, *ours, len) == 0) {
            return true;
        }
    }
    return false;
}

char **shell_environment(char *const *ours)
{
    size_t count = 0, own = 0, n = 0;
    while (environ[count]) {
        count++;
    }
    while (ours[own]) {
        own++;
    }
    char **env = calloc(count + own + 1, sizeof(*env));
    for (size_t i = 0; env && i < count; i++) {
        if (!shell_is_ours(environ[i], ours)) {
            env[n++] = environ[i];
        }
    }
    for (size_t i = 0; env && i < own; i++) {
        env[n++] = ours[i];
    }
    return env;
}

int shell_input(struct tidings_str text)
{
    int fd = memfd_create("tidings-watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (fd >= 0 && done < text.len) {
        ssize_t n = write(fd, text.ptr + done, text.len - done);
        if (n <= 0 && errno != EINTR) {
            goto fail;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0 || (lseek(fd, 0, SEEK_SET) == 0 &&
                   fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0)) {
        return fd;
    }
fail:
    close(fd);
    return -1;
}

int shell_start(struct shell *s, const char *command, int input, char *const *env)
{
    char name[] = "sh", option[] = "-c";
    char *argv[] = {name, option, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum) {
        return errnum;
    }
    errnum = posix_spawnattr_init(&attributes);
    if (!errnum) {
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, flags);
        errnum = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (!errnum) {
            errnum = posix_spawn(&s->pid, "/bin/sh", &actions, &attributes, argv, env);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (errnum) {
        s->pid = 0;
        return errnum;
    }
    s->is_ending = false;
    s->has_ended = false;
    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    return 0;
}

void shell_end(struct shell *s)
{
    if (s->pid > 0 && !s->is_ending) {
        s->is_ending = true;
        s->kill_ms = now_ms() + SHELL_END_MS;
        kill(-s->pid, SIGTERM);
    }
}

/* Does the process run in that group? One that has ended, and was not collected yet by whoever has
 * to, does not. */
static bool is_in_group(const char *process, pid_t group)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* whatever the program calls itself */
    char state = 0;
    int parent = 0, its = 0;
    return name_end && sscanf(name_end + 1, " %c %d %d", &state, &parent, &its) == 3 &&
           its == group && state != 'Z' && state != 'X';
}

static bool group_is_alive(pid_t group)
{
    DIR *all = kill(-group, 0) == 0 ? opendir("/proc") : NULL;
    bool is_alive = false;
    for (struct dirent *d; all && !is_alive && (d = readdir(all)) != NULL;) {
        is_alive = isdigit((unsigned char)d->d_name[0]) && is_in_group(d->d_name, group);
    }
    if (all) {
        closedir(all);
    }
    return is_alive;
}

/* The command itself; others of its group may go on. */
static void shell_collect(struct shell *s)
{
    /* Without a descriptor, which only a lack of them explains, it is waited for. */
    pid_t pid = waitpid(s->pid, &s->status, s->pidfd >= 0 ? WNOHANG : 0);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        return;
    }
    s->status = pid < 0 ? 0 : s->status;
    s->has_ended = true;
    if (s->pidfd >= 0) {
        close(s->pidfd);
    }
    s->pidfd = -1;
}

bool shell_reap(struct shell *s)
{
    if (s->pid > 0 && !s->has_ended) {
        shell_collect(s);
    }
    bool is_late = s->pid > 0 && s->is_ending && now_ms() >= s->kill_ms;
    if (is_late) {
        kill(-s->pid, SIGKILL);
    }
    bool has_others = s->has_ended && s->is_ending && !is_late && group_is_alive(s->pid);
    if (s->pid == 0 || !s->has_ended || has_others) {
        return false;
    }
    s->pid = 0;
    return true;
}

int shell_wait(const struct shell *s, struct pollfd *fd)
{
    *fd = (struct pollfd){.fd = s->pid > 0 && !s->has_ended ? s->pidfd : -1, .events = POLLIN};
    if (s->pid == 0 || !s->is_ending) {
        return -1;
    }
    uint64_t now = now_ms();
    return s->has_ended || now >= s->kill_ms ? GROUP_LOOK_MS : (int)(s->kill_ms - now);
}

const char *shell_failure(const struct shell *s, char out[48])
{
    if (WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0) {
        return NULL;
    }
    bool is_killed = WIFSIGNALED(s->status);
    snprintf(out, 48, "%s %d", is_killed ? "was ended by signal" : "ended with status",
             is_killed ? WTERMSIG(s->status) : WEXITSTATUS(s->status));
    return out;
}
