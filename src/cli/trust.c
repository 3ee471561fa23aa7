/* SPDX-License-Identifier: MIT
 *
 * The file of servers that a user agreed to use. Adding an entry is one write at the end of the
 * file, so that concurrent commands do not lose entries; forgetting rewrites the file beside the
 * old one and renames it.
 */
#include "cli/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/paths.h"

/* ---------------------------------------------------------------------------------------------- */

/* ---- path ------------------------------------------------------------------------------------ */

static int trust_file_path(char path[PATH_MAX], const char *name, struct tidings_error *err)
{
    return user_file_path(path, "XDG_STATE_HOME", "/.local/state", name, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

void trust_parse(struct tidings_str text, trust_fn fn, void *user)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct tidings_str line = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        size_t used = line.len + (end ? 1 : 0);
        text = tidings_strn(text.ptr + used, text.len - used);
        char *file = tidings_json_string(line, "/file"), *name = tidings_json_string(line, "/name");
        char *digest = tidings_json_string(line, "/digest");
        char *since = tidings_json_string(line, "/since");
        if (file && name && digest && strlen(digest) == TIDINGS_DIGEST_MAX - 1) {
            const struct trusted entry = {tidings_str(file), tidings_str(name), tidings_str(digest),
                                          tidings_str(since)};
            fn(user, &entry);
        }
        tidings_free(file);
        tidings_free(name);
        tidings_free(digest);
        tidings_free(since);
    }
}

int trust_each(trust_fn fn, void *user, struct tidings_error *err)
{
    char path[PATH_MAX];
    size_t len = 0;
    struct tidings_error why = {0};
    int rc = trust_file_path(path, "trusted", err);
    if (rc < 0) {
        return rc;
    }
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, TRUST_FILE_MAX, &len, &why);
    if (!text) {
        *err = why.code == TIDINGS_E_NOTFOUND ? *err : why;
        return why.code == TIDINGS_E_NOTFOUND ? 0 : why.code;
    }
    trust_parse(tidings_strn(text, len), fn, user);
    tidings_free(text);
    return 0;
}

struct seeking {
    const struct trusted *entry;
    bool is_there;
};

static bool trust_is_same(const struct trusted *a, const struct trusted *b)
{
    return tidings_str_eq(a->file, b->file) && tidings_str_eq(a->name, b->name) &&
           tidings_str_eq(a->digest, b->digest);
}

static void trust_match(void *user, const struct trusted *entry)
{
    struct seeking *s = user;
    s->is_there = s->is_there || trust_is_same(s->entry, entry);
}

int trust_find(const struct trusted *entry, struct tidings_error *err)
{
    struct seeking s = {.entry = entry};
    struct tidings_error why = {0};
    int rc = trust_each(trust_match, &s, &why);
    if (rc == TIDINGS_E_NOTFOUND) { /* no state directory: never approved */
        return 0;
    }
    if (rc < 0) {
        *err = why;
    }
    return rc < 0 ? rc : s.is_there;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void trust_put_line(FILE *out, const struct trusted *entry)
{
    const struct {
        const char *key;
        struct tidings_str text;
    } members[] = {{"{\"file\":", entry->file},
                   {",\"name\":", entry->name},
                   {",\"digest\":", entry->digest},
                   {",\"since\":", entry->since}};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        fputs(members[i].key, out);
        put_quoted(out, members[i].text);
    }
    fputs("}\n", out);
}

static int trust_write_all(const char *path, int flags, const char *text, struct tidings_error *err)
{
    size_t len = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    bool is_done = fd >= 0 && write(fd, text, len) == (ssize_t)len;
    int errnum = errno;
    if (fd >= 0 && close(fd) < 0 && is_done) {
        errnum = errno;
        is_done = false;
    }
    return is_done ? 0
                   : tidings_fail(err, TIDINGS_E_IO, "%.160s: %s", path,
                                  fd < 0 ? strerror(errnum) : "it could not be written");
}

