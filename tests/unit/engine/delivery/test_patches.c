/* SPDX-License-Identifier: MIT
 *
 * Patches in notifications. Each patch starts at the end of the previous one on the same
 * subscription, whatever was merged, filtered, deleted or too large. The server computes it once
 * per change and baseline, with and without a provider that makes patches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "formats/json.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_docs.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define DATA "params|_meta|dev.tidings/data"
#define PATCH_WITH(more) "{\"include\":\"patch\",\"initial\":true," more "}"
#define PATCH PATCH_WITH("\"windowMs\":0")
#define A "doc:///a"
#define ON_A "[\"" A "\"]"

static struct harness b;
static struct docs docs;

static int begin(void **state)
{
    docs_begin_with_a(&docs, &b, state);
    return 0;
}

static int end(void **state)
{
    (void)state;
    docs_end(&docs);
    return 0;
}

static void put_by(const char *uri, const char *text, const char *origin)
{
    docs_put(&docs, uri, text, origin);
    harness_run_until_idle(&b);
}

static void put(const char *uri, const char *text)
{
    put_by(uri, text, NULL);
}

static const char *nth(const struct client *c, size_t n)
{
    return update_nth(c, NULL, n);
}

static void assert_patch(const char *update, const char *baseline, const char *patch)
{
    assert_json(update, DATA "|baseline", baseline);
    assert_json(update, DATA "|patch", patch);
}

/* ---- a client that follows ------------------------------------------------------------------- */

/* The value of a client that applies its updates and never reads. */
struct follower {
    struct json *value;
    char etag[40];
    size_t seen;
};

static void follow(struct follower *f, const struct client *c, const char *subscribed)
{
    for (; f->seen < update_count(c, subscribed); f->seen++) {
        const char *text = update_nth(c, subscribed, f->seen);
        struct json *root = NULL, *next = NULL;
        assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, NULL), 0);
        struct json *data = jv_get(jv_get(jv_get(root, "params"), "_meta"), "dev.tidings/data");
        struct json *patch = jv_get(data, "patch");
        if (!data) { /* deleted before the read: the deletion or a later change follows */
            jv_unref(root);
            continue;
        }
        if (patch) {
            assert_true(str_eq(jv_str(jv_get(data, "baseline")), tidings_str(f->etag)));
            next = merge_apply(f->value, patch);
        } else if (!jv_get(data, "deleted")) {
            assert_true(jv_is_true(jv_get(data, "full")));
            next = jv_ref(jv_get(data, "value"));
        }
        if (next) {
            jv_unref(f->value);
            f->value = next;
            snprintf(f->etag, sizeof(f->etag), "%.*s", STR_ARG(jv_str(jv_get(data, "etag"))));
        }
        jv_unref(root);
    }
}

static void assert_follows(const struct follower *f, const char *uri)
{
    struct json *now = NULL;
    assert_int_equal(jv_parse(tidings_str(docs_text(&docs, uri)), JSON_MAX_DEPTH, &now, NULL), 0);
    assert_true(jv_equal(f->value, now));
    assert_string_equal(f->etag, docs_etag(&docs, uri));
    jv_unref(now);
}

static void assert_told_all(const struct client *c, const char *uri)
{
    struct follower f = {.seen = 0};
    follow(&f, c, NULL);
    assert_follows(&f, uri);
    jv_unref(f.value);
}

/* ---- the chain ------------------------------------------------------------------------------- */

static void first_update_is_complete_and_later_ones_are_patches(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    assert_json(nth(c, 0), "params|_meta|dev.tidings/initial", "true");
    assert_json(nth(c, 0), DATA "|full", "true");
    assert_json(nth(c, 0), DATA "|etag", "v0001");
    assert_json(nth(c, 0), DATA "|value|s|x", "1");
    put(A, "{\"n\":2,\"s\":{\"x\":1}}");
    assert_patch(nth(c, 1), "v0001", "{\"n\":2}");
    assert_json(nth(c, 1), DATA "|etag", "v0002");
    put(A, "{\"n\":2}");
    assert_patch(nth(c, 2), "v0002", "{\"s\":null}");
    put(A, "{\"n\":2,\"s\":null}"); /* which a patch cannot express */
    assert_json(nth(c, 3), DATA "|full", "true");
    assert_json(nth(c, 3), DATA "|etag", "v0004");
    put(A, "{\"n\":3}");
    assert_patch(nth(c, 4), "v0004", "{\"s\":null,\"n\":3}");
    client_free(c);
}

