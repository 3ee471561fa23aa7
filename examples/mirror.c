/* SPDX-License-Identifier: MIT
 *
 * A live local copy of an entity. FILE always contains its current value, across lost connections
 * and restarts of the server or this program.
 *
 *     mirror http://127.0.0.1:7777/mcp entity:///User@1.0/ann ann.json
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/tidings.h>

struct mirror {
    struct tidings_client *client;
    const char *path;
};

/* Replaces the file atomically: the old one stays until the new one is complete. */
static bool store(const struct mirror *m, const struct tidings_copy_state *s)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.new", m->path);
    FILE *file = fopen(path, "w");
    bool ok =
        file && fprintf(file, "{\"validFrom\":\"%.*s\",\"deleted\":%s,\"value\":%.*s}\n",
                        (int)s->valid_from.len, s->valid_from.ptr, s->is_deleted ? "true" : "false",
                        (int)s->value.len, s->value.ptr) > 0;
    ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
    ok = file && fclose(file) == 0 && ok;
    return ok && rename(path, m->path) == 0;
}

static void on_copy(void *user, const struct tidings_copy_state *s)
{
    struct mirror *m = user;
    if (s->problem) {
        fprintf(stderr, "mirror: %s\n", s->problem->text);
        return;
    }
    printf("%.*s %.*s\n", (int)s->valid_from.len, s->valid_from.ptr,
           s->is_deleted ? 7 : (int)s->value.len, s->is_deleted ? "deleted" : s->value.ptr);
    fflush(stdout);
    if (!store(m, s)) {
        perror(m->path);
        tidings_client_stop(m->client);
    }
}

/* Resumes from the content of the file. */
static int follow(struct mirror *m, const char *uri, struct tidings_error *err)
{
    static char text[4 << 20];
    FILE *file = fopen(m->path, "r");
    struct tidings_str json = {text, file ? fread(text, 1, sizeof(text), file) : 0};
    if (file) {
        fclose(file);
    }
    char *value = tidings_json_get(json, "/value");
    char *from = tidings_json_string(json, "/validFrom");
    char *deleted = tidings_json_get(json, "/deleted");
    struct tidings_copying how = {.fn = on_copy, .user = m};
    if (value && from) {
        how.value = value;
        how.valid_from = from;
        how.is_deleted = deleted && strcmp(deleted, "true") == 0;
    }
    bool ok = tidings_copy_begin(m->client, uri, &how, err) != NULL;
    tidings_free(value);
    tidings_free(from);
    tidings_free(deleted);
    return ok ? tidings_client_run(m->client, err) : err->code;
}

static struct mirror mirror;

static void on_signal(int number)
{
    (void)number;
    tidings_client_stop(mirror.client);
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    struct tidings_client_options often = {.retry_min_ms = 100, .retry_max_ms = 2000};
    if (argc != 4) {
        fprintf(stderr, "usage: mirror URL ENTITY FILE\n");
        return 64;
    }
    mirror.path = argv[3];
    mirror.client = tidings_client_create(argv[1], &often, &err);
    int rc = err.code;
    if (mirror.client) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        rc = follow(&mirror, argv[2], &err);
    }
    if (rc < 0) {
        fprintf(stderr, "mirror: %s\n", err.text);
    }
    tidings_client_destroy(mirror.client);
    return tidings_code_exit(rc);
}
