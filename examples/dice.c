/* SPDX-License-Identifier: MIT
 *
 * A complete provider in a hundred lines: dice, one of which is rolled every 100 ms while a client
 * watches. docs/tutorial/first-provider.md explains it step by step.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidings/tidings.h>

#define DICE 3u
static const char *const uris[DICE] = {"dice:///d12", "dice:///d20", "dice:///d6"}; /* ascending */
static const unsigned sides[DICE] = {12, 20, 6};

struct table { /* one per mount, initially zero */
    atomic_uint face[DICE];
    unsigned watched; /* scopes; used only on the hub thread */
};

static void on_roll(struct tidings_provider *p)
{
    struct table *table = tidings_provider_state(p);
    unsigned die = (unsigned)random() % DICE;
    struct tidings_change change = {.uri = tidings_str(uris[die])};
    atomic_store(&table->face[die], (unsigned)random() % sides[die]);
    tidings_provider_changed(p, &change, NULL);
}

static int on_open(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p;
    return config.len == 0 ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "dice have no settings");
}

static void on_list(struct tidings_provider *p, struct tidings_list *list)
{
    (void)p;
    for (unsigned die = 0; die < DICE; die++) {
        struct tidings_resource row = tidings_resource(uris[die], uris[die] + 8, "text/plain");
        tidings_list_add(list, &row, NULL);
    }
    tidings_list_done(list, 0, NULL);
}

static void on_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    struct table *table = tidings_provider_state(p);
    for (unsigned die = 0; die < DICE; die++) {
        if (tidings_str_eq(uri, tidings_str(uris[die]))) {
            char text[16];
            snprintf(text, sizeof text, "%u", 1 + atomic_load(&table->face[die]));
            tidings_read_answer(read, tidings_str(text));
            return;
        }
    }
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void on_watch(struct tidings_provider *p, struct tidings_watch *w, struct tidings_str uri)
{
    struct table *table = tidings_provider_state(p);
    (void)uri;
    int rc = table->watched > 0 ? 0 : tidings_provider_every(p, 100, on_roll);
    table->watched += rc == 0;
    tidings_watch_done(w, rc, NULL);
}

static void on_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct table *table = tidings_provider_state(p);
    (void)uri;
    if (--table->watched == 0) {
        tidings_provider_every(p, 0, NULL);
    }
}

static void on_close(struct tidings_provider *p)
{
    (void)p; /* the library frees the state */
}

static const struct tidings_provider_ops dice = {.abi = TIDINGS_PROVIDER_ABI,
                                                 .name = "dice",
                                                 .size = sizeof(struct table),
                                                 .open = on_open,
                                                 .read = on_read,
                                                 .list = on_list,
                                                 .watch = on_watch,
                                                 .unwatch = on_unwatch,
                                                 .close = on_close};

int main(int argc, char **argv)
{
    struct tidings_server *server = tidings_server_create(NULL);
    tidings_server_mount(server, &dice, TIDINGS_STR("dice:///"), TIDINGS_STR(""), NULL);
    int status = tidings_server_main(server, argc, argv);
    tidings_server_destroy(server);
    return status;
}
