/* SPDX-License-Identifier: MIT
 *
 * Connects a command to its server, runs it, and stops it on a signal or a time limit.
 */
#include "cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>

#include "cli/answer.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * Prints messages on the wire, for -v, and lines of the server's log.
 */

/* Never within a character. */
static size_t verbose_cut(struct tidings_str text)
{
    size_t at = VERBOSE_MAX;
    while (at > VERBOSE_MAX - 4 && ((unsigned char)text.ptr[at] & 0xc0) == 0x80) {
        at--;
    }
    return at;
}

static void verbose_put(struct tidings_str text)
{
    if (text.len > VERBOSE_MAX) {
        put_text(stderr, tidings_strn(text.ptr, verbose_cut(text)));
        fprintf(stderr, "… (%zu bytes)", text.len);
    } else {
        put_text(stderr, text);
    }
    fputc('\n', stderr);
}

void verbose_print(void *user, const struct tidings_client_wire *wire)
{
    struct tidings_str text = wire->text;
    (void)user;
    fflush(stdout);
    fputs(wire->is_sent ? "> " : "< ", stderr);
    if (wire->status > 0) {
        fprintf(stderr, "HTTP %ld%s", wire->status, wire->reason.len > 0 ? ": " : " ");
    }
    put_text(stderr, wire->reason);
    verbose_put(text);
}

void verbose_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                 struct tidings_str data)
{
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
    char *text = tidings_json_string(data, "");
    (void)user;
    fflush(stdout);
    fprintf(stderr, "server, %s", names[level]);
    fputs(logger.len > 0 ? " of " : "", stderr);
    put_text(stderr, logger);
    fputs(": ", stderr);
    verbose_put(text ? tidings_str(text) : data);
    tidings_free(text);
}

/* -------------------------------------------------------------------------------------------------
 * Prints the address of a login page and starts a browser.
 */

