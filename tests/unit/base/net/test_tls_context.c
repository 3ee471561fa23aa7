/* SPDX-License-Identifier: MIT
 *
 * TLS contexts: errors name the file, each client gets the right certificate, clients are asked for
 * theirs, and sessions can be resumed for a limited time. */
#include "base/net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <openssl/x509v3.h>

#include "base/net/tls_internal.h"
#include "base/time.h"
#include "support/tls_files.h"
#include "support/tls_wire.h"

static int make_files(void **state)
{
    (void)state;
    tls_files_begin();
    tls_files_make(&(struct tls_wish){.name = "ca", .is_ca = true});
    tls_files_make(&(struct tls_wish){.name = "other-ca", .is_ca = true});
    tls_files_make(&(struct tls_wish){.name = "a", .ca = "ca", .names = "DNS:a.test,IP:127.0.0.1"});
    tls_files_make(&(struct tls_wish){.name = "b", .ca = "ca", .names = "DNS:b.test,DNS:*.b.test"});
    tls_files_make(&(struct tls_wish){.name = "rsa", .ca = "ca", .is_rsa = true});
    tls_files_make(&(struct tls_wish){.name = "old", .ca = "ca", .from_s = -7200, .to_s = -3600});
    tls_files_make(&(struct tls_wish){.name = "early", .ca = "ca", .from_s = 3600, .to_s = 7200});
    tls_files_make(&(struct tls_wish){.name = "alice", .subject = "alice, R&D", .ca = "ca"});
    tls_files_make(&(struct tls_wish){
        .name = "long",
        .subject = "somebody whose name takes more bytes than a principal may take",
        .ca = "ca"});
    tls_files_make(&(struct tls_wish){.name = "nobody", .subject = "", .ca = "ca"});
    tls_files_make(&(struct tls_wish){.name = "mallory", .ca = "other-ca"});
    tls_files_encrypt_key("a");
    tls_files_write("junk", "no certificate\n");
    tls_files_write("empty", "");
    return 0;
}

static int drop_files(void **state)
{
    (void)state;
    tls_files_end();
    return 0;
}

struct warnings {
    unsigned count;
    char text[256];
};

static void on_warning(void *user, const char *file, const char *what)
{
    struct warnings *w = user;
    w->count++;
    snprintf(w->text, sizeof w->text, "%s: %s", file, what);
}

static int open_pair(struct tls_context **ret, const char *certificate, const char *key,
                     struct warnings *warnings, struct tidings_error *err)
{
    struct tls_pair pair = {tls_files_path(certificate), tls_files_path(key)};
    struct tls_options o = {.pairs = &pair, .count = 1, .warn = on_warning, .user = warnings};
    return tls_context_open(ret, &o, err);
}

