/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: does this server really notify? It is used as a client would, in each era that
 * it speaks, and every finding says what was expected and what came.
 */
#include "bin/probe/probe.h"

#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"

/* Of struct cli, see commands.c. */
enum {
    ERA_AUTO = 0,
    ERA_MODERN = 1,
    ERA_LEGACY = 2,
    ERA_2026 = 3,
    ERA_2025_11 = 4,
    ERA_2024_11 = 7
};

/* ---- who answers ----------------------------------------------------------------------------- */

/* "resources: subscribe, listChanged; tools" */
struct summary {
    char text[160];
    size_t len;
};

static void probe_append(struct summary *s, const char *between, struct tidings_str name)
{
    if (s->len + strlen(between) + name.len + 1 < sizeof(s->text)) {
        s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s%.*s", between,
                                   (int)name.len, name.ptr);
    }
}

struct flags {
    struct summary *summary;
    const char *between;
};

static int on_flag(void *user, struct tidings_str key, struct tidings_str value)
{
    struct flags *f = user;
    if (tidings_str_eq(value, TIDINGS_STR("true"))) {
        probe_append(f->summary, f->between, key);
        f->between = ", ";
    }
    return 0;
}

static int on_capability(void *user, struct tidings_str key, struct tidings_str value)
{
    struct summary *s = user;
    struct flags f = {s, ": "};
    probe_append(s, s->len > 0 ? "; " : "", key);
    (void)tidings_json_each(value, "", on_flag, &f);
    return 0;
}

static void probe_record_spoken(struct run *r)
{
    struct probe *p = r->probe;
    const struct tidings_client_info *info = tidings_client_info(r->client);
    struct negotiated *s = &p->spoken[p->spoken_count++];
    s->era = r->era;
    snprintf(s->version, sizeof(s->version), "%s", info->version);
    snprintf(s->transport, sizeof(s->transport), "%s", info->transport);
    snprintf(s->name, sizeof(s->name), "%.60s", info->server_name);
    snprintf(s->server_version, sizeof(s->server_version), "%.30s", info->server_version);
    s->capabilities = strdup(info->capabilities);
    snprintf(r->version, sizeof(r->version), "%s", info->version);
    snprintf(r->session, sizeof(r->session), "%s", info->session ? info->session : "");
    r->is_http = strcmp(info->transport, "http") == 0;
    probe_heading(p, s);
    probe_found(r, "era", VERDICT_PASS, "%s", info->version);
    struct summary summary = {.len = 0};
    (void)tidings_json_each(tidings_str(info->capabilities), "", on_capability, &summary);
    char *resources = tidings_json_get(tidings_str(info->capabilities), "/resources");
    r->has_resources = resources != NULL;
    r->declares_subscribe = resources && is_true_at(tidings_str(resources), "/subscribe");
    tidings_free(resources);
    probe_found(r, "capabilities",
                !r->has_resources       ? VERDICT_SKIP
                : r->declares_subscribe ? VERDICT_PASS
                                        : VERDICT_WARN,
                "%s%s", summary.len > 0 ? summary.text : "none",
                r->has_resources ? "" : "; " PROBE_NO_RESOURCES);
}

/* The newest revision of the era that it speaks: 1, or 0, or a negative code: it cannot be asked.
 */
static int probe_connect(struct run *r, struct tidings_error *err)
{
    unsigned first = r->cli.era, last = first;
    if (first == ERA_LEGACY) {
        first = ERA_2025_11;
        last = ERA_2024_11;
    }
    for (unsigned era = first; era <= last && !r->client; era++) {
        r->cli.era = era;
        /* Modern: one who asks for resources alone. Legacy: the stream stays when nothing is
         * subscribed to any more, and what still comes is heard. */
        r->client = probe_open(r, !r->is_modern, err);
        if (!r->client && err->code != TIDINGS_E_UNSUPPORTED) {
            return err->code;
        }
    }
    if (r->client) {
        probe_record_spoken(r);
    }
    return r->client ? 1 : 0;
}

/* ---- what is subscribed to ------------------------------------------------------------------- */

struct looking {
    const char *wanted; /* NULL: any */
    char *first;
    unsigned count;
    bool is_there;
};

static int probe_on_resource(void *user, struct tidings_str item)
{
    struct looking *l = user;
    char *uri = text_at(item, "/uri");
    l->is_there = l->is_there || (uri && l->wanted && strcmp(uri, l->wanted) == 0);
    size_t n = uri ? strlen(uri) : 0;
    if (!l->first && n > 0 && uri[n - 1] != '/') {
        l->first = uri;
        uri = NULL;
    }
    tidings_free(uri);
    return ++l->count == 10000;
}

