/* SPDX-License-Identifier: MIT
 *
 * Explore any MCP server:
 *
 *     explore http://127.0.0.1:7777/mcp info
 *     explore unix:/run/tidings.sock list resources
 *     explore wss://example.org/mcp read file:///docs/a.md
 *     explore -- npx some-server ; watch demo://a 3 [TOOL to call then]
 *
 * The command of a launched server ends at a separate ";". Answers are printed as JSON, one per
 * line.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

static struct tidings_client *client;
static long left;         /* updates to wait for */
static const char *after; /* a tool to call once the server watches */

static void print(struct tidings_str text)
{
    printf("%.*s\n", (int)text.len, text.ptr);
    fflush(stdout);
}

static int print_item(void *user, struct tidings_str item)
{
    (void)user;
    print(item);
    return 0;
}

static int print_entry(void *user, const struct tidings_walk_entry *entry)
{
    (void)user;
    printf("%*s%.*s%s\n", (int)entry->depth * 2 - 2, "", (int)entry->uri.len, entry->uri.ptr,
           entry->is_repeated ? " (again)" : "");
    return 0;
}

static void print_progress(void *user, double progress, double total, struct tidings_str message)
{
    (void)user;
    fprintf(stderr, "progress %g of %g %.*s\n", progress, total, (int)message.len, message.ptr);
}

static void on_update(void *user, const struct tidings_update *update)
{
    (void)user;
    printf("%s %.*s %s\n", tidings_change_name(update->kind), (int)update->uri.len, update->uri.ptr,
           tidings_subscription_uri(update->subscription));
    fflush(stdout);
    if (--left <= 0) {
        tidings_client_stop(client);
    }
}

static void on_state(void *user, const struct tidings_state_event *event)
{
    static const char *const names[] = {"watching",  "refused", "disconnected",
                                        "connected", "lost",    "gap"};
    (void)user;
    fprintf(stderr, "%s %.*s %.*s\n", names[event->state], (int)event->uri.len, event->uri.ptr,
            (int)event->reason.len, event->reason.ptr);
    if (event->state == TIDINGS_STATE_WATCHING && after) {
        tidings_free(tidings_client_call(client, after, NULL, NULL, NULL, NULL));
        after = NULL;
    }
}

static void on_signal(int number)
{
    (void)number;
    tidings_client_stop(client);
}

static int info(struct tidings_error *err)
{
    int rc = tidings_client_connect(client, err);
    const struct tidings_client_info *i = rc == 0 ? tidings_client_info(client) : NULL;
    if (i) {
        printf("%s %s \"%s\" %s %s\n", i->transport, i->version, i->server_name, i->server_version,
               i->can_subscribe ? "subscribe" : "-");
    }
    return rc;
}

static int list(const char *what, struct tidings_error *err)
{
    static const char *const names[] = {"resources", "templates", "tools", "prompts"};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(what, names[i]) == 0) {
            return tidings_client_list(client, (enum tidings_listing)i, print_item, NULL, err);
        }
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "there are resources, templates, tools, prompts");
}

static int watch(const char *uri, const char *count, struct tidings_error *err)
{
    struct tidings_subscribe_options on = {.fn = on_update};
    left = strtol(count ? count : "1", NULL, 10);
    tidings_client_on_state(client, on_state, NULL);
    if (!tidings_client_subscribe(client, uri, &on, err)) {
        return err->code;
    }
    return tidings_client_run(client, err);
}

static int give(char *text, const struct tidings_error *err)
{
    if (!text) {
        return err->code;
    }
    print(tidings_str(text));
    tidings_free(text);
    return 0;
}

/* `a` and `b` may be NULL. */
static int explore(const char *what, const char *a, const char *b, struct tidings_error *err)
{
    if (strcmp(what, "info") == 0) {
        return info(err);
    }
    if (!a) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%s' of what?", what);
    }
    if (strcmp(what, "list") == 0) {
        return list(a, err);
    }
    if (strcmp(what, "children") == 0) {
        return tidings_client_children(client, a, print_item, NULL, err);
    }
    if (strcmp(what, "walk") == 0) {
        return tidings_client_walk(client, a, NULL, print_entry, NULL, err);
    }
    if (strcmp(what, "watch") == 0) {
        return watch(a, b, err);
    }
    char *text = strcmp(what, "read") == 0   ? tidings_client_read(client, a, err)
                 : strcmp(what, "stat") == 0 ? tidings_client_metadata(client, a, err)
                 : strcmp(what, "call") == 0
                     ? tidings_client_call(client, a, b, print_progress, NULL, err)
                 : strcmp(what, "prompt") == 0 ? tidings_client_prompt(client, a, b, err)
                                               : tidings_client_request(client, what, a, err);
    return give(text, err);
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    struct tidings_client_options options = {.token = getenv("TOKEN"),
                                             .ca_file = getenv("CA_FILE"),
                                             .version = getenv("VERSION"),
                                             .retry_min_ms = 100};
    int at = 2;
    if (argc > 2 && strcmp(argv[1], "--") == 0) {
        while (argv[at] && strcmp(argv[at], ";") != 0) {
            at++;
        }
        argv[at] = argv[at] ? NULL : argv[at];
        client = tidings_client_launch((const char *const *)argv + 2, &options, &err);
        at++;
    } else if (argc > 2) {
        client = tidings_client_create(argv[1], &options, &err);
    }
    if (argc <= at || argc < 3) {
        fprintf(stderr, "usage: explore ADDRESS|-- COMMAND… ';' WHAT [ARGUMENT…]\n");
        tidings_client_destroy(client);
        return 64;
    }
    int rc = err.code;
    if (client) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        const char *a = at + 1 < argc ? argv[at + 1] : NULL;
        after = at + 3 < argc ? argv[at + 3] : NULL;
        rc = explore(argv[at], a, a && at + 2 < argc ? argv[at + 2] : NULL, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "explore: %s (%s)\n", err.text, tidings_code_name(rc));
    }
    tidings_client_destroy(client);
    return tidings_code_exit(rc < 0 ? rc : 0);
}
