/* SPDX-License-Identifier: MIT
 *
 * A live resource in thirty lines: `hello:///count`, which changes every second.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <tidings/tidings.h>

static struct tidings_server *server;
static const char uri[] = "hello:///count";
static atomic_uint count;

static void read_count(void *user, struct tidings_read *read, struct tidings_str asked)
{
    char text[64];
    struct tidings_error err;
    (void)user;
    snprintf(text, sizeof(text), "%.*s is %u\n", (int)asked.len, asked.ptr, atomic_load(&count));
    int rc = tidings_read_text(read, NULL, tidings_str(text), &err);
    tidings_read_done(read, rc, &err);
}

static void *tick(void *user)
{
    while (sleep(1) == 0) {
        atomic_fetch_add(&count, 1);
        tidings_changed(server, tidings_str(uri), tidings_str(NULL), NULL);
    }
    return user;
}

static void on_ready(void *user, const char *url)
{
    fprintf(user, "hello: serving on %s\n", url);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    struct tidings_error err = {0, ""};
    struct tidings_resource about;
    tidings_resource_init(&about);
    about.uri = tidings_str(uri);
    about.name = tidings_str("count");
    server = tidings_server_create(&err);
    if (server && tidings_server_args(server, argc - 1, argv + 1, &err) == 0 &&
        tidings_server_add_resource(server, &about, read_count, NULL, &err) == 0 &&
        pthread_create(&thread, NULL, tick, NULL) == 0) {
        tidings_server_on_ready(server, on_ready, stderr);
        tidings_server_run(server, &err);
    }
    fprintf(stderr, "hello: %s\n", err.text);
    return tidings_code_exit(err.code);
}