static void choose(struct run *r)
{
    struct tidings_error err = {0}, wrong = {0};
    if (!r->has_resources) {
        probe_found(r, "list", VERDICT_SKIP, PROBE_NO_RESOURCES);
        return;
    }
    bool is_given = r->cli.arg_count > 0;
    r->uri = is_given ? uri_of_argument(r->cli.args[0], &wrong) : NULL;
    struct looking l = {.wanted = r->uri};
    int rc = tidings_client_list(r->client, TIDINGS_LISTING_RESOURCES, probe_on_resource, &l, &err);
    if (!is_given) {
        r->uri = l.first ? strdup(l.first) : NULL;
    }
    if (rc < 0 || wrong.code < 0) {
        probe_found(r, "list",
                    wrong.code < 0                ? VERDICT_SKIP
                    : err.code == TIDINGS_E_PARSE ? VERDICT_FAIL
                                                  : VERDICT_WARN,
                    "%.150s", rc < 0 ? err.text : wrong.text);
    } else if (l.count == 0 && !r->uri) {
        probe_found(r, "list", VERDICT_WARN, "no resources; a URI on the command line is tried");
    } else {
        probe_found(r, "list", VERDICT_PASS, "%u resources%s", l.count,
                    l.wanted && !l.is_there ? ", this one not listed" : "");
    }
    tidings_free(l.first);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* 1: spoken, 0: not, or a negative code. */
static int probe_era(struct probe *p, unsigned era, struct tidings_error *err)
{
    bool is_modern = era == ERA_MODERN || era == ERA_2026;
    struct run *r = calloc(1, sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *r = (struct run){.probe = p, .era = is_modern ? "modern" : "legacy", .is_modern = is_modern};
    r->cli = p->cli;
    r->cli.era = era;
    probe_doing(p, "asking whether it speaks the %s era", r->era);
    int rc = probe_connect(r, err);
    if (rc == 1) {
        probe_doing(p, "listing its resources");
        choose(r);
        probe_updates(r);
        probe_doing(p, "asking wrong things");
        probe_errors(r);
        probe_doing(p, "cutting streams, and ending sessions");
        probe_streams(r);
    } else if (rc == 0) {
        probe_found(r, "era", VERDICT_SKIP, "%s: %.150s", r->era, err->text);
    } else if (p->spoken_count > 0) {
        probe_found(r, "era", VERDICT_WARN, "%s: %.150s", r->era, err->text);
    }
    tidings_client_destroy(r->client);
    free(r->uri);
    free(r);
    return rc;
}

static int probe_run(struct cli *cli)
{
    struct probe *p = (struct probe *)cli;
    struct tidings_error err = {0};
    if ((p->change ? 1 : 0) + (p->call ? 1 : 0) + (p->touches ? 1 : 0) > 1) {
        return command_misuse(
            "probe", "there is one way to change something: --change, --call or --touch", NULL);
    }
    if (probe_check_call(p, &err) < 0) {
        return command_misuse("probe", err.text, NULL);
    }
    unsigned eras[PROBE_MAX_ERAS] = {cli->era, 0};
    if (cli->era == ERA_AUTO) {
        eras[0] = ERA_MODERN;
        eras[1] = ERA_LEGACY;
    }
    int rc = 0;
    for (size_t i = 0; i < PROBE_MAX_ERAS && eras[i] && rc >= 0; i++) {
        rc = probe_era(p, eras[i], &err);
    }
    probe_clear();
    int status = p->spoken_count > 0
                     ? probe_finish(p)
                     : command_fail("probe", &err, target_hint(cli, &err, p->wants_login));
    for (size_t i = 0; i < p->spoken_count; i++) {
        free(p->spoken[i].capabilities);
    }
    return status;
}

#define AT(member) offsetof(struct probe, member)

static const struct option options[] = {
    {.name = "change",
     .kind = OPTION_TEXT,
     .offset = AT(change),
     .metavar = "COMMAND",
     .help = "a command for the shell that changes the resource"},
    {.name = "call",
     .kind = OPTION_TEXT,
     .offset = AT(call),
     .metavar = "TOOL",
     .help = "a tool that changes it, and its arguments: 'NAME {\"value\":{n}}'; {n} counts"},
    {.name = "touch",
     .kind = OPTION_FLAG,
     .offset = AT(touches),
     .help = "change it by a tool of the server: publish, or toggle-subscriber-updates"},
    {.name = "change-list",
     .kind = OPTION_TEXT,
     .offset = AT(change_list),
     .metavar = "COMMAND",
     .help = "a command for the shell that adds a resource to the list, or removes one"},
    {.name = "wait",
     .kind = OPTION_TIME,
     .offset = AT(wait_ms),
     .metavar = "TIME",
     .help = "how long to wait for an update",
     .value = "10s",
     .min = 100,
     .max = 3600000},
    {.name = "idle",
     .kind = OPTION_TIME,
     .offset = AT(idle_ms),
     .metavar = "TIME",
     .help = "stay silent for so long and see whether the stream still lives",
     .min = 100,
     .max = 86400000},
    {0},
};

const struct command command_probe = {
    .name = "probe",
    .args = "[URI]",
    .help = "find out whether a server really notifies",
    .about =
        "Use a server as a client would, in each era it speaks: subscribe to the URI, or to the\n"
        "first resource listed, change it three times, and see whether updates come, only those,\n"
        "and none after unsubscribing; then ask wrong things, cut the stream and end the session.\n"
        "Changes are made by --change, --call or --touch; without, they are waited for.\n\n"
        "A line for each check: pass, fail (against a MUST), warn (allowed, but clients "
        "will feel it) or skip, and what came. The exit status is 1 when a check failed, and 2, "
        "inconclusive, when in some era no change was seen to be told. On a terminal it says what "
        "it is doing, and when it needs you to change something.\n\n"
        "--json prints an object: verdict, how many pass, fail, warn, skip, eras, and checks with\n"
        "era, id, verdict, came, expected, spec.\n",
    .options = options,
    .size = sizeof(struct probe),
    .max_args = 1,
    .has_target = true,
    .run = probe_run,
};
