/* SPDX-License-Identifier: MIT
 *
 * Keys and introspection over HTTP: the tokens that wait, the number of fetches, and servers that
 * do not answer. */
#include "security/auth.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "security/remote_auth.h"
#include "support/jose.h"
#include "support/scripted_server.h"

/* ---- the authorization server ---------------------------------------------------------------- */

static struct as {
    struct scripted_server http;
    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t changed;
    const struct jose_key *key;
    const char *kid;
    bool is_held, is_broken;
    const char *answer; /* to introspections */
    const char *metadata_path, *metadata_issuer;
    unsigned key_sets, introspections;
    char seen[8192]; /* the last introspection request */
} as;

static void set_flag(bool *flag, bool value)
{
    pthread_mutex_lock(&as.lock);
    *flag = value;
    pthread_cond_broadcast(&as.changed);
    pthread_mutex_unlock(&as.lock);
}

static void reply_metadata(const struct scripted_request *r)
{
    char body[512];
    snprintf(body, sizeof(body), "{\"issuer\":\"%s%s\",\"jwks_uri\":\"%s/keys\"}", as.http.url,
             as.metadata_issuer, as.http.url);
    scripted_reply(r, 200, "", "application/json", body);
}

static void reply_keys(const struct scripted_request *r)
{
    struct buf set;
    char more[64];
    buf_init(&set, 65536);
    pthread_mutex_lock(&as.lock);
    as.key_sets++;
    snprintf(more, sizeof(more), "\"kid\":\"%s\"", as.kid);
    jose_put_set(&set, as.key, more);
    pthread_mutex_unlock(&as.lock);
    scripted_reply(r, 200, "", "application/json", set.ptr);
    buf_deinit(&set);
}

static void on_request(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    char path[256] = "";
    sscanf(r->head, "%*s %255s", path);
    pthread_mutex_lock(&as.lock);
    if (strcmp(path, "/introspect") == 0) {
        as.introspections++;
        snprintf(as.seen, sizeof(as.seen), "%s%s", r->head, r->body);
    }
    while (as.is_held) {
        pthread_cond_wait(&as.changed, &as.lock);
    }
    bool is_broken = as.is_broken;
    const char *answer = as.answer, *metadata = as.metadata_path;
    pthread_mutex_unlock(&as.lock);
    if (is_broken) {
        scripted_reply(r, 500, "", "text/plain", "broken");
    } else if (strcmp(path, "/keys") == 0) {
        reply_keys(r);
    } else if (strcmp(path, "/introspect") == 0) {
        scripted_reply(r, 200, "", "application/json", answer);
    } else if (metadata && strcmp(path, metadata) == 0) {
        reply_metadata(r);
    } else {
        scripted_reply(r, 404, "", "text/plain", "no");
    }
}

/* ---- the cache --------------------------------------------------------------------------------
 */

static struct fixture {
    struct loop *loop;
    struct mailbox *mailbox;
    struct jose_key *first, *second;
    char keys_url[128], introspect_url[128], credentials[64];
    struct auth_issuer issuer;
    struct auth_options options;
    struct auth *auth;
    struct token_cache *cache;
    struct buf token;
    unsigned answers;
    enum auth_outcome outcome;
    const char *description;
    char name[256];
} f;

static int set_up(void **state)
{
    (void)state;
    static const char *const audiences[] = {"https://h.test/mcp"};
    f.first = jose_key_create("ES256");
    f.second = jose_key_create("ES256");
    pthread_mutex_init(&as.lock, NULL);
    pthread_cond_init(&as.changed, NULL);
    as.key = f.first;
    as.kid = "1";
    as.is_held = as.is_broken = false;
    as.key_sets = as.introspections = 0;
    as.metadata_path = NULL;
    as.metadata_issuer = "";
    scripted_start(&as.http, on_request, NULL);
    *strstr(as.http.url, "/mcp") = '\0';
    snprintf(f.keys_url, sizeof(f.keys_url), "%s/keys", as.http.url);
    snprintf(f.introspect_url, sizeof(f.introspect_url), "%s/introspect", as.http.url);
    snprintf(f.credentials, sizeof(f.credentials), "/tmp/test_remote.XXXXXX");
    FILE *file = fdopen(mkstemp(f.credentials), "w");
    fputs("tidings:s&cret:1\n", file);
    fclose(file);
    f.loop = loop_create(NULL);
    f.mailbox = mailbox_create(f.loop, NULL, NULL);
    f.issuer = (struct auth_issuer){"https://as.test", f.keys_url};
    f.options = (struct auth_options){.issuers = &f.issuer,
                                      .issuer_count = 1,
                                      .audiences = audiences,
                                      .audience_count = 1,
                                      .leeway_ms = 60000,
                                      .interval_ms = 3600000};
    buf_init(&f.token, 65536);
    f.answers = 0;
    return 0;
}