static struct tls_context *must_open(const struct tls_options *o)
{
    struct tls_context *c = NULL;
    struct tidings_error err = {0};
    if (tls_context_open(&c, o, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return c;
}

static struct tls_context *open_asking(enum tls_client_auth auth)
{
    struct tls_pair pair = {tls_files_path("a.pem"), tls_files_path("a.key")};
    return must_open(&(struct tls_options){
        .pairs = &pair, .count = 1, .client_ca = tls_files_path("ca.pem"), .client_auth = auth});
}

static void error_in_a_file_gives_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *certificate, *key, *culprit, *said;
        int code;
    } rows[] = {
        {"none.pem", "a.key", "none.pem", "No such file", TIDINGS_E_NOTFOUND},
        {"a.pem", "none.key", "none.key", "No such file", TIDINGS_E_NOTFOUND},
        {"", "a.key", "certificate", "not a file", TIDINGS_E_INVALID},
        {"junk", "a.key", "junk", "PEM is expected", TIDINGS_E_INVALID},
        {"empty", "a.key", "empty", "PEM is expected", TIDINGS_E_INVALID},
        {"a.key", "a.key", "certificate", "a.key", TIDINGS_E_INVALID},
        {"a.pem", "junk", "junk", "no private key", TIDINGS_E_INVALID},
        {"a.pem", "a.pem", "key", "no private key", TIDINGS_E_INVALID},
        {"a.pem", "b.key", "b.key", "not the key of certificate", TIDINGS_E_INVALID},
        {"a.pem", "rsa.key", "rsa.key", "not the key of certificate", TIDINGS_E_INVALID},
        {"a.pem", "a.secret", "a.secret", "encrypted", TIDINGS_E_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tls_context *c = NULL;
        struct warnings warnings = {0};
        struct tidings_error err = {0};
        int rc = open_pair(&c, rows[i].certificate, rows[i].key, &warnings, &err);
        if (rc != rows[i].code || !strstr(err.text, rows[i].culprit) ||
            !strstr(err.text, rows[i].said)) {
            fail_msg("%s + %s: %d %s", rows[i].certificate, rows[i].key, rc, err.text);
        }
        assert_null(c);
    }
}

static void suspicious_file_causes_only_a_warning(void **state)
{
    (void)state;
    static const struct {
        const char *certificate, *key, *said;
    } rows[] = {
        {"a.pem", "a.key", NULL},
        {"old.pem", "old.key", "expired"},
        {"early.pem", "early.key", "not valid yet"},
        {"rsa.pem", "rsa.key", "every user of this machine"},
    };
    assert_int_equal(chmod(tls_files_path("rsa.key"), 0644), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tls_context *c = NULL;
        struct warnings warnings = {0};
        assert_int_equal(open_pair(&c, rows[i].certificate, rows[i].key, &warnings, NULL), 0);
        assert_int_equal(warnings.count, rows[i].said ? 1 : 0);
        assert_true(!rows[i].said || strstr(warnings.text, rows[i].said));
        tls_context_unref(c);
    }
}

static void client_certificates_need_a_ca(void **state)
{
    (void)state;
    static const char *const files[] = {NULL, "none.pem", "junk"};
    static const char *const said[] = {"no CA is named", "No such file", "junk"};
    struct tls_pair pair = {tls_files_path("a.pem"), tls_files_path("a.key")};
    for (size_t i = 0; i < 3; i++) {
        struct tls_context *c = NULL;
        struct tidings_error err = {0};
        struct tls_options o = {.pairs = &pair,
                                .count = 1,
                                .client_ca = files[i] ? tls_files_path(files[i]) : NULL,
                                .client_auth = TLS_CLIENT_REQUIRE};
        assert_true(tls_context_open(&c, &o, &err) < 0);
        assert_non_null(strstr(err.text, said[i]));
    }
}

/* The common name of the certificate for a client that requests `name`. */
static void cursor_seal_for(struct tls_context *c, const char *name, char out[64])
{
    struct tls_wire w;
    tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
    if (name) {
        char asked[64]; /* the macro does not accept const */
        (void)snprintf(asked, sizeof asked, "%s", name);
        SSL_set_tlsext_host_name(w.client, asked);
    }
    assert_true(tls_wire_shake(&w));
    X509 *certificate = SSL_get1_peer_certificate(w.client);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, out, 64);
    X509_free(certificate);
    tls_wire_close(&w);
}

static void requested_name_selects_the_certificate(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *shown;
    } rows[] = {
        {NULL, "a"},       {"a.test", "a"},     {"b.test", "b"},         {"B.Test", "b"},
        {"x.b.test", "b"}, {"y.x.b.test", "a"}, {"elsewhere.test", "a"}, {".b.test", "a"},
        {"*.b.test", "b"},
    };
    struct tls_pair pairs[] = {{tls_files_path("a.pem"), tls_files_path("a.key")},
                               {tls_files_path("b.pem"), tls_files_path("b.key")}};
    struct tls_context *c = must_open(&(struct tls_options){.pairs = pairs, .count = 2});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char shown[64];
        cursor_seal_for(c, rows[i].asked, shown);
        if (strcmp(shown, rows[i].shown) != 0) {
            fail_msg("%s: %s", rows[i].asked, shown);
        }
    }
    tls_context_unref(c);
}

static void minimum_version_is_enforced(void **state)
{
    (void)state;
    struct tls_pair pair = {tls_files_path("a.pem"), tls_files_path("a.key")};
    struct tls_context *c =
        must_open(&(struct tls_options){.pairs = &pair, .count = 1, .least = TLS_1_3});
    for (int older = 0; older < 2; older++) {
        struct tls_wire w;
        tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
        SSL_set_max_proto_version(w.client, older ? TLS1_2_VERSION : TLS1_3_VERSION);
        assert_int_equal(tls_wire_shake(&w), !older);
        tls_wire_close(&w);
    }
    tls_context_unref(c);
}

/* ---- clients ----------------------------------------------------------------------------------
 */

