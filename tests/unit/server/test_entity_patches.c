/* SPDX-License-Identifier: MIT
 *
 * A client that applies all updates of an entity ends with the stored value: random writes, with
 * values that no patch can express, deletions and restorations; types that keep every version, a
 * few, or one; subscriptions with and without a window; one worker and two.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json.h"
#include "support/served.h"

#define DEADLINE_S 60
enum { STEPS = 80, FOLLOWERS = 3, TYPES = 4 };

/* ---- following ------------------------------------------------------------------------------- */

/* Filled on a worker's thread, which never reads it. */
struct follower {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct json *value;
    char at[32]; /* the version it has */
    bool deleted;
    unsigned told, patches;
    char wrong[256]; /* the first problem, or empty */
};

static void follow(struct follower *f, struct json *data)
{
    struct tidings_str baseline = jv_str(jv_get(data, "baseline"));
    struct json *patch = jv_get(data, "patch"), *next = NULL;
    f->deleted = jv_is_true(jv_get(data, "deleted"));
    if (patch && !str_eq(baseline, tidings_str(f->at))) {
        snprintf(f->wrong, sizeof(f->wrong), "a patch from %.*s, but it has %s", STR_ARG(baseline),
                 f->at);
    } else if (patch) {
        next = merge_apply(f->value, patch);
    } else if (jv_is_true(jv_get(data, "full"))) {
        next = jv_ref(jv_get(data, "value"));
    } else if (!f->deleted) {
        snprintf(f->wrong, sizeof(f->wrong), "neither patch nor value nor deleted");
    }
    f->patches += patch != NULL;
    if (next) {
        jv_unref(f->value);
        f->value = next;
        snprintf(f->at, sizeof(f->at), "%.*s", STR_ARG(jv_str(jv_get(data, "validFrom"))));
    }
}

static void hear(void *user, const struct tidings_update *update)
{
    struct follower *f = user;
    struct json *data = NULL;
    pthread_mutex_lock(&f->lock);
    f->told++;
    if (update->value.len > 0) { /* set if it was deleted before the read */
        assert_int_equal(jv_parse(update->value, JSON_MAX_DEPTH, &data, NULL), 0);
        follow(f, data);
    }
    jv_unref(data);
    pthread_cond_signal(&f->more);
    pthread_mutex_unlock(&f->lock);
}

static void hear_state(void *user, const struct tidings_state_event *event)
{
    struct follower *f = user;
    if (event->state == TIDINGS_STATE_REFUSED) {
        pthread_mutex_lock(&f->lock);
        f->told++;
        snprintf(f->wrong, sizeof(f->wrong), "refused: %.*s", STR_ARG(event->reason));
        pthread_cond_signal(&f->more);
        pthread_mutex_unlock(&f->lock);
    }
}

static void begin_following(struct follower *f, const char *uri, const char *json)
{
    struct tidings_subscribe_options on = {
        .fn = hear, .on_state = hear_state, .user = f, .options = json};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->more, NULL);
    assert_non_null(tidings_server_subscribe(served(), tidings_str(uri), &on, NULL));
}

/* Waits for that version, whose value must be `value`. */
static void end_following(struct follower *f, const char *version, const char *value)
{
    struct timespec until;
    struct json *expected = NULL;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_S;
    assert_int_equal(jv_parse(tidings_str(value), JSON_MAX_DEPTH, &expected, NULL), 0);
    pthread_mutex_lock(&f->lock);
    while (rc == 0 && !f->wrong[0] && strcmp(f->at, version) != 0) {
        rc = pthread_cond_timedwait(&f->more, &f->lock, &until);
    }
    bool is_there = rc == 0 && !f->wrong[0] && !f->deleted && jv_equal(f->value, expected);
    pthread_mutex_unlock(&f->lock); /* the server needs it to stop */
    jv_unref(expected);
    if (!is_there) {
        fail_msg("it has %s after %u updates and waits for %s: %s", f->at, f->told, version,
                 f->wrong);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Calls a tool; returns the validFrom of its answer, or an empty string. */
static const char *call(const char *tool, const char *arguments)
{
    static char version[32];
    const char *answer = served_call(tool, arguments);
    const char *at = strstr(answer, "\"newValidFrom\":\"");
    if (!strstr(answer, "\"success\":true")) {
        fail_msg("%s", answer);
    }
    snprintf(version, sizeof(version), "%.24s", at ? at + strlen("\"newValidFrom\":\"") : "");
    return version;
}

static uint64_t chance_state;

static unsigned chance(unsigned n)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance_state >> 33) % n;
}