static void open_cache(void)
{
    struct tidings_error err = {0, ""};
    if (auth_open(&f.auth, &f.options, &err) < 0 || auth_start(f.auth, &err) < 0) {
        fail_msg("%s", err.text);
    }
    f.cache = auth_create_cache(f.auth, f.mailbox, NULL, &err);
    assert_non_null(f.cache);
}

static int tear_down(void **state)
{
    (void)state;
    set_flag(&as.is_held, false);
    token_cache_destroy(f.cache);
    auth_close(f.auth);
    f.cache = NULL;
    f.auth = NULL;
    scripted_stop(&as.http);
    mailbox_close(f.mailbox);
    mailbox_unref(f.mailbox);
    loop_destroy(f.loop);
    buf_deinit(&f.token);
    jose_key_destroy(f.first);
    jose_key_destroy(f.second);
    unlink(f.credentials);
    pthread_mutex_destroy(&as.lock);
    pthread_cond_destroy(&as.changed);
    return 0;
}

static void take(const struct auth_answer *answer)
{
    f.answers++;
    f.outcome = answer->outcome;
    f.description = answer->description ? answer->description : "";
    snprintf(f.name, sizeof(f.name), "%.*s", answer->identity ? (int)answer->identity->name.len : 0,
             answer->identity ? answer->identity->name.ptr : "");
}

static void on_answer(void *user, const struct auth_answer *answer)
{
    (void)user;
    take(answer);
    loop_stop(f.loop);
}

/* Ask without waiting for a later answer. */
static struct pending_token *begin(struct tidings_str token)
{
    struct auth_answer answer;
    struct pending_token *pending = NULL;
    if (token_cache_ask(f.cache, token, &answer, &pending, on_answer, NULL)) {
        take(&answer);
        return NULL;
    }
    assert_non_null(pending);
    return pending;
}

static enum auth_outcome ask(struct tidings_str token)
{
    if (begin(token)) {
        unsigned before = f.answers;
        while (f.answers == before) {
            loop_run(f.loop);
        }
    }
    return f.outcome;
}

static struct tidings_str token_of(const struct jose_key *key, const char *kid, unsigned number)
{
    char header[128], claims[512];
    snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"kid\":\"%s\"}", kid);
    snprintf(claims, sizeof(claims),
             "{\"iss\":\"%s\",\"aud\":\"https://h.test/mcp\",\"sub\":\"alice\",\"exp\":%lld,"
             "\"jti\":%u}",
             f.issuer.issuer, (long long)(clock_wall_ms() / 1000 + 3600), number);
    buf_clear(&f.token);
    jose_put_token(&f.token, key, header, claims);
    return buf_str(&f.token);
}

static unsigned count(const unsigned *what)
{
    pthread_mutex_lock(&as.lock);
    unsigned n = *what;
    pthread_mutex_unlock(&as.lock);
    return n;
}

