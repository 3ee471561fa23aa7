/* SPDX-License-Identifier: MIT
 *
 * All kinds of registered resources: single resources, templates, containers with children, a
 * resource in two formats, and a tool that changes one of them. They are the resources of the
 * documents that tidings follows (docs/reference/profiles.md), so that you can try the examples
 * there:
 *
 *     documents --http 127.0.0.1:5000 --profile gateway &
 *     curl -d '{}' 'http://127.0.0.1:5000/changed?uri=file://data/users.json'
 *
 * A POST to /changed announces a change of `uri` (not URL-encoded), with the JSON object in its
 * body as metadata. Without `uri` it announces that any resource may have changed.
 */
#include <stdio.h>

#include <tidings/tidings.h>

static struct tidings_server *server;

/* ---- resources ------------------------------------------------------------------------------- */

static const struct row {
    const char *uri, *name, *description, *mime_type;
    enum { SINGLE, TEMPLATE, CONTAINER } kind;
} rows[] = {
    {"file://data/users.json", "User Data", "User records in JSON format", "application/json",
     SINGLE},
    {"file://data/products.json", "Product Data", NULL, "application/json", SINGLE},
    {"file://logs/app.log", "Application Log", NULL, "text/plain", SINGLE},
    {"file://logs/app-12.log", "Log 12", NULL, "text/plain", SINGLE},
    {"file://logs/old/app.log", "Old Log", NULL, "text/plain", SINGLE},
    {"system://metrics", "Metrics", NULL, "application/json", SINGLE},
    {"file:///documents/report.md", "Report", NULL, "text/markdown", SINGLE},
    {"file:///config.json", "Configuration", NULL, "application/json", SINGLE},
    {"weather://city/san-francisco", "San Francisco", NULL, "application/json", SINGLE},
    {"weather://city/{location}", "Weather", NULL, "application/json", TEMPLATE},
    {"user://{username}", "User Profile", NULL, "application/json", TEMPLATE},
    {"postgres://db/users", "Users", NULL, NULL, CONTAINER},
    {"postgres://db/users/{id}", "User", NULL, "application/json", TEMPLATE},
    {"api:///events", "Events", NULL, NULL, CONTAINER},
    {"api:///events/{id}", "Event", NULL, "application/json", TEMPLATE},
};

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    const struct row *row = user;
    char text[256];
    (void)snprintf(text, sizeof text, "{\"uri\":\"%.*s\"}", uri.len < 200 ? (int)uri.len : 200,
                   uri.ptr);
    if (row->kind == CONTAINER) {
        tidings_read_done(read, 0, NULL);
    } else {
        tidings_read_answer(read, tidings_str(text));
    }
}

/* Lists the rows of the table, which are resources of the template. */
static void list_users(void *user, struct tidings_list *list, struct tidings_str uri)
{
    static const char *const users[] = {"postgres://db/users/1", "postgres://db/users/2",
                                        "postgres://db/users/3"};
    struct tidings_error err = {0, ""};
    int rc = 1;
    (void)user;
    (void)uri;
    for (size_t i = 0; i < sizeof users / sizeof users[0] && rc > 0; i++) {
        struct tidings_resource row = tidings_resource(users[i], "User", "application/json");
        rc = tidings_list_add(list, &row, &err);
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

/* A document, and the text extracted from it; the rest of both is blank. */
static char pdf[102400], extract[8192];

static void read_report(void *user, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error err;
    struct tidings_resource about = {0};
    (void)user;
    (void)uri;
    about.mime_type = tidings_str("application/pdf");
    int rc = tidings_read_blob(read, &about, tidings_strn(pdf, sizeof pdf), &err);
    about.mime_type = tidings_str("text/plain");
    if (rc == 0) {
        rc = tidings_read_text(read, &about, tidings_strn(extract, sizeof extract), &err);
    }
    tidings_read_done(read, rc, &err);
}

static void fill(char *to, size_t size, const char *text)
{
    memset(to, ' ', size);
    memcpy(to, text, strlen(text));
}

static int add_resources(struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rc == 0; i++) {
        struct tidings_resource about =
            tidings_resource(rows[i].uri, rows[i].name, rows[i].mime_type);
        about.description = tidings_str(rows[i].description);
        about.listable = rows[i].kind == CONTAINER;
        void *user = (void *)(uintptr_t)&rows[i]; /* read only */
        rc = rows[i].kind == TEMPLATE
                 ? tidings_server_add_template(server, &about, on_read, user, err)
                 : tidings_server_add_resource(server, &about, on_read, user, err);
    }
    fill(pdf, sizeof pdf, "%PDF-1.4\n");
    fill(extract, sizeof extract, "Extracted text content of the PDF...");
    struct tidings_resource report =
        tidings_resource("file:///docs/report.pdf", "Quarterly Report", "application/pdf");
    report.formats = tidings_str("[\"application/pdf\",\"text/plain\"]");
    rc = rc < 0 ? rc : tidings_server_add_resource(server, &report, read_report, NULL, err);
    return rc < 0 ? rc
                  : tidings_server_on_children(server, tidings_str("postgres://db/users"),
                                               list_users, NULL, err);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void update_user_data(void *user, struct tidings_call *call)
{
    struct tidings_error err;
    (void)user;
    int rc = tidings_changed(server, tidings_str("file://data/users.json"), tidings_str(""), &err);
    if (rc == 0) {
        rc = tidings_call_structured(call, tidings_str("{\"updated\":true}"), &err);
    }
    tidings_call_done(call, rc, &err);
}

static void on_changed(void *user, const struct tidings_http_request *request,
                       struct tidings_http_response *response)
{
    static const char key[] = "uri=";
    struct tidings_error err;
    struct tidings_str q = request->query;
    (void)user;
    int rc = q.len == 0 ? tidings_changed_all(server, &err)
             : q.len > sizeof key - 1 && memcmp(q.ptr, key, sizeof key - 1) == 0
                 ? tidings_changed(server,
                                   tidings_strn(q.ptr + sizeof key - 1, q.len - (sizeof key - 1)),
                                   request->body, &err)
                 : tidings_fail(&err, TIDINGS_E_INVALID, "say ?uri=, or nothing");
    if (rc < 0) {
        tidings_http_reply(response, 400, "text/plain", tidings_str(err.text));
    }
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    const struct tidings_tool tool = {.name = TIDINGS_STR("update_user_data")};
    server = tidings_server_create(&err);
    int rc = server ? add_resources(&err) : err.code;
    if (rc == 0) {
        rc = tidings_server_add_tool(server, &tool, update_user_data, NULL, &err);
    }
    if (rc == 0) {
        rc = tidings_server_add_route(server, "/changed", on_changed, NULL, &err);
    }
    int status = tidings_code_exit(rc);
    if (rc < 0) {
        fprintf(stderr, "documents: %s\n", err.text);
    } else {
        status = tidings_server_main(server, argc, argv);
    }
    tidings_server_destroy(server);
    return status;
}
