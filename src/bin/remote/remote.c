/* SPDX-License-Identifier: MIT
 *
 * Connects a command to its server, runs it, and ends it by a signal or a time limit.
 */
#include "bin/remote/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/remote/answer.h"
#include "bin/remote/login_tokens.h"
#include "bin/remote/target.h"

/* What to do about what the server said. */
static const char *hint_to_answer(const struct cli *cli, int code)
{
    switch (code) {
    case TIDINGS_E_NOTFOUND:
    case TIDINGS_E_GONE:
        return cli->command->refused ? cli->command->refused
                                     : "'tidings ls' lists what the server has";
    case TIDINGS_E_UNSUPPORTED:
        return "'tidings info' says what the server offers";
    case TIDINGS_E_INVALID:
        return cli->command->refused;
    default:
        return NULL;
    }
}

/* What to do about a server that needs something of its client (-32021); NULL: it does not. */
static const char *hint_to_capability(struct tidings_client *client,
                                      const struct tidings_error *err)
{
    const char *said = tidings_client_last_error(client);
    char *wanted = said ? tidings_json_get(tidings_str(said), "/data/requiredCapabilities") : NULL;
    char *roots = wanted ? tidings_json_get(tidings_str(wanted), "/roots") : NULL;
    char *sampling = wanted ? tidings_json_get(tidings_str(wanted), "/sampling") : NULL;
    const char *ret = roots || strstr(err->text, "asks for roots")
                          ? "--roots DIR names a directory that the server may know of"
                      : sampling || strstr(err->text, "asks for sampling") ||
                              strstr(err->text, "(sampling), which")
                          ? "tidings has no model: that takes a host, see <tidings/question.h>"
                          : NULL;
    tidings_free(sampling);
    tidings_free(roots);
    tidings_free(wanted);
    return ret;
}

/* What to do about a failure of something that was asked. */
static const char *hint(const struct cli *cli, struct tidings_client *client,
                        const struct tidings_error *err)
{
    int code = err->code;
    bool was_said = tidings_client_last_error(client) != NULL;
    const char *capability = cli->command->may_be_asked ? hint_to_capability(client, err) : NULL;
    if (capability) {
        return capability;
    }
    switch (code) {
    case TIDINGS_E_NOTFOUND:
    case TIDINGS_E_GONE:
    case TIDINGS_E_UNSUPPORTED:
    case TIDINGS_E_INVALID:
        return target_hint_with(cli, was_said ? hint_to_answer(cli, code) : NULL);
    case TIDINGS_E_LIMIT:
        return target_hint_with(cli, cli->command->beyond);
    default:
        return target_hint(cli, err, tidings_client_wants_credentials(client));
    }
}

/* Tell a failure without ending: its exit status. */
static int remote_tell(const struct cli *cli, struct tidings_client *client,
                       const struct tidings_error *err)
{
    return command_fail(cli->command->name, err, hint(cli, client, err));
}

/* A signal handler has no other way to know. */
static struct tidings_client *volatile running;
volatile int remote_caught;

static void remote_on_signal(int number)
{
    struct tidings_client *client = running;
    remote_caught = number;
    if (client) {
        tidings_client_stop(client);
    }
}

void remote_interruptible(struct tidings_client *client)
{
    running = client;
    if (!client) {
        return;
    }
    struct sigaction act = {.sa_handler = remote_on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) { /* no nohup */
        sigaction(SIGHUP, &act, NULL);
    }
}

uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

volatile int remote_late;

static void on_alarm(int number)
{
    struct tidings_client *client = running;
    (void)number;
    remote_late = 1;
    if (client) {
        tidings_client_stop(client);
    }
}

void remote_end_after(uint64_t ms)
{
    struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval timer = {
        .it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)},
    };
    if (ms > 0) {
        sigemptyset(&act.sa_mask);
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
}

static void say_mended(const struct cli *cli, uint64_t count, const char *what, const char *which)
{
    fprintf(stderr, "tidings %s: the server sent %s: %s", cli->command->name, what, which);
    if (count > 1) {
        fprintf(stderr, " (%llu times)", (unsigned long long)count);
    }
    fputc('\n', stderr);
}

