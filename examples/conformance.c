/* SPDX-License-Identifier: MIT
 *
 * The resources that the official MCP conformance suite asks a server for, on the public API:
 *
 *     conformance --http 127.0.0.1:0
 *
 * prints its URL on standard error when clients can connect, and serves until it is told to stop.
 */
#include <signal.h>
#include <stdio.h>

#include <tidings/tidings.h>

static struct tidings_server *server;

static void on_signal(int number)
{
    (void)number;
    tidings_server_stop(server);
}

static void on_ready(void *user, const char *url)
{
    (void)user;
    fprintf(stderr, "conformance: serving on %s\n", url);
}

static void read_text(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_str(user), &err);
    tidings_read_done(read, rc, &err);
}

/* One red pixel. */
static const unsigned char png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
    0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08,
    0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0x18, 0xdd, 0x8d,
    0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
};

static void read_png(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_blob(read, NULL, tidings_strn((const char *)png, sizeof(png)), &err);
    tidings_read_done(read, rc, &err);
}

static void read_template(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_str id = tidings_read_variable(read, "id");
    struct tidings_error err;
    char text[512];
    /* The suite's ids are plain; anything that would need escaping is not one of them. */
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = (unsigned char)id.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\' || id.len > 100) {
            tidings_fail(&err, TIDINGS_E_NOTFOUND, "no such id");
            tidings_read_done(read, TIDINGS_E_NOTFOUND, &err);
            return;
        }
    }
    snprintf(text, sizeof(text), "{\"id\":\"%.*s\",\"templateTest\":true}", (int)id.len, id.ptr);
    int rc = tidings_read_text(read, NULL, tidings_str(text), &err);
    tidings_read_done(read, rc, &err);
}

struct row {
    const char *uri, *name, *mime_type;
    tidings_read_fn read;
    char *user;
    bool is_template;
};

static char static_text[] = "This is the content of the static text resource.";
static char watched_text[] = "This resource can be subscribed to.";

static const struct row rows[] = {
    {"test://static-text", "Static text", "text/plain", read_text, static_text, false},
    {"test://static-binary", "Static binary", "image/png", read_png, NULL, false},
    {"test://watched-resource", "Watched resource", "text/plain", read_text, watched_text, false},
    {"test://template/{id}/data", "Template", "application/json", read_template, NULL, true},
};

static int add_rows(struct tidings_error *err)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_resource about;
        tidings_resource_init(&about);
        about.uri = tidings_str(rows[i].uri);
        about.name = tidings_str(rows[i].name);
        about.mime_type = tidings_str(rows[i].mime_type);
        int rc = rows[i].is_template
                     ? tidings_server_add_template(server, &about, rows[i].read, rows[i].user, err)
                     : tidings_server_add_resource(server, &about, rows[i].read, rows[i].user, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    int rc = server ? tidings_server_args(server, argc - 1, argv + 1, &err) : err.code;
    if (rc == 0) {
        rc = add_rows(&err);
    }
    if (rc == 0) {
        rc = tidings_server_declare(server, "tools", &err);
    }
    if (rc == 0) {
        rc = tidings_server_declare(server, "prompts", &err);
    }
    if (rc == 0) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        tidings_server_on_ready(server, on_ready, NULL);
        rc = tidings_server_run(server, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "conformance: %s\n", err.text);
    }
    tidings_server_destroy(server);
    return tidings_code_exit(rc);
}
