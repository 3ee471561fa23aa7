/* SPDX-License-Identifier: MIT
 *
 * The server of bench/fanout, on the public API: resources bench://r/1 to bench://r/100. A POST to
 * /publish?n=K announces the first K of them in one go, with the body, a JSON object, as metadata,
 * and answers when that was: the monotonic clock right before the first announcement.
 *
 * It differs from examples/publish only in the number of resources and in that answer.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidings/tidings.h>

enum { RESOURCES = 100, URI_MAX = 32 };

static struct tidings_server *server;
static char uris[RESOURCES][URI_MAX];

static void on_signal(int number)
{
    (void)number;
    tidings_server_stop(server);
}

static void on_ready(void *user, const char *url)
{
    (void)user;
    fprintf(stderr, "fanout_server: serving on %s\n", url);
}

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_str("announced by POST /publish"), &err);
    tidings_read_done(read, rc, &err);
}

/* How many are asked for: "n=K", or one. */
static size_t count_asked(struct tidings_str query)
{
    char text[8] = "";
    if (query.len < 3 || query.len - 2 >= sizeof(text) || memcmp(query.ptr, "n=", 2) != 0) {
        return 1;
    }
    memcpy(text, query.ptr + 2, query.len - 2);
    unsigned long n = strtoul(text, NULL, 10);
    return n < 1 ? 1 : n > RESOURCES ? RESOURCES : (size_t)n;
}

static void on_publish(void *user, const struct tidings_http_request *request,
                       struct tidings_http_response *response)
{
    (void)user;
    struct tidings_error err;
    struct timespec now;
    char answer[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    size_t count = count_asked(request->query);
    for (size_t i = 0; i < count; i++) {
        struct tidings_change change = {.uri = tidings_str(uris[i]), .metadata = request->body};
        if (tidings_announce(server, &change, &err) < 0) {
            tidings_http_reply(response, 400, "text/plain", tidings_str(err.text));
            return;
        }
    }
    snprintf(answer, sizeof(answer), "%" PRId64 " ns\n",
             (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    tidings_http_reply(response, 200, "text/plain", tidings_str(answer));
}

static int add_resources(struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < RESOURCES && rc == 0; i++) {
        struct tidings_resource about = {0};
        snprintf(uris[i], sizeof(uris[i]), "bench://r/%zu", i + 1);
        about.uri = tidings_str(uris[i]);
        about.name = about.uri;
        about.mime_type = tidings_str("text/plain");
        rc = tidings_server_add_resource(server, &about, on_read, NULL, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    int rc = server ? tidings_server_set(server, "window", "0", &err) : err.code;
    if (rc == 0) {
        rc = tidings_server_args(server, argc - 1, argv + 1, &err);
    }
    if (rc == 0) {
        rc = add_resources(&err);
    }
    if (rc == 0) {
        rc = tidings_server_add_route(server, "/publish", on_publish, NULL, &err);
    }
    if (rc == 0) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        tidings_server_on_ready(server, on_ready, NULL);
        rc = tidings_server_run(server, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "fanout_server: %s\n", err.text);
    }
    tidings_server_destroy(server);
    return tidings_code_exit(rc);
}