static void patches_start_at_the_given_baseline(void **state)
{
    (void)state;
    docs_write(&docs, A, "{\"n\":2}");
    struct client *c = listen_with(&b, ON_A, PATCH_WITH("\"baseline\":\"v0002\",\"windowMs\":0"));
    assert_patch(nth(c, 0), "v0002", "{}");
    put(A, "{\"n\":3}");
    assert_patch(nth(c, 1), "v0002", "{\"n\":3}");
    client_free(c);
}

static void window_becomes_one_patch_from_the_last_sent_version(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH_WITH("\"windowMs\":60000"));
    put(A, "{\"n\":2}");
    put(A, "{\"n\":3}");
    put(A, "{\"n\":4}");
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 3);
    assert_json(nth(c, 1), DATA "|baseline", "v0001");
    assert_json(nth(c, 2), "params|_meta|dev.tidings/merged", "2");
    assert_json(nth(c, 2), DATA "|baseline", "v0002");
    assert_json(nth(c, 2), DATA "|etag", "v0004");
    assert_json(nth(c, 2), DATA "|patch", "{\"n\":4}");
    client_free(c);
}

static void patch_includes_changes_that_a_filter_dropped(void **state)
{
    (void)state;
    struct client *c = listen_with(
        &b, ON_A,
        PATCH_WITH("\"windowMs\":0,\"filter\":{\"properties\":{\"metadata\":{\"properties\":"
                   "{\"etag\":{\"pattern\":\"[13579]$\"}}}}}"));
    put(A, "{\"n\":2,\"s\":{\"x\":1}}");
    size_t told = update_count(c, NULL);
    put(A, "{\"n\":2,\"s\":{\"x\":2}}");
    assert_told_all(c, A);
    assert_true(told >= 1);
    client_free(c);
}

static void deletion_is_sent_and_recreation_patches_the_old_value(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    put(A, NULL);
    assert_json(nth(c, 1), "params|_meta|dev.tidings/change", "deleted");
    assert_json(nth(c, 1), DATA "|deleted", "true");
    assert_json(nth(c, 1), DATA "|baseline", "v0001");
    assert_json(nth(c, 1), DATA "|etag", "v0002");
    assert_no_json(nth(c, 1), DATA "|patch");
    put(A, "{\"n\":9}");
    assert_json(nth(c, 2), "params|_meta|dev.tidings/change", "created");
    assert_patch(nth(c, 2), "v0001", "{\"s\":null,\"n\":9}");
    client_free(c);
}

static void resource_deleted_before_the_read_is_notified_without_content(void **state)
{
    struct client *c = listen_with(&b, ON_A, PATCH);
    docs_put(&docs, A, "{\"n\":2}", NULL);
    docs_write(&docs, A, NULL); /* not announced yet */
    harness_run_until_idle(&b);
    put(A, "{\"n\":3}");
    if (*state) { /* which sent the deletion in its place */
        assert_json(nth(c, 1), DATA "|deleted", "true");
        assert_json(nth(c, 2), DATA "|baseline", "v0001");
    } else {
        assert_no_json(nth(c, 1), DATA);
        assert_json(nth(c, 2), DATA "|full", "true");
    }
    client_free(c);
}

static void versions_are_sent_once_and_in_order(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    docs_put(&docs, A, "{\"n\":2}", NULL);
    docs_put(&docs, A, "{\"n\":3}", NULL);
    harness_run_until_idle(&b);
    assert_told_all(c, A);
    client_free(c);
}

/* ---- how often ------------------------------------------------------------------------------- */

#define MANY 50u

