/* SPDX-License-Identifier: MIT
 *
 * Asks the server of a line that is being typed for names, within a time that nobody notices.
 */
#include "bin/completion_names.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/json.h>

#include "bin/cli/options.h"
#include "bin/cli/output.h"
#include "bin/remote/names_cache.h"
#include "bin/remote/target.h"

#define TIME_MS 200u
#define TIME_MS_MAX 10000u
#define OFFERED_MAX 200u
#define MESSAGE_MIB 4u

/* ---- the end --------------------------------------------------------------------------------- */

/* What is printed: whole lines, fewer bytes than a pipe takes without waiting. */
static char offered[OFFERED_MAX * (NAME_MAX_BYTES + 1)];
static atomic_size_t offered_len;

/* Once, from the program or when its time is over. */
static void print_offered(void)
{
    size_t len = atomic_exchange(&offered_len, 0);
    ssize_t n = len > 0 ? write(STDOUT_FILENO, offered, len) : 0;
    (void)n;
}

static void on_time_over(int number)
{
    (void)number;
    print_offered();
    _exit(0);
}

/* TIDINGS_COMPLETE: how many ms it may take; 0: nothing is asked. */
static uint64_t time_limit(void)
{
    const char *text = getenv("TIDINGS_COMPLETE");
    char *end = NULL;
    if (text && strcmp(text, "off") == 0) {
        return 0;
    }
    unsigned long ms = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return end && *end == '\0' && ms > 0 && ms <= TIME_MS_MAX ? ms : TIME_MS;
}

static void end_after(uint64_t ms)
{
    struct sigaction act = {.sa_handler = on_time_over};
    const struct itimerval timer = {
        .it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)},
    };
    sigset_t alarm;
    sigemptyset(&act.sa_mask);
    sigaction(SIGALRM, &act, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL); /* whoever started us may have blocked it */
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* From now on nothing reaches whoever reads that stream. */
static bool discard_stream(int fd)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool is_done = null >= 0 && dup2(null, fd) >= 0;
    if (null >= 0) {
        close(null);
    }
    return is_done;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct offering {
    const char *prefix, *pointer;
    size_t count;
    char *all; /* every name, to be remembered: NAMES_CACHE_MAX bytes */
    size_t all_len;
    bool is_too_much; /* more than can be remembered */
};

static void offer(void *user, struct tidings_str name)
{
    struct offering *o = user;
    size_t len = strlen(o->prefix), at = atomic_load(&offered_len);
    if (o->count < OFFERED_MAX && name.len >= len && memcmp(name.ptr, o->prefix, len) == 0) {
        memcpy(offered + at, name.ptr, name.len);
        offered[at + name.len] = '\n';
        atomic_store(&offered_len, at + name.len + 1);
        o->count++;
    }
}

static int completion_on_item(void *user, struct tidings_str item)
{
    struct offering *o = user;
    char *text = tidings_json_string(item, o->pointer);
    struct tidings_str name = tidings_str(text);
    if (text && name_is_offered(name)) {
        offer(o, name);
        o->is_too_much = o->is_too_much || name.len + 1 > NAMES_CACHE_MAX - o->all_len;
        if (!o->is_too_much) {
            memcpy(o->all + o->all_len, name.ptr, name.len);
            o->all[o->all_len + name.len] = '\n';
            o->all_len += name.len + 1;
        }
    }
    tidings_free(text);
    return o->is_too_much && o->count == OFFERED_MAX;
}

static void ask_server(const struct cli *cli, enum tidings_listing list, const char *key,
                       int64_t now_s, struct offering *o)
{
    struct tidings_error err = {0};
    o->all = malloc(NAMES_CACHE_MAX);
    struct tidings_client *client = o->all ? target_open(cli, &err) : NULL;
    if (client) {
        int rc = tidings_client_list(client, list, completion_on_item, o, &err);
        print_offered();
        discard_stream(STDOUT_FILENO); /* the shell need not wait for what follows */
        if (rc == 0 && !o->is_too_much) {
            names_cache_save(key, now_s, tidings_strn(o->all, o->all_len));
        }
    }
    tidings_client_destroy(client);
    free(o->all);
}

