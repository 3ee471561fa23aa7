/* SPDX-License-Identifier: MIT
 *
 * Prints the address of a login and starts a browser.
 */
#include "bin/remote/browser.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program with one argument, which no shell sees; what it says is of no interest. */
static void browser_launch(const char *program, const char *url)
{
    pid_t pid = fork();
    if (pid == 0) {
        pid_t child = fork(); /* nobody waits for a browser */
        if (child == 0) {
            const char *const argv[] = {program, url, NULL};
            (void)setsid(); /* Ctrl-C is for us */
            (void)signal(SIGPIPE, SIG_DFL);
            (void)unsetenv("TIDINGS_TOKEN"); /* secrets of ours, which it would have for its life */
            (void)unsetenv("TIDINGS_CLIENT_SECRET");
            if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
                _exit(127);
            }
            execvp(program, (char *const *)(uintptr_t)argv);
            _exit(127);
        }
        _exit(0);
    }
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
}

void browser_show(const char *command, const char *url, bool opens)
{
    const char *own = getenv("BROWSER");
    bool has_screen = getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
    fprintf(stderr, "tidings %s: agree at this address (Ctrl-C gives up):\n\n%s\n\n", command, url);
    if (opens && own && *own) {
        browser_launch(own, url);
    } else if (opens && has_screen) {
        browser_launch("xdg-open", url);
    }
}