static void show(struct tls_wire *w, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "%s.pem", name);
    assert_int_equal(SSL_use_certificate_file(w->client, tls_files_path(file), SSL_FILETYPE_PEM),
                     1);
    snprintf(file, sizeof file, "%s.key", name);
    assert_int_equal(SSL_use_PrivateKey_file(w->client, tls_files_path(file), SSL_FILETYPE_PEM), 1);
}

static void clients_are_asked_for_certificates(void **state)
{
    (void)state;
    static const struct {
        enum tls_client_auth auth;
        const char *shows, *peer; /* "": rejected, NULL: no certificate */
    } rows[] = {
        {TLS_CLIENT_OFF, NULL, NULL},
        {TLS_CLIENT_OFF, "alice", NULL},
        {TLS_CLIENT_REQUEST, NULL, NULL},
        {TLS_CLIENT_REQUEST, "alice", "CN=alice\\, R&D"},
        {TLS_CLIENT_REQUEST, "mallory", ""},
        {TLS_CLIENT_REQUIRE, NULL, ""},
        {TLS_CLIENT_REQUIRE, "alice", "CN=alice\\, R&D"},
        {TLS_CLIENT_REQUIRE, "mallory", ""},
        {TLS_CLIENT_REQUIRE, "old", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tls_context *c = open_asking(rows[i].auth);
        struct tls_wire w;
        tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
        if (rows[i].shows) {
            show(&w, rows[i].shows);
        }
        bool is_refused = rows[i].peer && !rows[i].peer[0];
        assert_int_equal(tls_wire_shake(&w), !is_refused);
        if (is_refused) {
            assert_int_equal(w.failure, -EPROTO);
        } else if (rows[i].peer) {
            assert_string_equal(tls_session_peer(sendq_tls(&w.q)), rows[i].peer);
        } else {
            assert_null(tls_session_peer(sendq_tls(&w.q)));
        }
        tls_wire_close(&w);
        tls_context_unref(c);
    }
}

static void peer_without_a_short_name_is_identified_by_a_hash(void **state)
{
    (void)state;
    static const char *const names[] = {"long", "nobody"};
    struct tls_context *c = open_asking(TLS_CLIENT_REQUIRE);
    char peers[2][64];
    for (size_t i = 0; i < 2; i++) {
        struct tls_wire w;
        tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
        show(&w, names[i]);
        assert_true(tls_wire_shake(&w));
        snprintf(peers[i], sizeof peers[i], "%s", tls_session_peer(sendq_tls(&w.q)));
        assert_int_equal(strlen(peers[i]), 55);
        assert_memory_equal(peers[i], "sha256=", 7);
        tls_wire_close(&w);
    }
    assert_string_not_equal(peers[0], peers[1]);
    tls_context_unref(c);
}

/* ---- tickets ----------------------------------------------------------------------------------
 */

static SSL_SESSION *kept; /* the newest ticket of the client */

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept);
    kept = session;
    return 1;
}

/* One connection with the ticket of the one before. Returns true if the session was resumed. */
static bool is_resumed(struct tls_wire *w, struct tls_context *c, int version)
{
    tls_wire_again(w, c);
    SSL_set_min_proto_version(w->client, version);
    SSL_set_max_proto_version(w->client, version);
    if (kept) {
        SSL_set_session(w->client, kept);
    }
    assert_true(tls_wire_shake(w));
    char byte;
    sendq_put(&w->q, "x", 1); /* tickets come before it */
    assert_int_equal(tls_wire_hear(w, &byte, 1), 1);
    return SSL_session_reused(w->client) == 1;
}

static void ticket_is_valid_for_one_to_two_hours(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        struct clock_fake clock = {.monotonic_ns = 1000000000ull * 1000000u, .wall_ms = 1};
        clock_set_fake(&clock);
        struct tls_context *c = open_asking(TLS_CLIENT_REQUEST), *other = open_asking(0);
        struct tls_wire w;
        tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
        SSL_CTX_set_session_cache_mode(w.client_context,
                                       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(w.client_context, on_session);
        assert_false(is_resumed(&w, c, versions[i]));
        assert_non_null(kept);
        /* a rejection invalidates the ticket that was sent */
        SSL_SESSION *first = SSL_SESSION_dup(kept);
        assert_true(is_resumed(&w, c, versions[i]));
        assert_false(is_resumed(&w, other, versions[i])); /* the files may have changed */

        clock.monotonic_ns += 3700ull * 1000000000u; /* the key is now the previous one */
        SSL_SESSION_free(kept);
        kept = SSL_SESSION_dup(first);
        assert_true(is_resumed(&w, c, versions[i]));
        clock.monotonic_ns += 3700ull * 1000000000u; /* … and now it is deleted */
        SSL_SESSION_free(kept);
        kept = first;
        assert_false(is_resumed(&w, c, versions[i]));
        SSL_SESSION_free(kept);
        kept = NULL;
        tls_wire_close(&w);
        tls_context_unref(c);
        tls_context_unref(other);
        clock_set_fake(NULL);
    }
}

