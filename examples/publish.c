/* SPDX-License-Identifier: MIT
 *
 * A live resource whose changes any client can announce: `bench://r/1`. After a POST to /publish
 * with a JSON object, all subscribers receive an update at once, with the object as metadata.
 *
 *     publish --http 127.0.0.1:7777
 *     curl -d '{"n":1}' -H 'Content-Type: application/json' http://127.0.0.1:7777/publish
 */
#include <stdio.h>

#include <tidings/tidings.h>

#define URI "bench://r/1"

static struct tidings_server *server;

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_str("announced by POST /publish"), &err);
    tidings_read_done(read, rc, &err);
}

static void on_publish(void *user, const struct tidings_http_request *request,
                       struct tidings_http_response *response)
{
    (void)user;
    struct tidings_error err;
    struct tidings_change change = {.uri = tidings_str(URI), .metadata = request->body};
    if (request->method.len != 4 || memcmp(request->method.ptr, "POST", 4) != 0) {
        tidings_http_reply(response, 405, "text/plain", tidings_str("use POST\n"));
    } else if (tidings_announce(server, &change, &err) < 0) {
        tidings_http_reply(response, 400, "text/plain", tidings_str(err.text));
    }
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    about.uri = tidings_str(URI);
    about.name = tidings_str("announcements");
    about.mime_type = tidings_str("text/plain");
    server = tidings_server_create(&err);
    int rc = server ? tidings_server_set(server, "window", "0", &err) : err.code;
    if (rc == 0) {
        rc = tidings_server_add_resource(server, &about, on_read, NULL, &err);
    }
    if (rc == 0) {
        rc = tidings_server_add_route(server, "/publish", on_publish, NULL, &err);
    }
    int status = tidings_code_exit(rc);
    if (rc < 0) {
        fprintf(stderr, "publish: %s\n", err.text);
    } else {
        status = tidings_server_main(server, argc, argv);
    }
    tidings_server_destroy(server);
    return status;
}
