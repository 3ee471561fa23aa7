/* SPDX-License-Identifier: MIT
 *
 * How a change is brought about: a command of the user's, or a tool of the server's.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "output.h"
#include "probe.h"
#include "remote.h"

/* Of @modelcontextprotocol/server-everything: from then on the session is told of updates every few
 * seconds; called once more, it ends. */
#define TOGGLE "toggle-subscriber-updates"

bool probe_can_change(const struct run *r)
{
    return r->probe->change || r->probe->touches;
}

static int run_command(struct probe *p, struct tidings_error *err)
{
    fflush(stdout);
    int status = system(p->change);
    if (status == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "the command of --change ended with status %d",
                        status > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

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

static int publish(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(r->uri));
    fprintf(t.out, ",\"text\":\"tidings probe, change %u\\n\"}", r->probe->changes);
    char *arguments = json_text_take(&t);
    int rc = arguments ? call(by, "publish", arguments, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    free(arguments);
    return rc;
}

int probe_change(struct run *r, struct tidings_client *by, struct tidings_error *err)
{
    struct tools tools = {0};
    r->probe->changes++;
    if (r->probe->change) {
        return run_command(r->probe, err);
    }
    if (!r->probe->touches || by == r->toggled) {
        return 0; /* it changes by itself, or not at all */
    }
    int rc = tidings_client_list(by, TIDINGS_LISTING_TOOLS, on_tool, &tools, err);
    if (rc < 0) {
        return rc;
    }
    if (tools.publishes) {
        return publish(r, by, err);
    }
    if (!tools.toggles) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server has neither the tool publish nor " TOGGLE);
    }
    r->toggled = by;
    return call(by, TOGGLE, "{}", err);
}