/* Starts a program with one argument, without a shell; its output is discarded. */
static void browser_launch(const char *program, const char *url)
{
    pid_t pid = fork();
    if (pid == 0) {
        pid_t child = fork(); /* the browser is never waited for */
        if (child == 0) {
            const char *const argv[] = {program, url, NULL};
            (void)setsid(); /* Ctrl-C must not reach it */
            (void)signal(SIGPIPE, SIG_DFL);
            (void)unsetenv("TIDINGS_TOKEN"); /* the browser would keep our secrets */
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

/* -------------------------------------------------------------------------------------------------
 * Finds the tokens of 'tidings login' for a command.
 */

int login_tokens_path(char path[PATH_MAX], struct tidings_error *err)
{
    return user_file_path(path, "XDG_STATE_HOME", "/.local/state", "tokens.json", err);
}

static bool login_tokens_has_authorization(const struct tidings_client_options *options)
{
    static const char name[] = "Authorization:";
    for (size_t i = 0; options->headers && options->headers[i]; i++) {
        if (strncasecmp(options->headers[i], name, sizeof(name) - 1) == 0) {
            return true;
        }
    }
    return options->token != NULL || options->on_token != NULL;
}

char *login_tokens_address(const char *url)
{
    bool is_socket = strncmp(url, "ws://", 5) == 0 || strncmp(url, "wss://", 6) == 0;
    bool is_web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    size_t size = strlen(url) + 3;
    char *text = is_socket || is_web ? tidings_alloc(size) : NULL;
    if (text) {
        snprintf(text, size, "%s%s", is_socket ? "http" : "", url + (is_socket ? 2 : 0));
    }
    return text;
}

/* Each client has its own. */
static struct kept {
    struct tidings_oauth *oauth;
    struct kept *next;
} * all;

void login_tokens_end(void)
{
    while (all) {
        struct kept *k = all;
        all = k->next;
        tidings_oauth_destroy(k->oauth);
        free(k);
    }
}

static int login_tokens_open(void *user, const char *url)
{
    browser_show(user, url, true);
    return 0;
}

static int login_tokens_create(const struct cli *cli, const char *path,
                               struct tidings_client_options *options, struct tidings_error *err)
{
    struct tidings_oauth_options how = {.token_file = path, .ca_file = cli->ca_file};
    if (cli->login) {
        how.on_open = login_tokens_open;
        how.user = (void *)(uintptr_t)cli->command->name;
    }
    struct kept *k = malloc(sizeof(*k));
    if (!k) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *k = (struct kept){tidings_oauth_create(&how, err), all};
    if (!k->oauth) {
        free(k);
        return err->code;
    }
    all = k;
    process_has_secrets();
    options->credentials = tidings_oauth_credentials(k->oauth);
    return 0;
}

int login_tokens_use(const struct cli *cli, const char *url, struct tidings_client_options *options,
                     struct tidings_error *err)
{
    char path[PATH_MAX];
    struct tidings_error none = {0};
    char *web = url ? login_tokens_address(url) : NULL;
    bool is_fit = web && !login_tokens_has_authorization(options);
    tidings_free(web);
    if (cli->login && !is_fit) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--login is for servers at http://, https://, ws:// and wss://, "
                            "without another token");
    }
    if (cli->login) {
        int rc = login_tokens_path(path, err);
        rc = rc == 0 ? user_file_make_directories(path, err) : rc;
        return rc == 0 ? login_tokens_create(cli, path, options, err) : rc;
    }
    if (!is_fit || login_tokens_path(path, &none) < 0 || access(path, F_OK) != 0) {
        return 0;
    }
    return login_tokens_create(cli, path, options, err);
}

const char *login_tokens_hint(const struct cli *cli)
{
    static char hint[512];
    if (!cli->target) {
        return "check that the program can be run";
    }
    snprintf(hint, sizeof(hint),
             "'tidings login %.200s' logs in, --login when it is asked for; a token is given by "
             "--token-file or TIDINGS_TOKEN, "
             "certificates by --cacert, --cert",
             cli->target);
    return hint;
}

/* ---------------------------------------------------------------------------------------------- */

/* A hint about an error answer of the server. */
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

/* A hint about a missing client capability (-32021); NULL: another error. */
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

/* A hint about a failed request. */
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

/* Report a failure without exiting; returns the exit status. */
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
                   "U+FFFD replaces it");
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

#define ROOTS_MS 500u /* time for a server to request the roots */
#define ROOTS_PINGS 5

/* Legacy servers request the roots after initialization, and handle earlier requests without them.
 * The server answers a ping after everything received before it. Several pings are needed, because
 * a server checks the directories before it accepts them. */
static void remote_send_roots(const struct answers *answers, struct tidings_client *client)
{
    if (answers->cli->roots.count == 0 || tidings_client_connect(client, NULL) < 0 ||
        tidings_client_info(client)->era != TIDINGS_ERA_LEGACY) {
        return;
    }
    uint64_t until = now_ms() + ROOTS_MS;
    for (uint64_t now; !answers->has_sent_roots && (now = now_ms()) < until;) {
        if (tidings_client_step(client, (int)(until - now), NULL) <= 0) {
            return;
        }
    }
    for (int i = 0; answers->has_sent_roots && i < ROOTS_PINGS; i++) {
        tidings_free(tidings_client_request(client, "ping", NULL, NULL));
    }
}

/* If the server did not get an answer it needed, the command did not do its work. */
static int remote_work(struct answers *answers, struct tidings_client *client, struct cli *cli,
                       remote_fn fn, struct tidings_error *err)
{
    int rc = cli->command->may_be_asked ? answers_begin(answers, client, err) : 0;
    if (rc == 0) {
        remote_send_roots(answers, client);
        rc = fn(cli, client, err);
    }
    return (rc == 0 || rc == 1) && answers->unanswered > 0 ? answers_check(answers, err) : rc;
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
        return err->code; /* the URI appears once only */
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