/* Every line except those of a name, or except the oldest ones. */
struct rewriting {
    struct json_text text;
    struct tidings_str name;
    size_t skip;
    trust_fn fn;
    void *user;
    size_t count, dropped;
};

static void rewrite(void *user, const struct trusted *entry)
{
    struct rewriting *r = user;
    bool is_named = r->name.ptr && tidings_str_eq(entry->name, r->name);
    if (r->count++ >= r->skip && !is_named) {
        trust_put_line(r->text.out, entry);
        return;
    }
    r->dropped++;
    if (r->fn) {
        r->fn(r->user, entry);
    }
}

static int rewrite_file(struct rewriting *r, struct tidings_error *err)
{
    char path[PATH_MAX], aside[PATH_MAX];
    if (!json_text_begin(&r->text)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = trust_each(rewrite, r, err);
    char *text = json_text_take(&r->text);
    if (rc == 0 && !text) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0 && r->dropped > 0) {
        rc = trust_file_path(path, "trusted", err);
        rc = rc < 0 ? rc : trust_file_path(aside, "trusted.new", err);
        rc = rc < 0 ? rc : trust_write_all(aside, O_TRUNC, text, err);
        if (rc == 0 && rename(aside, path) < 0) {
            rc = tidings_fail(err, TIDINGS_E_IO, "%.160s: %s", path, strerror(errno));
        }
    }
    free(text);
    return rc;
}

int trust_forget(struct tidings_str name, trust_fn fn, void *user, struct tidings_error *err)
{
    struct rewriting r = {.name = name, .fn = fn, .user = user};
    int rc = rewrite_file(&r, err);
    return rc < 0 ? rc : (int)r.dropped;
}

static void trust_count_one(void *user, const struct trusted *entry)
{
    (void)entry;
    (*(size_t *)user)++;
}

/* Room for one more. */
static int trust_make_room(struct tidings_error *err)
{
    size_t lines = 0;
    int rc = trust_each(trust_count_one, &lines, err);
    struct rewriting r = {.skip = lines + 1 > TRUST_MAX ? lines + 1 - TRUST_MAX : 0};
    return rc < 0 || r.skip == 0 ? rc : rewrite_file(&r, err);
}

int trust_add(const struct trusted *entry, int64_t now_ms, struct tidings_error *err)
{
    char path[PATH_MAX];
    struct json_text line, since;
    if (entry->name.len > TRUST_NAME_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a name has at most %u bytes", TRUST_NAME_MAX);
    }
    int rc = trust_file_path(path, "trusted", err);
    rc = rc < 0 ? rc : user_file_make_directories(path, err);
    rc = rc < 0 ? rc : trust_make_room(err);
    if (rc < 0) {
        return rc;
    }
    char *text = NULL, *time = NULL;
    if (json_text_begin(&since)) {
        put_time(since.out, now_ms);
        time = json_text_take(&since);
    }
    if (time && json_text_begin(&line)) {
        struct trusted whole = *entry;
        whole.since = tidings_str(time);
        trust_put_line(line.out, &whole);
        text = json_text_take(&line);
    }
    rc = text ? trust_write_all(path, O_APPEND, text, err)
              : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    free(text);
    free(time);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Asks on the terminal whether a server of a project's file may be used.
 */

#define SHOWN_MAX 4000u /* bytes of an entry that are shown */

/* The user's data that it would be sent, or NULL. */
static const char *sent(const struct cli *cli)
{
    const char *variable = getenv("TIDINGS_TOKEN");
    return cli->token               ? "the token of --token"
           : cli->token_file        ? "the token of --token-file"
           : variable && *variable  ? "the token in TIDINGS_TOKEN"
           : cli->headers.count > 0 ? "what --header says"
                                    : NULL;
}

/* Why consent is needed, for an error message; NULL: it is not needed. */
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
        tcflush(fd, TCIFLUSH); /* earlier input is not an answer to this question */
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

/* The digest of the approved entry: a command has one target, but may have several clients. */
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
        return tidings_fail(err, TIDINGS_E_DENIED, "cannot read your earlier consent: %s",
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