static void patch_is_shared_by_subscribers_at_the_same_version(void **state)
{
    (void)state;
    struct client *clients[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        clients[i] = listen_with(&b, ON_A, PATCH);
    }
    uint64_t before = b.worker[0]->delivery->contents.patches;
    put(A, "{\"n\":2}");
    assert_int_equal(b.worker[0]->delivery->contents.patches - before, 1);
    put(A, "{\"n\":3}");
    assert_int_equal(b.worker[0]->delivery->contents.patches - before, 2);
    for (unsigned i = 0; i < MANY; i++) {
        assert_json(nth(clients[i], 2), DATA "|patch", "{\"n\":3}");
        client_free(clients[i]);
    }
}

static void patches_are_computed_once_per_sent_version(void **state)
{
    (void)state;
    enum { K = 5 };
    struct client *clients[K][MANY / K];
    for (unsigned k = 0; k < K; k++) {
        for (unsigned i = 0; i < MANY / K; i++) {
            clients[k][i] = listen_with(&b, ON_A, PATCH_WITH("\"rateMs\":60000"));
        }
        /* The first change passes; later subscribers are at another version. */
        put(A, text_of("{\"n\":%u}", 10 + k));
    }
    uint64_t before = b.worker[0]->delivery->contents.patches;
    put(A, "{\"n\":99}");
    harness_end_windows(&b);
    assert_int_equal(b.worker[0]->delivery->contents.patches - before, K);
    for (unsigned k = 0; k < K; k++) {
        for (unsigned i = 0; i < MANY / K; i++) {
            assert_json(nth(clients[k][i], 2), DATA "|baseline", text_of("v%04u", k + 2));
            client_free(clients[k][i]);
        }
    }
}

/* ---- who wrote it ---------------------------------------------------------------------------- */

#define MINE PATCH_WITH("\"windowMs\":0,\"origin\":\"me\",\"echo\":false")

static void own_write_becomes_patch_base(void **state)
{
    struct client *c = listen_with(&b, ON_A, MINE);
    put_by(A, "{\"n\":2}", "me");
    assert_int_equal(update_count(c, NULL), 1);
    put_by(A, "{\"n\":2,\"t\":1}", "you");
    if (*state) { /* the writer has v0002 from the answer to its write */
        assert_patch(nth(c, 1), "v0002", "{\"t\":1}");
    } else {
        assert_json(nth(c, 1), DATA "|full", "true");
    }
    put_by(A, "{\"n\":2}", "you");
    assert_json(nth(c, 2), DATA "|baseline", "v0003");
    client_free(c);
}