static void await_failures(uint64_t wanted)
{
    struct auth_fetches fetches;
    for (auth_get_fetches(f.auth, &fetches); fetches.failures < wanted;
         auth_get_fetches(f.auth, &fetches)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void token_waits_for_the_first_keys(void **state)
{
    (void)state;
    as.is_held = true;
    open_cache();
    assert_non_null(begin(token_of(f.first, "1", 1)));
    assert_int_equal(token_cache_counts(f.cache)->waiting, 1);
    assert_int_equal(f.answers, 0);
    set_flag(&as.is_held, false);
    loop_run(f.loop);
    assert_int_equal(f.answers, 1);
    assert_int_equal(f.outcome, AUTH_OK);
    assert_string_equal(f.name, "alice");
    assert_int_equal(token_cache_counts(f.cache)->waiting, 0);
    assert_null(begin(token_of(f.first, "1", 2))); /* immediately from now on */
    assert_int_equal(f.outcome, AUTH_OK);
    assert_int_equal(count(&as.key_sets), 1);
}

static void unknown_key_is_fetched(void **state)
{
    (void)state;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
    pthread_mutex_lock(&as.lock);
    as.key = f.second;
    as.kid = "2";
    pthread_mutex_unlock(&as.lock);
    assert_int_equal(ask(token_of(f.second, "2", 1)), AUTH_OK);
    assert_int_equal(count(&as.key_sets), 2);
    /* The issuer has revoked the first key: cached tokens are no longer valid. */
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_INVALID);
    assert_string_equal(f.description, "the key of the token is not known");
}

static void fetches_for_unknown_keys_are_limited(void **state)
{
    (void)state;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
    for (unsigned i = 0; i < 50; i++) {
        char kid[16];
        snprintf(kid, sizeof(kid), "x%u", i);
        assert_int_equal(ask(token_of(f.first, kid, i)), AUTH_INVALID);
        assert_string_equal(f.description, "the key of the token is not known");
    }
    /* The first fetch, and three on demand (one of them may be for the first token). */
    assert_in_range(count(&as.key_sets), 3, 4);
    assert_int_equal(ask(token_of(f.first, "1", 2)), AUTH_OK);
}

static void verdict_is_unavailable_without_keys(void **state)
{
    (void)state;
    as.is_broken = true;
    f.options.interval_ms = 20;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_UNAVAILABLE);
    assert_string_equal(f.description, "the keys of the issuer cannot be had at the moment");
    await_failures(2);
    set_flag(&as.is_broken, false);
    while (ask(token_of(f.first, "1", 1)) == AUTH_UNAVAILABLE) {
    }
    assert_int_equal(f.outcome, AUTH_OK);
    assert_true(token_cache_counts(f.cache)->unavailable > 0);
}

static void old_keys_are_used_while_fetches_fail(void **state)
{
    (void)state;
    f.options.refresh_ms = f.options.interval_ms = 20;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
    set_flag(&as.is_broken, true);
    await_failures(3);
    assert_int_equal(ask(token_of(f.first, "1", 2)), AUTH_OK);
}

static void expired_keys_are_not_used(void **state)
{
    (void)state;
    f.options.refresh_ms = f.options.interval_ms = 20;
    f.options.stale_ms = 1;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
    set_flag(&as.is_broken, true);
    await_failures(2); /* the server counts the first before it takes effect */
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_UNAVAILABLE);
}

static void reload_fetches_the_keys_again(void **state)
{
    (void)state;
    open_cache();
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
    struct auth_files *files = NULL;
    assert_int_equal(auth_load_files(f.auth, &files, NULL), 0);
    auth_put_files(f.auth, files);
    while (count(&as.key_sets) < 2) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(ask(token_of(f.first, "1", 1)), AUTH_OK);
}

