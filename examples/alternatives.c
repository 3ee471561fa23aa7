/* SPDX-License-Identifier: MIT
 *
 * One resource in two formats. `report:///sales` is a table in CSV, and in JSON that is generated
 * from it. A read returns both, or only one with `_meta: {"dev.tidings/accept":
 * "application/json"}`. The library itself handles reads of a part, and sends nothing if the client
 * already has the content. `report:///` is a container: its list contains the resources registered
 * below it.
 *
 *     alternatives --http 127.0.0.1:7777
 */
#include <stdio.h>

#include <tidings/tidings.h>

#define CSV "text/csv"
#define JSON "application/json"

static const char table[] = "month,units\n"
                            "January,120\n"
                            "February,95\n"
                            "March,143\n";

static struct tidings_server *server;

/* Writes the table as JSON. Its values need no escaping. */
static size_t make_json(char *out, size_t size)
{
    char month[32];
    unsigned units;
    size_t len = (size_t)snprintf(out, size, "[");
    const char *at = strchr(table, '\n') + 1;
    for (int n = 0; sscanf(at, "%31[^,],%u%n", month, &units, &n) == 2; at += n + 1) {
        len += (size_t)snprintf(out + len, size - len, "%s{\"month\":\"%s\",\"units\":%u}",
                                len > 1 ? "," : "", month, units);
        if (at[n] == '\0' || at[n + 1] == '\0') {
            break;
        }
    }
    return len + (size_t)snprintf(out + len, size - len, "]");
}

static void read_sales(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    struct tidings_resource about = {0}; /* unset fields come from the registration */
    about.mime_type = tidings_str(CSV);
    int rc = tidings_read_text(read, &about, tidings_str(table), &err);
    about.mime_type = tidings_str(JSON);
    if (rc == 0 && tidings_read_wants(read, uri, about.mime_type)) {
        char json[512];
        size_t len = make_json(json, sizeof(json));
        rc = tidings_read_text(read, &about, tidings_strn(json, len), &err);
    }
    tidings_read_done(read, rc, &err);
}

/* A container need not have content. */
static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

static int add_resources(struct tidings_error *err)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str("report:///");
    about.name = tidings_str("reports");
    about.listable = true;
    int rc = tidings_server_add_resource(server, &about, read_nothing, NULL, err);
    memset(&about, 0, sizeof(about));
    about.uri = tidings_str("report:///sales");
    about.name = tidings_str("sales");
    about.title = tidings_str("Units sold per month");
    about.mime_type = tidings_str(CSV);
    about.formats = tidings_str("[\"" CSV "\",\"" JSON "\"]");
    return rc < 0 ? rc : tidings_server_add_resource(server, &about, read_sales, NULL, err);
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    int rc = server ? add_resources(&err) : err.code;
    int status = tidings_code_exit(rc);
    if (rc < 0) {
        fprintf(stderr, "alternatives: %s\n", err.text);
    } else {
        status = tidings_server_main(server, argc, argv);
    }
    tidings_server_destroy(server);
    return status;
}
