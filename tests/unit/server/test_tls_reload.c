/* SPDX-License-Identifier: MIT
 *
 * Certificates replaced while the server runs, here stepped by the program: new clients get the new
 * certificate, connections stay open, and a failed reload changes nothing.
 */
#include <tidings/server.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "support/tls_files.h"

enum { TURNS_MAX = 100000 };

static struct tidings_server *server;
static SSL_CTX *client_context;
static char said[8192]; /* by the log */

static void on_log(void *user, enum tidings_log_level level, struct tidings_str line)
{
    (void)user;
    (void)level;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%.*s\n", (int)line.len, line.ptr);
}

static void must_set(const char *name, const char *value)
{
    struct tidings_error err = {0};
    if (tidings_server_set(server, name, value, &err) < 0) {
        fail_msg("%s: %s", name, err.text);
    }
}

static int begin(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    tls_files_begin();
    tls_files_make(&(struct tls_wish){.name = "second"});
    tls_files_make(&(struct tls_wish){.name = "first", .subject = "the first"});
    client_context = SSL_CTX_new(TLS_client_method());
    said[0] = '\0';
    tidings_set_log(TIDINGS_LOG_INFO, on_log, NULL);
    server = tidings_server_create(&err);
    must_set("http", "127.0.0.1:0");
    return 0;
}

static int end(void **state)
{
    (void)state;
    tidings_server_destroy(server);
    tidings_set_log(TIDINGS_LOG_OFF, NULL, NULL);
    SSL_CTX_free(client_context);
    tls_files_end();
    return 0;
}

static void start(void)
{
    struct tidings_error err = {0};
    if (tidings_server_start(server, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void turn(void)
{
    assert_int_equal(tidings_server_turn(server, NULL), 1);
}

static void reload_until(const char *line)
{
    said[0] = '\0';
    tidings_server_reload(server);
    for (int i = 0; i < TURNS_MAX && !strstr(said, line); i++) {
        turn();
    }
    if (!strstr(said, line)) {
        fail_msg("not '%s' but '%s'", line, said);
    }
}

static SSL *come_in(void)
{
    const char *url = tidings_server_address(server, 0);
    struct sockaddr_in to = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    SSL *ssl = SSL_new(client_context);
    SSL_set_fd(ssl, fd);
    for (int i = 0, rc = 0; rc != 1; i++) {
        rc = SSL_connect(ssl);
        assert_true(rc == 1 || SSL_get_error(ssl, rc) == SSL_ERROR_WANT_READ);
        assert_true(i < TURNS_MAX);
        turn();
    }
    return ssl;
}

static void leave(SSL *ssl)
{
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
}

static void is_shown(SSL *ssl, const char *subject)
{
    char name[64] = "";
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof name);
    X509_free(certificate);
    assert_string_equal(name, subject);
}

static void is_answered(SSL *ssl)
{
    static const char request[] = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[4096] = "";
    assert_int_equal(SSL_write(ssl, request, sizeof request - 1), sizeof request - 1);
    for (int i = 0, n = 0; n <= 0; i++) {
        turn();
        n = SSL_read(ssl, answer, sizeof answer - 1);
        assert_true(n > 0 || SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ);
        assert_true(i < TURNS_MAX);
    }
    assert_non_null(strstr(answer, "404"));
}

static void replace(const char *name, const char *by)
{
    assert_int_equal(rename(tls_files_path(by), tls_files_path(name)), 0);
}

static void reload_serves_new_clients_and_keeps_connections(void **state)
{
    (void)state;
    must_set("tls-cert", tls_files_path("first.pem"));
    must_set("tls-key", tls_files_path("first.key"));
    start();
    SSL *before = come_in();
    is_shown(before, "the first");
    replace("first.pem", "second.pem");
    replace("first.key", "second.key");
    reload_until("reloaded");
    SSL *after = come_in();
    is_shown(after, "second");
    is_answered(after);
    is_answered(before);
    leave(before);
    leave(after);
}

static void failed_reload_is_reported_and_changes_nothing(void **state)
{
    (void)state;
    must_set("tls-cert", tls_files_path("first.pem"));
    must_set("tls-key", tls_files_path("first.key"));
    start();
    replace("first.pem", "second.pem"); /* and not its key */
    reload_until("reload failed");
    assert_non_null(strstr(said, "first.key"));
    assert_non_null(strstr(said, "not the key of certificate"));
    SSL *after = come_in();
    is_shown(after, "the first");
    is_answered(after);
    leave(after);
}

static void reload_does_nothing_without_certificates(void **state)
{
    (void)state;
    start();
    reload_until("nothing is configured");
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reload_serves_new_clients_and_keeps_connections, begin,
                                        end),
        cmocka_unit_test_setup_teardown(failed_reload_is_reported_and_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(reload_does_nothing_without_certificates, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
