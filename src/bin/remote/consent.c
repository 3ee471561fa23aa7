/* SPDX-License-Identifier: MIT
 *
 * Asks on the terminal whether a server that a project's file names may be used.
 */
#include "bin/remote/consent.h"

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "bin/cli/output.h"
#include "bin/remote/trust.h"

#define SHOWN_MAX 4000u /* bytes of an entry that are shown */

/* What of the person's it would be sent, or NULL. */
static const char *sent(const struct cli *cli)
{
    const char *variable = getenv("TIDINGS_TOKEN");
    return cli->token               ? "the token of --token"
           : cli->token_file        ? "the token of --token-file"
           : variable && *variable  ? "the token in TIDINGS_TOKEN"
           : cli->headers.count > 0 ? "what --header says"
                                    : NULL;
}

/* Why somebody has to agree, for a sentence; NULL: nobody has to. */
static const char *reason(const struct cli *cli, const struct target *target, char out[160])
{
    const char *gets = sent(cli);
    if (!target->url) {
        return "launches a program";
    }
    if (target->variables.count > 0) {
        snprintf(out, 160, "gets the variable '%.80s'", target->variables.items[0]);
        return out;
    }
    if (gets) {
        snprintf(out, 160, "would be sent %s", gets);
        return out;
    }
    return cli->is_careful ? "was never agreed to" : NULL;
}

static void consent_show(const struct cli *cli, const char *path, const char *name,
                         const struct target *target)
{
    size_t len = strlen(target->entry);
    fprintf(stderr, "tidings %s: '", cli->command->name);
    put_text(stderr, tidings_str(name));
    fputs("' of ", stderr);
    put_text(stderr, tidings_str(path));
    fputs(" is used for the first time. It says:\n  ", stderr);
    put_text(stderr, tidings_strn(target->entry, len < SHOWN_MAX ? len : SHOWN_MAX));
    if (len > SHOWN_MAX) {
        fprintf(stderr, " … and %zu bytes more: look at the file", len - SHOWN_MAX);
    }
    fputs(target->url ? "\n" : "\nA program is launched.\n", stderr);
    for (size_t i = 0; i < target->variables.count; i++) {
        fputs(i > 0 ? ", " : "It gets what is in ", stderr);
        put_text(stderr, tidings_str(target->variables.items[i]));
    }
    fputs(target->variables.count > 0 ? ".\n" : "", stderr);
    if (target->url && sent(cli)) {
        fprintf(stderr, "It is sent %s.\n", sent(cli));
    }
}

/* From the terminal, whatever standard input is. */
static bool consent_ask_on_terminal(void)
{
    char answer[16] = "";
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0) {
        tcflush(fd, TCIFLUSH); /* what was typed before is no answer to this */
    }
    fputs("Use it, now and as long as it says the same? [y/N] ", stderr);
    fflush(stderr);
    ssize_t n = fd >= 0 ? read(fd, answer, sizeof(answer) - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0 || answer[n - 1] != '\n') {
        fputc('\n', stderr);
        return false;
    }
    answer[n - 1] = '\0';
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

/* The digest of what this process may use: a command has one target, if several clients. */
static char agreed[TIDINGS_DIGEST_MAX];

int consent_check(const struct cli *cli, const char *path, const char *name,
                  const struct target *target, struct tidings_error *err)
{
    char text[160], digest[TIDINGS_DIGEST_MAX];
    const char *why = reason(cli, target, text);
    if (!why) {
        return 0;
    }
    tidings_digest(tidings_str(target->entry), digest);
    if (strcmp(digest, agreed) == 0) {
        return 0;
    }
    const struct trusted entry = {
        .file = tidings_str(path), .name = tidings_str(name), .digest = tidings_str(digest)};
    struct tidings_error problem = {0};
    int known = trust_find(&entry, &problem);
    if (known > 0) {
        memcpy(agreed, digest, sizeof(agreed));
        return 0;
    }
    if (known < 0) {
        return tidings_fail(err, TIDINGS_E_DENIED, "what was agreed to is not known: %s",
                            problem.text);
    }
    if (cli->json || cli->is_careful || !is_terminal(stderr)) {
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "'%.40s' of %.70s %.80s; if you trust it: 'tidings servers --trust NAME'", name, path,
            why);
    }
    consent_show(cli, path, name, target);
    if (!consent_ask_on_terminal()) {
        return tidings_fail(err, TIDINGS_E_DENIED, "'%.60s' of %.120s is not used", name, path);
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (trust_add(&entry, ms, &problem) < 0) {
        fprintf(stderr, "tidings %s: used now, but not remembered: %s\n", cli->command->name,
                problem.text);
    }
    memcpy(agreed, digest, sizeof(agreed));
    return 0;
}