static void announce(const char *etag, const char *origin)
{
    struct tidings_change change = {
        .uri = STR(A), .etag = tidings_str(etag), .origin = tidings_str(origin)};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static void own_write_never_moves_the_patch_base_back(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, MINE);
    docs_write(&docs, A, "{\"n\":2}");
    docs_write(&docs, A, "{\"n\":3}");
    docs_write(&docs, A, "{\"n\":4}");
    announce("v0002", "you");
    assert_json(nth(c, 1), DATA "|etag", "v0004"); /* its current state */
    announce("v0003", "me");
    put_by(A, "{\"n\":5}", "you");
    assert_int_equal(update_count(c, NULL), 3);
    assert_patch(nth(c, 2), "v0004", "{\"n\":5}");
    client_free(c);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *padded(unsigned n)
{
    static char text[400];
    snprintf(text, sizeof(text), "{\"n\":%u,\"pad\":\"%0*u\"}", n, 200, n);
    return text;
}

static void too_large_patch_is_omitted_and_patch_base_moves_on(void **state)
{
    b.limits.max_value_bytes = 150;
    struct client *c = listen_with(&b, ON_A, PATCH);
    put(A, padded(2));
    assert_no_json(nth(c, 1), DATA);
    if (*state) {
        put(A, "{\"n\":3}");
        assert_patch(nth(c, 2), "v0002", "{\"pad\":null,\"n\":3}");
    } else {
        put(A, "{\"n\":3}");
        assert_json(nth(c, 2), DATA "|full", "true");
    }
    client_free(c);
}

static void failed_provider_leaves_patch_base_unchanged(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    docs.fails = TIDINGS_E_IO;
    put(A, "{\"n\":2}");
    assert_int_equal(update_count(c, NULL), 2);
    assert_no_json(nth(c, 1), DATA);
    put(A, "{\"n\":3}");
    assert_json(nth(c, 2), DATA "|baseline", "v0001");
    docs.fails = TIDINGS_E_NOTFOUND;
    put(A, NULL);
    assert_json(nth(c, 3), DATA "|deleted", "true");
    assert_json(nth(c, 3), DATA "|baseline", "v0003");
    put(A, "{\"n\":4}");
    assert_json(nth(c, 4), DATA "|baseline", "v0003");
    client_free(c);
}

static void forgotten_version_is_sent_complete(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    docs_write(&docs, A, "{\"n\":2}");
    docs_forget(&docs, A);
    put(A, "{\"n\":3}");
    assert_json(nth(c, 1), DATA "|full", "true");
    assert_json(nth(c, 1), DATA "|value|n", "3");
    put(A, "{\"n\":4}");
    assert_json(nth(c, 2), DATA "|baseline", "v0003");
    client_free(c);
}

static void patch_base_remembers_at_most_its_maximum(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"doc:///*\"]", "{\"include\":\"patch\",\"windowMs\":0}");
    for (unsigned i = 0; i < 3; i++) {
        docs_write(&docs, text_of("doc:///d%u", i), "{}");
        put(text_of("doc:///d%u", i), "{\"n\":1}");
        put(text_of("doc:///d%u", i), "{\"n\":2}");
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_json(nth(c, 2 * i), DATA "|full", "true");
        assert_json(nth(c, 2 * i + 1), DATA "|patch", "{\"n\":2}");
    }
    client_free(c);
    harness_run_until_idle(&b);
    /* Only the versions of the newest changes are kept. */
    assert_true(b.worker[0]->delivery->contents.baselines.by_name.count <= 12);
}

static void content_other_than_json_is_sent_unchanged(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    put(A, "{\"n\":2}");
    assert_json(nth(c, 1), DATA "|full", "true");
    assert_json(nth(c, 1), DATA "|contents|0|text", "{\"n\":2}");
    assert_no_json(nth(c, 1), DATA "|patch");
    client_free(c);
}

/* ---- resuming, slow providers -------------------------------------------------------------- */

static void session_resumes_patches_from_its_last_version(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-06-18", &s);
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_empty_result(session_subscribe_with(&s, A, PATCH));
    assert_json(nth(c, 0), DATA "|full", "true");
    client_free(c);
    put(A, "{\"n\":2}");
    put(A, "{\"n\":3}");
    c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(nth(c, 0), DATA "|baseline", "v0001");
    assert_json(nth(c, 0), DATA "|etag", "v0003");
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

static void slow_provider_keeps_the_patch_order(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, ON_A, PATCH);
    struct client *gone = listen_with(&b, ON_A, PATCH);
    docs.holds = true;
    put(A, "{\"n\":2}");
    put(A, "{\"n\":3}");
    assert_int_equal(update_count(c, NULL), 1);
    client_free(gone);
    while (docs.held_count > 0) {
        docs_release(&docs);
        harness_run_until_idle(&b);
    }
    assert_told_all(c, A);
    client_free(c);
}

/* ---- random writes --------------------------------------------------------------------------- */

static uint64_t chance_state;

static unsigned chance(unsigned n)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance_state >> 33) % n;
}

static const char *any_value(void)
{
    static char text[256];
    const char *x = chance(3) ? "{\"d\":1}" : "[1,null]";
    switch (chance(6)) {
    case 0:
        return "{}";
    case 1:
        snprintf(text, sizeof(text), "{\"n\":%u}", chance(3));
        break;
    case 2:
        snprintf(text, sizeof(text), "{\"n\":null,\"x\":%s}", x); /* not expressible as a patch */
        break;
    case 3:
        snprintf(text, sizeof(text), "[%u]", chance(9));
        break;
    default:
        snprintf(text, sizeof(text), "{\"n\":%u,\"x\":%s,\"y\":{\"z\":%u}}", chance(3), x,
                 chance(3));
    }
    return text;
}

enum { FOLLOWERS = 7, WRITER = 6 };