static const char *any_value(void)
{
    static char text[128];
    const char *n = chance(5) ? "{\"d\":1}" : "null";
    snprintf(text, sizeof(text),
             chance(4) ? "{\"a\":%u,\"x\":%s,\"y\":{\"z\":[%u]}}" : "{\"a\":%u}", chance(4), n,
             chance(3));
    return text;
}

static const char *upsert(const char *uri, const char *value)
{
    char arguments[512];
    snprintf(arguments, sizeof(arguments), "\"uri\":\"%s\",\"value\":%s", uri, value);
    return call("upsert-entity", arguments);
}

static void write_at_random(const char *uri)
{
    char arguments[128];
    bool deleted = false;
    snprintf(arguments, sizeof(arguments), "\"uri\":\"%s\"", uri);
    for (unsigned i = 0; i < STEPS; i++) {
        if (deleted || chance(10) == 0) {
            call(deleted ? "undelete-entity" : "delete-entity", arguments);
            deleted = !deleted;
        } else {
            upsert(uri, any_value());
        }
    }
    if (deleted) {
        call("undelete-entity", arguments);
    }
}

static void applied_patches_equal_the_stored_value(void **state)
{
    (void)state;
    static const char *const kept[TYPES] = {"{}", "{\"debounceMs\":3600000}", "{\"maxVersions\":2}",
                                            "{\"history\":false}"};
    static struct follower followers[TYPES][FOLLOWERS];
    char uris[TYPES][64], options[128], arguments[256], patch_uri[96], version[32];
    served_set("entities", ":memory:");
    served_run();
    for (unsigned t = 0; t < TYPES; t++) {
        snprintf(arguments, sizeof(arguments),
                 "\"name\":\"T%u\",\"version\":1,\"jsonSchema\":{},\"options\":%s", t, kept[t]);
        call("add-entity-type", arguments);
        snprintf(uris[t], sizeof(uris[t]), "entity:///T%u@1/e%u", t, t);
        snprintf(version, sizeof(version), "%s", upsert(uris[t], "{\"first\":true}"));
        snprintf(options, sizeof(options), "{\"baseline\":\"%s\"}", version);
        snprintf(patch_uri, sizeof(patch_uri), "%s/patch", uris[t]);
        memset(followers[t], 0, sizeof(followers[t]));
        assert_int_equal(jv_parse(STR("{\"first\":true}"), 8, &followers[t][0].value, NULL), 0);
        snprintf(followers[t][0].at, sizeof(followers[t][0].at), "%s", version);
        begin_following(&followers[t][0], patch_uri, options);
        begin_following(&followers[t][1], uris[t], "{\"include\":\"patch\",\"windowMs\":3}");
        begin_following(&followers[t][2], uris[t], "{\"include\":\"patch\",\"initial\":false}");
    }
    for (unsigned t = 0; t < TYPES; t++) {
        chance_state = t + 1;
        write_at_random(uris[t]);
        snprintf(version, sizeof(version), "%s", upsert(uris[t], "{\"last\":{\"of\":\"all\"}}"));
        for (unsigned i = 0; i < FOLLOWERS; i++) {
            end_following(&followers[t][i], version, "{\"last\":{\"of\":\"all\"}}");
        }
        assert_true(t > 0 || followers[t][0].patches > 0);
    }
    served_stop();
    for (unsigned i = 0; i < TYPES * FOLLOWERS; i++) {
        jv_unref(followers[i / FOLLOWERS][i % FOLLOWERS].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(applied_patches_equal_the_stored_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
