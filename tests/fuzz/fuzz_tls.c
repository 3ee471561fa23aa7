/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the client's side of a TLS connection, in pieces of the size in the first byte (0:
 * at once): the handshake never completes, no data passes, and failures have a reason. OpenSSL
 * parses the bytes; our own part is the choice of certificate (SNI), protocol (ALPN) and ticket
 * keys.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/net/tls.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void write_pair(const char *certificate, const char *key, const char *name)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    require(pair && x);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, pair);
    X509_NAME *subject = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, subject);
    require(X509_sign(x, pair, EVP_sha256()) > 0);
    FILE *file = fopen(certificate, "w");
    require(file && PEM_write_X509(file, x) == 1 && fclose(file) == 0);
    file = fopen(key, "w");
    require(file && PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL) == 1 &&
            fclose(file) == 0);
    X509_free(x);
    EVP_PKEY_free(pair);
}

static struct tls_context *open_context(void)
{
    char directory[] = "/tmp/fuzz-tls-XXXXXX", certificate[64], key[64];
    struct tls_context *context = NULL;
    struct tidings_error err = {0, ""};
    require(mkdtemp(directory) != NULL);
    snprintf(certificate, sizeof(certificate), "%s/a.pem", directory);
    snprintf(key, sizeof(key), "%s/a.key", directory);
    write_pair(certificate, key, "a.test");
    const struct tls_pair pair = {certificate, key};
    const struct tls_options options = {.pairs = &pair, .count = 1, .least = TLS_1_2};
    if (tls_context_open(&context, &options, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    unlink(certificate);
    unlink(key);
    rmdir(directory);
    return context;
}

static int take_records(void *user, const char *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)user += len;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tls_context *context;
    static char out[TLS_ROOM];
    size_t told = 0, step = size > 0 && data[0] > 0 ? data[0] : TLS_WIRE;
    bool ended = false;
    ssize_t n = 0;
    context = context ? context : open_context();
    struct tls_session *s = tls_session_create(context, "http/1.1");
    require(s != NULL);
    tls_session_set_outlet(s, take_records, &told);
    for (size_t at = 1; at < size && n >= 0 && !ended; at += step) {
        size_t len = size - at < step ? size - at : step;
        n = tls_open(s, tidings_strn((const char *)data + at, len), out, &ended);
        require(n == 0 || n == -EPROTO || n == -EPROTOTYPE);
        require(n == 0 || n == -EPROTOTYPE || tls_session_reason(s)[0] != '\0');
    }
    require(!tls_session_is_ready(s) && tls_seal(s, "x", 1) < 0 && told <= 65536);
    tls_session_destroy(s);
    return 0;
}
