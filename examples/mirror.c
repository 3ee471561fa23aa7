/* SPDX-License-Identifier: MIT
 *
 * A live local copy of an entity: FILE holds its value, whatever happens to the connection, the
 * server or this program.
 *
 *     mirror http://127.0.0.1:7777/mcp entity:///User@1.0/ann ann.json
 *
 * It asks to be told the patches that follow the version it has. A patch that begins at another
 * version shows that one was missed: it is left alone, and what became of ours since is read.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidings/tidings.h>

struct mirror {
    struct tidings_client *client;
    struct tidings_subscription *subscription;
    const char *uri, *path;
    char *from;  /* the version we have begins then; NULL: we have none */
    char *value; /* JSON */
    bool deleted;
};

static void set(char **text, char *to)
{
    tidings_free(*text);
    *text = to;
}

static bool is_true(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    bool yes = text && strcmp(text, "true") == 0;
    tidings_free(text);
    return yes;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* All of it or nothing: the old file is there until the new one is complete. */
static bool store(const struct mirror *m)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.new", m->path);
    FILE *file = fopen(path, "w");
    bool ok = file && fprintf(file, "{\"validFrom\":\"%s\",\"deleted\":%s,\"value\":%s}\n", m->from,
                              m->deleted ? "true" : "false", m->value) > 0;
    ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
    ok = file && fclose(file) == 0 && ok;
    return ok && rename(path, m->path) == 0;
}

static void load(struct mirror *m)
{
    static char text[4 << 20];
    FILE *file = fopen(m->path, "r");
    struct tidings_str json = {text, file ? fread(text, 1, sizeof(text), file) : 0};
    if (file) {
        fclose(file);
    }
    m->from = tidings_json_string(json, "/validFrom");
    m->value = tidings_json_get(json, "/value");
    m->deleted = is_true(json, "/deleted");
}

/* ---- what we are told ------------------------------------------------------------------------ */

/* The patches that follow the version we have. */
static const char *options(const struct mirror *m, char text[128])
{
    snprintf(text, 128, "{\"baseline\":\"%s\"}", m->from);
    return text;
}

/* From now on we have this. Whenever the connection is made again, it goes on from here. */
static void keep(struct mirror *m)
{
    char text[128];
    if (m->subscription) {
        tidings_subscription_set_options(m->subscription, options(m, text), NULL);
    }
    if (!store(m)) {
        perror(m->path);
        tidings_client_stop(m->client);
    }
    printf("%s %s\n", m->from, m->deleted ? "deleted" : m->value);
    fflush(stdout);
}

/* One version: whole, or the patch that leads to it. false: something before it is missing. */
static bool take(struct mirror *m, const char *told)
{
    struct tidings_str json = tidings_str(told);
    char *from = tidings_json_string(json, "/validFrom");
    char *baseline = tidings_json_string(json, "/baseline");
    char *patch = tidings_json_get(json, "/patch");
    char *value = tidings_json_get(json, "/value");
    bool is_deleted = is_true(json, "/deleted");
    bool is_known = from && m->from && strcmp(from, m->from) <= 0 && is_deleted == m->deleted;
    bool fits = baseline && m->from && strcmp(baseline, m->from) == 0;
    if (is_deleted && fits) {
        m->deleted = true; /* if it comes back, it goes on from the version we have */
        keep(m);
    } else if (!is_known && !is_deleted && from && (value || (patch && fits))) {
        if (!value) {
            value = tidings_json_merge(tidings_str(m->value), tidings_str(patch), NULL);
        }
        set(&m->value, value);
        set(&m->from, from);
        value = from = NULL;
        m->deleted = false;
        keep(m);
        fits = true;
    }
    tidings_free(from);
    tidings_free(baseline);
    tidings_free(patch);
    tidings_free(value);
    return is_known || fits;
}

/* Read what became of the version we have, or everything if we have none. */
static int catch_up(struct mirror *m)
{
    struct tidings_error err = {0, ""};
    char uri[1100];
    snprintf(uri, sizeof(uri), m->from ? "%s/patch/%s" : "%s", m->uri, m->from);
    char *answer = tidings_client_read(m->client, uri, &err);
    char *told = answer ? tidings_json_string(tidings_str(answer), "/contents/0/text") : NULL;
    if (told) {
        take(m, told);
    } else if (err.code == TIDINGS_E_GONE && m->from) {
        m->deleted = true;
        keep(m);
        err.code = 0;
    } else if (err.code == TIDINGS_E_INVALID && m->from) {
        set(&m->from, NULL); /* the server knows that version no more */
        err.code = catch_up(m);
    } else {
        fprintf(stderr, "mirror: %s\n", err.text);
    }
    tidings_free(told);
    tidings_free(answer);
    return err.code;
}

static void on_update(void *user, const struct tidings_client_update *update)
{
    struct mirror *m = user;
    char *told = tidings_json_get(update->params, "/_meta/dev.tidings~1data");
    if (!told || !take(m, told)) {
        catch_up(m);
    }
    tidings_free(told);
}

static void on_state(void *user, const struct tidings_client_event *event)
{
    if (event->state == TIDINGS_CLIENT_REFUSED || event->state == TIDINGS_CLIENT_LOST) {
        catch_up(user); /* deleted, or our version is forgotten */
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static struct mirror mirror;
static volatile sig_atomic_t is_ending;

static void on_signal(int number)
{
    (void)number;
    is_ending = 1;
    tidings_client_stop(mirror.client);
}

static int follow(struct mirror *m, struct tidings_error *err)
{
    struct tidings_subscribing on = {.fn = on_update, .user = m};
    char uri[1024], text[128];
    int rc = 0;
    snprintf(uri, sizeof(uri), "%s/patch", m->uri);
    load(m);
    if (m->from && m->value) {
        keep(m);
    } else {
        set(&m->from, NULL);
        rc = catch_up(m);
    }
    if (rc == 0) {
        on.options = options(m, text);
        m->subscription = tidings_client_subscribe(m->client, uri, &on, err);
        rc = m->subscription ? 0 : err->code;
    }
    tidings_client_on_state(m->client, on_state, m);
    while (rc == 0 && !is_ending) {
        rc = tidings_client_run(m->client, err);
        if (rc == TIDINGS_E_NOTFOUND && m->deleted) {
            rc = 0; /* deleted before we came: perhaps it is undeleted one day */
            sleep(1);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    struct tidings_client_options often = {.retry_min_ms = 100, .retry_max_ms = 2000};
    if (argc != 4) {
        fprintf(stderr, "usage: mirror URL ENTITY FILE\n");
        return 64;
    }
    mirror.uri = argv[2];
    mirror.path = argv[3];
    mirror.client = tidings_client_create(argv[1], &often, &err);
    int rc = err.code;
    if (mirror.client) {
        signal(SIGTERM, on_signal);
        signal(SIGINT, on_signal);
        rc = follow(&mirror, &err);
    }
    if (rc < 0 && err.text[0]) {
        fprintf(stderr, "mirror: %s\n", err.text);
    }
    tidings_client_destroy(mirror.client);
    tidings_free(mirror.from);
    tidings_free(mirror.value);
    return tidings_code_exit(rc);
}