void remote_say_mended(const struct cli *cli, struct tidings_client *client)
{
    static uint64_t replaced, repeated;
    const struct tidings_client_info *info = tidings_client_info(client);
    if (!info || cli->quiet) {
        return;
    }
    if (info->replaced > replaced) {
        say_mended(cli, info->replaced - replaced, "half of a surrogate pair",
                   "U+FFFD stands in its place");
        replaced = info->replaced;
    }
    if (info->repeated > repeated) {
        say_mended(cli, info->repeated - repeated, "a key twice in an object",
                   "the last value counts");
        repeated = info->repeated;
    }
}

static void remote_warn(void *user, struct tidings_str text)
{
    const struct cli *cli = user;
    if (!cli->quiet && !cli->json) {
        fprintf(stderr, "tidings %s: ", cli->command->name);
        put_text(stderr, text);
        fputc('\n', stderr);
    }
}

#define ROOTS_MS 500u /* for a server to ask for roots by itself */
#define ROOTS_PINGS 5

/* Legacy servers ask for roots when they have begun, and what is asked of them before they know is
 * done without. A ping is answered behind what came before it; several, since a server looks at
 * the directories before it believes in them. */
static void remote_tell_roots(const struct answers *answers, struct tidings_client *client)
{
    if (answers->cli->roots.count == 0 || tidings_client_connect(client, NULL) < 0 ||
        tidings_client_info(client)->era != TIDINGS_ERA_LEGACY) {
        return;
    }
    uint64_t until = now_ms() + ROOTS_MS;
    for (uint64_t now; !answers->has_told_roots && (now = now_ms()) < until;) {
        if (tidings_client_step(client, (int)(until - now), NULL) <= 0) {
            return;
        }
    }
    for (int i = 0; answers->has_told_roots && i < ROOTS_PINGS; i++) {
        tidings_free(tidings_client_request(client, "ping", NULL, NULL));
    }
}

/* What was done without an answer that the server wanted is not what was asked for. */
static int remote_work(struct answers *answers, struct tidings_client *client, struct cli *cli,
                       remote_fn fn, struct tidings_error *err)
{
    int rc = cli->command->may_be_asked ? answers_begin(answers, client, err) : 0;
    if (rc == 0) {
        remote_tell_roots(answers, client);
        rc = fn(cli, client, err);
    }
    return (rc == 0 || rc == 1) && answers->unanswered > 0 ? answers_judge(answers, err) : rc;
}

int remote_run(struct cli *cli, remote_fn fn)
{
    struct tidings_error err = {0};
    struct tidings_client *client = target_open(cli, &err);
    remote_interruptible(client);
    tidings_client_on_warning(client, remote_warn, cli);
    struct answers answers = {.cli = cli};
    int rc = client ? remote_work(&answers, client, cli, fn, &err) : err.code;
    int written = command_finish(cli->command->name);
    int status = rc >= 0 || remote_caught ? rc
                 : client                 ? remote_tell(cli, client, &err)
                          : command_fail(cli->command->name, &err, target_hint(cli, &err, false));
    if (client) {
        remote_say_mended(cli, client);
    }
    remote_interruptible(NULL);
    tidings_client_destroy(client);
    answers_end(&answers);
    login_tokens_end();
    if (remote_caught) {
        signal(remote_caught, SIG_DFL);
        raise(remote_caught);
    }
    return status != 0 ? status : written;
}

int remote_about(struct tidings_client *client, const char *uri, struct tidings_error *err)
{
    struct tidings_error why = *err;
    if (!tidings_client_last_error(client) || strstr(why.text, uri)) {
        return err->code; /* it is named once */
    }
    return tidings_fail(err, why.code, "'%.80s': %s", uri, why.text);
}

int remote_each(struct cli *cli, struct tidings_client *client, remote_each_fn fn,
                struct tidings_error *err)
{
    int status = 0;
    for (size_t i = 0; i < cli->arg_count; i++) {
        int rc = fn(cli, client, i, err);
        if (rc < 0 && cli->arg_count == 1) {
            return rc;
        }
        if (rc < 0) {
            int told = remote_tell(cli, client, err);
            status = status ? status : told;
        }
    }
    return status;
}

char *text_at(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_string(json, pointer);
    if (!text && (text = tidings_alloc(1)) != NULL) {
        text[0] = '\0';
    }
    return text;
}

bool is_true_at(struct tidings_str json, const char *pointer)
{
    char *value = tidings_json_get(json, pointer);
    bool is_true = value && strcmp(value, "true") == 0;
    tidings_free(value);
    return is_true;
}