/* The client has its own write from the answer and receives no update of it. */
static void write_own(struct follower *f, const struct client *c)
{
    harness_run_until_idle(&b);
    follow(f, c, NULL);
    put_by(A, any_value(), "me");
    jv_unref(f->value);
    assert_int_equal(jv_parse(tidings_str(docs_text(&docs, A)), 32, &f->value, NULL), 0);
    snprintf(f->etag, sizeof(f->etag), "%s", docs_etag(&docs, A));
}

/* Writes by any client, periods of any length, deletions; in the end all clients have the
 * current value. */
static void client_that_applies_all_patches_ends_with_the_current_value(void **state)
{
    (void)state;
    static const char *const options[FOLLOWERS] = {
        PATCH,
        PATCH_WITH("\"windowMs\":5000"),
        "{\"include\":\"patch\",\"windowMs\":0}",
        PATCH_WITH("\"rateMs\":60000"),
        PATCH,
        PATCH_WITH("\"windowMs\":1"),
        MINE,
    };
    for (unsigned round = 0; round < 10; round++) {
        struct client *clients[FOLLOWERS];
        struct follower f[FOLLOWERS] = {0};
        chance_state = round + 1;
        docs_write(&docs, A, "{\"n\":0}");
        for (unsigned i = 0; i < FOLLOWERS; i++) {
            clients[i] = listen_with(&b, ON_A, options[i]);
        }
        for (unsigned step = 0; step < 60; step++) {
            bool deletes = docs_text(&docs, A) && chance(12) == 0;
            docs_put(&docs, A, deletes ? NULL : any_value(), NULL);
            if (chance(6) == 0) {
                write_own(&f[WRITER], clients[WRITER]);
            } else if (chance(2)) {
                harness_run_until_idle(&b);
            }
            if (chance(8) == 0) {
                harness_end_windows(&b);
            }
            for (unsigned i = 0; i < FOLLOWERS; i++) {
                clients[i]->pending = chance(5) ? 0 : 1u << 20; /* it may be slow */
            }
        }
        put(A, any_value());
        for (unsigned i = 0; i < FOLLOWERS; i++) {
            client_drain(clients[i]);
        }
        harness_run_until_idle(&b);
        harness_end_windows(&b);
        harness_run_until_idle(&b);
        for (unsigned i = 0; i < FOLLOWERS; i++) {
            follow(&f[i], clients[i], NULL);
            assert_follows(&f[i], A);
            jv_unref(f[i].value);
            client_free(clients[i]);
        }
    }
}

int main(void)
{
    static unsigned patching = DOCS_PATCHING, text = DOCS_TEXT;
#define WITH(test, flags) cmocka_unit_test_prestate_setup_teardown(test, begin, end, &(flags))
#define BOTH(test) cmocka_unit_test_setup_teardown(test, begin, end), WITH(test, patching)
    const struct CMUnitTest tests[] = {
        BOTH(first_update_is_complete_and_later_ones_are_patches),
        BOTH(patches_start_at_the_given_baseline),
        BOTH(window_becomes_one_patch_from_the_last_sent_version),
        BOTH(patch_includes_changes_that_a_filter_dropped),
        BOTH(deletion_is_sent_and_recreation_patches_the_old_value),
        BOTH(resource_deleted_before_the_read_is_notified_without_content),
        BOTH(versions_are_sent_once_and_in_order),
        BOTH(patch_is_shared_by_subscribers_at_the_same_version),
        BOTH(patches_are_computed_once_per_sent_version),
        BOTH(own_write_becomes_patch_base),
        WITH(own_write_never_moves_the_patch_base_back, patching),
        BOTH(too_large_patch_is_omitted_and_patch_base_moves_on),
        WITH(failed_provider_leaves_patch_base_unchanged, patching),
        WITH(forgotten_version_is_sent_complete, patching),
        BOTH(patch_base_remembers_at_most_its_maximum),
        WITH(content_other_than_json_is_sent_unchanged, text),
        BOTH(session_resumes_patches_from_its_last_version),
        WITH(slow_provider_keeps_the_patch_order, patching),
        BOTH(client_that_applies_all_patches_ends_with_the_current_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
