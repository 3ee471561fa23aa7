/* SPDX-License-Identifier: MIT
 *
 * `tidings probe`: how a change of the resource is brought about, by a command of the user's, or a
 * tool of the server's; and whether there was one.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/probe/probe.h"
#include "bin/remote/remote.h"

/* Of @modelcontextprotocol/server-everything: from then on the session is told of updates every few
 * seconds; called once more, it ends. */
#define TOGGLE "toggle-subscriber-updates"
#define NAME_BYTES 128u
#define ADDED "-tidings-probe" /* behind the URI: what is added to a list */

bool probe_can_change(const struct run *r)
{
    return r->probe->change || r->probe->touches || r->probe->call;
}

static int probe_change_run_command(const char *option, const char *command,
                                    struct tidings_error *err)
{
    fflush(stdout);
    int status = system(command);
    if (status == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "the command of %s ended with status %d", option,
                        status > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

/* ---- tools ----------------------------------------------------------------------------------- */

struct tools {
    bool publishes, toggles;
};

static int on_tool(void *user, struct tidings_str item)
{
    struct tools *t = user;
    char *name = text_at(item, "/name");
    t->publishes = t->publishes || (name && strcmp(name, "publish") == 0);
    t->toggles = t->toggles || (name && strcmp(name, TOGGLE) == 0);
    tidings_free(name);
    return 0;
}

static int call(struct tidings_client *by, const char *tool, const char *arguments,
                struct tidings_error *err)
{
    char *answer = tidings_client_call(by, tool, arguments, NULL, NULL, err);
    int rc = answer ? 0 : err->code;
    if (answer && is_true_at(tidings_str(answer), "/isError")) {
        char *text = text_at(tidings_str(answer), "/content/0/text");
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%s failed: %.120s", tool, text ? text : "");
        tidings_free(text);
    }
    tidings_free(answer);
    return rc;
}

/* A tool of ours, about the resource, or with `added` about one beside it. */
static int call_about(struct run *r, struct tidings_client *by, const char *tool, const char *added,
                      struct tidings_error *err)
{
    struct json_text t;
    bool has_text = strcmp(tool, "publish") == 0;
    size_t room = strlen(r->uri) + strlen(added) + 1;
    char *uri = malloc(room);
    if (!uri || !json_text_begin(&t)) {
        free(uri);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    snprintf(uri, room, "%s%s", r->uri, added);
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(uri));
    if (has_text) {
        fprintf(t.out, ",\"text\":\"tidings probe, change %u\\n\"", r->probe->changes);
    }
    fputc('}', t.out);
    char *arguments = json_text_take(&t);
    int rc = arguments ? call(by, tool, arguments, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    free(arguments);
    free(uri);
    return rc;
}

static int probe_change_touch(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct tools tools = {0};
    int rc = tidings_client_list(by, TIDINGS_LISTING_TOOLS, on_tool, &tools, err);
    if (rc < 0) {
        return rc;
    }
    if (tools.publishes) {
        return call_about(r, by, "publish", "", err);
    }
    if (!tools.toggles) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server has neither the tool publish nor " TOGGLE);
    }
    r->toggled = by;
    return call(by, TOGGLE, "{}", err);
}

/* The arguments of --call, with the number of the change for each {n}; free it. NULL: no memory. */
static char *number_in(const char *text, unsigned number)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    while (*text) {
        if (strncmp(text, "{n}", 3) == 0) {
            fprintf(t.out, "%u", number);
            text += 3;
        } else {
            fputc(*text++, t.out);
        }
    }
    return json_text_take(&t);
}

/* What --call says: its tool, and arguments (free them). */
static int probe_change_read_call(const struct probe *p, char tool[NAME_BYTES], char **ret,
                                  struct tidings_error *err)
{
    size_t n = strcspn(p->call, " \t");
    const char *rest = p->call + n + strspn(p->call + n, " \t");
    if (n == 0 || n >= NAME_BYTES) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--call takes the name of a tool of up to %u bytes, and a JSON object",
                            NAME_BYTES - 1);
    }
    snprintf(tool, NAME_BYTES, "%.*s", (int)n, p->call);
    *ret = number_in(*rest ? rest : "{}", p->changes);
    if (!*ret) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *object = tidings_json_get(tidings_str(*ret), "");
    bool is_object = object && object[0] == '{';
    tidings_free(object);
    if (!is_object) {
        int rc =
            tidings_fail(err, TIDINGS_E_INVALID,
                         "--call: behind '%.60s' comes a JSON object, not '%.60s'", tool, *ret);
        free(*ret);
        *ret = NULL;
        return rc;
    }
    return 0;
}

int probe_check_call(const struct probe *p, struct tidings_error *err)
{
    char tool[NAME_BYTES], *arguments = NULL;
    int rc = p->call ? probe_change_read_call(p, tool, &arguments, err) : 0;
    free(arguments);
    return rc;
}

static int call_given(const struct probe *p, struct tidings_client *by, struct tidings_error *err)
{
    char tool[NAME_BYTES], *arguments = NULL;
    int rc = probe_change_read_call(p, tool, &arguments, err);
    rc = rc == 0 ? call(by, tool, arguments, err) : rc;
    free(arguments);
    return rc;
}

int probe_change(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct probe *p = r->probe;
    p->changes++;
    if (p->change) {
        return probe_change_run_command("--change", p->change, err);
    }
    if (p->call) {
        return call_given(p, by, err);
    }
    if (!p->touches || by == r->toggled) {
        return 0; /* it changes by itself, or not at all */
    }
    return probe_change_touch(r, by, err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* By the tools of --touch, when those are of the kind that can add something. */
static bool can_add_by_touch(const struct run *r)
{
    return !r->probe->change_list && r->probe->touches && !r->toggled && r->is_told;
}

int probe_change_list(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    int rc = 0;
    if (r->probe->change_list) {
        rc = probe_change_run_command("--change-list", r->probe->change_list, err);
    } else if (can_add_by_touch(r)) {
        rc = call_about(r, by, "publish", ADDED, err);
    } else {
        return 0;
    }
    return rc < 0 ? rc : 1;
}

void probe_restore_list(struct run *r, struct tidings_client *by)
{
    struct tidings_error err = {0};
    if (can_add_by_touch(r)) {
        (void)call_about(r, by, "unpublish", ADDED, &err);
    }
}

/* ---- was there one? -------------------------------------------------------------------------- */

/* FNV-1a */
static uint64_t probe_change_mix(uint64_t hash, const char *text)
{
    hash = hash ? hash : 14695981039346656037u;
    while (text && *text) {
        hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
    }
    return hash;
}

uint64_t probe_content(struct run *r)
{
    struct tidings_error err = {0};
    char *answer = tidings_client_read(r->client, r->uri, &err);
    char *contents = answer ? tidings_json_get(tidings_str(answer), "/contents") : NULL;
    uint64_t hash = contents ? probe_change_mix(0, contents) : 0;
    tidings_free(contents);
    tidings_free(answer);
    return hash;
}

static int on_listed(void *user, struct tidings_str item)
{
    uint64_t *hash = user;
    char *uri = text_at(item, "/uri");
    *hash = probe_change_mix(probe_change_mix(*hash, uri), "\n");
    tidings_free(uri);
    return 0;
}

uint64_t probe_list(struct run *r)
{
    struct tidings_error err = {0};
    uint64_t hash = 0;
    int rc = tidings_client_list(r->client, TIDINGS_LISTING_RESOURCES, on_listed, &hash, &err);
    return rc < 0 ? 0 : probe_change_mix(hash, "end");
}
