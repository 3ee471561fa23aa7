/* SPDX-License-Identifier: MIT
 *
 * A live resource in thirty lines: `hello:///count`, which changes every second.
 *
 *     hello --http 127.0.0.1:7777 &
 *     tidings watch http://127.0.0.1:7777/mcp hello:///count
 */
#include <stdatomic.h>
#include <stdio.h>

#include <tidings/tidings.h>

#define URI "hello:///count"

static atomic_uint count;

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    char text[64];
    (void)user;
    snprintf(text, sizeof text, "%.*s is %u\n", (int)uri.len, uri.ptr, atomic_load(&count));
    tidings_read_answer(read, tidings_str(text));
}

static void on_second(void *server)
{
    atomic_fetch_add(&count, 1);
    tidings_changed(server, TIDINGS_STR(URI), TIDINGS_STR(""), NULL);
}

int main(int argc, char **argv)
{
    struct tidings_resource about = tidings_resource(URI, "count", "text/plain");
    struct tidings_server *server = tidings_server_create(NULL);
    if (server) {
        tidings_server_add_resource(server, &about, on_read, NULL, NULL);
        tidings_server_every(server, 1000, on_second, server, NULL);
    }
    int status = tidings_server_main(server, argc, argv);
    tidings_server_destroy(server);
    return status;
}
