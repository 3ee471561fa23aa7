/* SPDX-License-Identifier: MIT
 *
 * TLS for benchmarks: reads and writes of a client, and a certificate that is made on the spot.
 */
#include "secure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "common.h"
#include "support/tls_files.h"

static SSL_CTX *context;
static char certificate[256], key[256];

void secure_make_files(void)
{
    tls_files_begin();
    tls_files_make(&(struct tls_wish){.name = "bench", .names = "IP:127.0.0.1"});
    snprintf(certificate, sizeof(certificate), "%s", tls_files_path("bench.pem"));
    snprintf(key, sizeof(key), "%s", tls_files_path("bench.key"));
}

const char *secure_certificate(void)
{
    return certificate;
}

const char *secure_key(void)
{
    return key;
}

void secure_remove_files(void)
{
    tls_files_end();
}

struct ssl_st *secure_connect(int fd)
{
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    }
    SSL *ssl = context ? SSL_new(context) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
        bench_die("the TLS handshake failed");
    }
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
        bench_die("fcntl: %s", strerror(errno));
    }
    return ssl;
}

void secure_write(struct ssl_st *ssl, const char *bytes, size_t n)
{
    while (n > 0) {
        int sent = SSL_write(ssl, bytes, (int)n);
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
            continue;
        }
        struct pollfd ready = {.fd = SSL_get_fd(ssl), .events = POLLIN | POLLOUT};
        if (SSL_get_error(ssl, sent) == SSL_ERROR_SSL || poll(&ready, 1, BENCH_WAIT_MS) <= 0) {
            bench_die("the server does not take a request");
        }
    }
}

size_t secure_read(struct ssl_st *ssl, char *bytes, size_t max)
{
    size_t got = 0;
    int n = 1;
    while (n > 0 && got < max) {
        n = SSL_read(ssl, bytes + got, (int)(max - got));
        got += n > 0 ? (size_t)n : 0;
    }
    if (n <= 0 && SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ) {
        bench_die("the server closed a stream");
    }
    return got;
}

void secure_free(struct ssl_st *ssl)
{
    SSL_free(ssl);
}