static void metadata_gives_the_key_address(void **state)
{
    (void)state;
    static const struct {
        const char *issuer, *place, *says;
        enum auth_outcome outcome;
    } cases[] = {
        {"", "/.well-known/oauth-authorization-server", "", AUTH_OK},
        {"/a/b", "/.well-known/oauth-authorization-server/a/b", "/a/b", AUTH_OK},
        {"", "/.well-known/openid-configuration", "", AUTH_OK},
        {"/a/b", "/a/b/.well-known/openid-configuration", "/a/b", AUTH_OK},
        {"", "/.well-known/openid-configuration", "/", AUTH_UNAVAILABLE},
        {"", "/nowhere", "", AUTH_UNAVAILABLE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char issuer[128];
        snprintf(issuer, sizeof(issuer), "%s%s", as.http.url, cases[i].issuer);
        pthread_mutex_lock(&as.lock);
        as.metadata_path = cases[i].place;
        as.metadata_issuer = cases[i].says;
        pthread_mutex_unlock(&as.lock);
        f.issuer = (struct auth_issuer){issuer, NULL};
        open_cache();
        assert_int_equal(ask(token_of(f.first, "1", 1)), cases[i].outcome);
        token_cache_destroy(f.cache);
        auth_close(f.auth);
        f.cache = NULL;
        f.auth = NULL;
    }
}

/* ---- introspection --------------------------------------------------------------------------- */

static void introspect_only(void)
{
    f.options.issuer_count = 0;
    f.options.introspection = f.introspect_url;
    f.options.introspection_credentials = f.credentials;
    open_cache();
}

static void opaque_token_is_introspected(void **state)
{
    (void)state;
    as.answer =
        "{\"active\":true,\"sub\":\"bob\",\"aud\":\"https://h.test/mcp\",\"scope\":\"r w\"}";
    introspect_only();
    assert_int_equal(ask(STR("opaque+token/1==")), AUTH_OK);
    assert_string_equal(f.name, "bob");
    assert_int_equal(count(&as.introspections), 1);
    assert_non_null(strstr(as.seen, "POST /introspect "));
    /* "tidings:s%26cret%3A1" */
    assert_non_null(strstr(as.seen, "Authorization: Basic dGlkaW5nczpzJTI2Y3JldCUzQTE="));
    assert_non_null(strstr(as.seen, "token=opaque%2Btoken%2F1%3D%3D"));
    assert_int_equal(ask(STR("opaque+token/1==")), AUTH_OK);
    assert_int_equal(count(&as.introspections), 1);
    assert_int_equal(token_cache_counts(f.cache)->remembered, 1);
}

static void read_answer(struct tidings_str answer, struct verdict *ret)
{
    struct auth_settings settings = {.issuer_count = 0};
    assert_int_equal(auth_settings_init(&settings, &f.options, NULL), 0);
    introspect_read(&settings, answer, clock_wall_ms(), ret);
    auth_settings_deinit(&settings);
}

static void introspection_answer_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        enum auth_outcome outcome;
        const char *says;
    } cases[] = {
        {"{\"active\":false}", AUTH_INVALID, "the token is not active"},
        {"{\"active\":true,\"sub\":\"b\"}", AUTH_INVALID, "the token is for another audience"},
        {"{\"active\":true,\"sub\":\"b\",\"aud\":\"https://h.test/mcp\",\"exp\":1}", AUTH_INVALID,
         "the token has expired"},
        {"{\"active\":true,\"aud\":\"https://h.test/mcp\"}", AUTH_INVALID,
         "the token has no subject"},
        {"{\"active\":true,\"sub\":\"b\",\"aud\":\"https://h.test/mcp\","
         "\"token_use\":\"refresh_token\"}",
         AUTH_INVALID, "the token is not an access token"},
        {"{\"active\":\"true\"}", AUTH_UNAVAILABLE, NULL},
        {"{}", AUTH_UNAVAILABLE, NULL},
        {"[", AUTH_UNAVAILABLE, NULL},
        {"{\"active\":true,\"sub\":\"b\",\"aud\":[\"https://h.test/mcp\"],\"iss\":\"any\"}",
         AUTH_OK, NULL},
    };
    introspect_only();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct verdict v;
        read_answer(tidings_str(cases[i].answer), &v);
        assert_int_equal(v.outcome, cases[i].outcome);
        if (cases[i].says) {
            assert_string_equal(v.why, cases[i].says);
        }
        identity_destroy(v.identity);
    }
}

static void introspected_token_needs_a_known_issuer(void **state)
{
    (void)state;
    static const char text[] = "{\"active\":true,\"sub\":\"b\",\"aud\":\"https://h.test/mcp\","
                               "\"iss\":\"https://evil.test\"}";
    struct verdict v;
    open_cache();
    read_answer(STR(text), &v);
    assert_int_equal(v.outcome, AUTH_INVALID);
    assert_string_equal(v.why, "the issuer of the token is not trusted here");
}