/* ---- the line -------------------------------------------------------------------------------- */

bool completion_asks(const struct command *command)
{
    return command->arg_kind >= ARG_RESOURCE;
}

static enum tidings_listing listing_of(const struct command *c)
{
    return c->arg_kind == ARG_TOOL     ? TIDINGS_LISTING_TOOLS
           : c->arg_kind == ARG_PROMPT ? TIDINGS_LISTING_PROMPTS
           : c->arg_kind == ARG_SKILL  ? TIDINGS_LISTING_SKILLS
                                       : TIDINGS_LISTING_RESOURCES;
}

/* The words come as they were typed, perhaps cut at blanks: one that a shell would make something
 * else of may name another server than is meant. */
static bool is_as_typed(const char *word)
{
    return strpbrk(word, "\"'\\$`(){}<>|;&*!# \t\r\n") == NULL;
}

/* What the answer depends on: who is asked for what, and as whom. */
static bool key_of(const struct cli *cli, const char *address, char key[TIDINGS_DIGEST_MAX])
{
    const char *parts[] = {cli->target,     address,      cli->token,     getenv("TIDINGS_TOKEN"),
                           cli->token_file, cli->ca_file, cli->cert_file, cli->key_file};
    struct json_text t;
    if (!json_text_begin(&t)) {
        return false;
    }
    fprintf(t.out, "%d %u %d", (int)listing_of(cli->command), cli->era, (int)cli->origin);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        put_quoted(t.out, tidings_str(parts[i] ? parts[i] : ""));
    }
    for (size_t i = 0; i < cli->headers.count; i++) {
        put_quoted(t.out, tidings_str(cli->headers.items[i]));
    }
    char *text = json_text_take(&t);
    if (text) {
        tidings_digest(tidings_str(text), key);
        explicit_bzero(text, strlen(text));
    }
    free(text);
    return text != NULL;
}

static void offer_names(struct cli *cli, const char *prefix)
{
    static const char *const pointers[] = {[TIDINGS_LISTING_RESOURCES] = "/uri",
                                           [TIDINGS_LISTING_TOOLS] = "/name",
                                           [TIDINGS_LISTING_PROMPTS] = "/name",
                                           [TIDINGS_LISTING_SKILLS] = "/uri"};
    struct tidings_error err = {0};
    char key[TIDINGS_DIGEST_MAX];
    enum tidings_listing list = listing_of(cli->command);
    struct offering o = {.prefix = prefix, .pointer = pointers[list]};
    int64_t now_s = (int64_t)time(NULL);
    char *address = target_address(cli, &err);
    if (address && key_of(cli, address, key) && !names_cache_find(key, now_s, offer, &o)) {
        ask_server(cli, list, key, now_s, &o);
    }
    tidings_free(address);
    print_offered();
}

static void read_line(const struct command *c, const char **words, size_t count, const char *prefix,
                      uint64_t ms)
{
    struct cli *cli = calloc(1, c->size > 0 ? c->size : sizeof(*cli));
    if (!cli) {
        return;
    }
    if (options_parse(cli, c, (int)count, (char **)(uintptr_t)words) == 0 && !cli->help &&
        !cli->launch) {
        cli->is_careful = true;
        cli->timeout_ms = ms;
        cli->max_message = MESSAGE_MIB;
        target_choose(cli);
        if (cli->arg_count == 0 || (c->arg_kind == ARG_RESOURCES && cli->arg_count < c->max_args)) {
            offer_names(cli, prefix);
        }
    }
    options_release(cli);
    free(cli);
}

int completion_names(const char **line, size_t count)
{
    uint64_t ms = time_limit();
    const struct command *c = count > 1 ? command_find(line[0]) : NULL;
    bool is_asked = ms > 0 && c && completion_asks(c) && line[count - 1][0] != '-';
    for (size_t i = 1; i + 1 < count && is_asked; i++) {
        is_asked = is_as_typed(line[i]);
    }
    if (is_asked) {
        end_after(ms);
    }
    if (is_asked && discard_stream(STDERR_FILENO)) {
        read_line(c, line + 1, count - 2, line[count - 1], ms);
    }
    return 0;
}