static void ticket_expires_with_the_certificate(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        struct clock_fake clock = {.monotonic_ns = 1000000000ull * 1000000u,
                                   .wall_ms = (int64_t)time(NULL) * 1000};
        int64_t now = clock.wall_ms;
        clock_set_fake(&clock);
        struct tls_context *c = open_asking(TLS_CLIENT_REQUIRE);
        struct tls_wire w;
        tls_wire_open(&w, c, NULL, tls_files_path("ca.pem"));
        SSL_CTX *client = w.client_context;
        SSL_CTX_use_certificate_file(client, tls_files_path("alice.pem"), SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(client, tls_files_path("alice.key"), SSL_FILETYPE_PEM);
        SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(client, on_session);
        assert_false(is_resumed(&w, c, versions[i]));
        int64_t end = tls_session_expiry(sendq_tls(&w.q));
        /* created a moment ago, valid for an hour */
        assert_in_range(end, now, now + 3600 * 1000 + 1000);
        SSL_SESSION *first = SSL_SESSION_dup(kept);
        for (int64_t left = 1; left >= 0; left--) {
            SSL_SESSION_free(kept);
            kept = SSL_SESSION_dup(first);
            clock.wall_ms = end - left;
            assert_int_equal(is_resumed(&w, c, versions[i]), left > 0);
            assert_true(tls_session_expiry(sendq_tls(&w.q)) == end); /* known from the ticket */
        }
        SSL_SESSION_free(kept);
        SSL_SESSION_free(first);
        kept = NULL;
        tls_wire_close(&w);
        tls_context_unref(c);
        clock_set_fake(NULL);
    }
}

static void old_keys_are_deleted_after_a_quiet_day(void **state)
{
    (void)state;
    struct clock_fake clock = {.monotonic_ns = 1000000000ull * 1000000u, .wall_ms = 1};
    struct tls_tickets t;
    struct tls_ticket_key key, found;
    clock_set_fake(&clock);
    assert_int_equal(tls_tickets_init(&t, NULL), 0);
    tls_tickets_current(&t, &key);
    assert_int_equal(tls_tickets_find(&t, key.name, &found), 1);
    clock.monotonic_ns += 24ull * 3600 * 1000000000u;
    assert_int_equal(tls_tickets_find(&t, key.name, &found), 0);
    clock_set_fake(NULL);
    tls_tickets_deinit(&t);
}

static struct tls_tickets shared;

static void *use_tickets(void *user)
{
    (void)user;
    for (int i = 0; i < 2000; i++) {
        struct tls_ticket_key key, found;
        tls_tickets_current(&shared, &key);
        int rc = tls_tickets_find(&shared, key.name, &found);
        if (rc != 0 && memcmp(&key, &found, sizeof key) != 0) {
            return &shared; /* halves of two keys */
        }
        if (i % 10 == 0) {
            atomic_store(&shared.born_ms, clock_monotonic_ms() - 3600u * 1000u);
        }
    }
    return NULL;
}

static void concurrent_key_renewals_give_complete_keys(void **state)
{
    (void)state;
    pthread_t threads[4];
    assert_int_equal(tls_tickets_init(&shared, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_tickets, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *bad;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL makes the client's writes */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_in_a_file_gives_its_name),
        cmocka_unit_test(suspicious_file_causes_only_a_warning),
        cmocka_unit_test(client_certificates_need_a_ca),
        cmocka_unit_test(requested_name_selects_the_certificate),
        cmocka_unit_test(minimum_version_is_enforced),
        cmocka_unit_test(clients_are_asked_for_certificates),
        cmocka_unit_test(peer_without_a_short_name_is_identified_by_a_hash),
        cmocka_unit_test(ticket_is_valid_for_one_to_two_hours),
        cmocka_unit_test(ticket_expires_with_the_certificate),
        cmocka_unit_test(old_keys_are_deleted_after_a_quiet_day),
        cmocka_unit_test(concurrent_key_renewals_give_complete_keys),
    };
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