static void verdict_is_unavailable_if_the_server_cannot_be_reached(void **state)
{
    (void)state;
    as.is_broken = true;
    as.answer = "{\"active\":true,\"sub\":\"bob\",\"aud\":\"https://h.test/mcp\"}";
    introspect_only();
    assert_int_equal(ask(STR("opaque")), AUTH_UNAVAILABLE);
    struct auth_fetches fetches;
    auth_get_fetches(f.auth, &fetches);
    assert_int_equal(fetches.introspections, 1);
    assert_int_equal(fetches.failures, 1);
    set_flag(&as.is_broken, false);
    assert_int_equal(ask(STR("opaque")), AUTH_OK); /* a failure is not cached */
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void cancelled_token_gets_no_answer(void **state)
{
    (void)state;
    as.is_held = true;
    open_cache();
    struct pending_token *first = begin(token_of(f.first, "1", 1));
    assert_non_null(begin(token_of(f.first, "1", 2)));
    token_cache_cancel(first);
    assert_int_equal(token_cache_counts(f.cache)->waiting, 1);
    set_flag(&as.is_held, false);
    loop_run(f.loop);
    for (unsigned i = 0; i < 10; i++) {
        loop_turn(f.loop);
    }
    assert_int_equal(f.answers, 1);
}

static void cache_may_be_destroyed_while_tokens_wait(void **state)
{
    (void)state;
    as.is_held = true;
    as.answer = "{\"active\":false}";
    f.options.introspection = f.introspect_url;
    open_cache();
    assert_non_null(begin(token_of(f.first, "1", 1)));
    assert_non_null(begin(STR("opaque")));
    token_cache_destroy(f.cache);
    f.cache = NULL;
    auth_close(f.auth); /* cancels the running fetches */
    f.auth = NULL;
    assert_int_equal(f.answers, 0);
}

#define MAX_WAITING 256u

static bool may_wait(void *user)
{
    (void)user;
    return token_cache_counts(f.cache)->waiting < MAX_WAITING;
}

static void number_of_waiting_tokens_is_limited(void **state)
{
    (void)state;
    as.is_held = true;
    open_cache();
    token_cache_set_may_wait(f.cache, may_wait);
    for (unsigned i = 0; i < MAX_WAITING; i++) {
        assert_non_null(begin(token_of(f.first, "1", i)));
    }
    assert_null(begin(token_of(f.first, "1", MAX_WAITING)));
    assert_int_equal(f.outcome, AUTH_UNAVAILABLE);
    set_flag(&as.is_held, false);
    while (token_cache_counts(f.cache)->waiting > 0) {
        loop_run(f.loop);
    }
    assert_int_equal(token_cache_counts(f.cache)->verified, MAX_WAITING);
    assert_int_equal(count(&as.key_sets), 1);
}

static void queued_introspections_are_all_answered(void **state)
{
    (void)state;
    as.answer = "{\"active\":true,\"sub\":\"bob\",\"aud\":\"https://h.test/mcp\"}";
    introspect_only();
    for (unsigned i = 0; i < 2 * FETCH_QUEUE_AT_ONCE; i++) {
        char token[16];
        snprintf(token, sizeof(token), "t%u", i);
        assert_non_null(begin(tidings_str(token)));
    }
    while (token_cache_counts(f.cache)->waiting > 0) {
        loop_run(f.loop);
    }
    assert_int_equal(token_cache_counts(f.cache)->verified, 2 * FETCH_QUEUE_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(token_waits_for_the_first_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_key_is_fetched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fetches_for_unknown_keys_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verdict_is_unavailable_without_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_keys_are_used_while_fetches_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_keys_are_not_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reload_fetches_the_keys_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(metadata_gives_the_key_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opaque_token_is_introspected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(introspection_answer_is_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(introspected_token_needs_a_known_issuer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verdict_is_unavailable_if_the_server_cannot_be_reached,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_token_gets_no_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cache_may_be_destroyed_while_tokens_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(number_of_waiting_tokens_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(queued_introspections_are_all_answered, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
