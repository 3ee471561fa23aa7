/* SPDX-License-Identifier: MIT
 *
 * TLS contexts: certificates and keys read from files, checked and put together. Everything that
 * can be wrong with a certificate or key is found here, at start or reload, and said with the name
 * of its file.
 *
 * Several certificates are told apart by the name a client asks for (SNI), compared with the DNS
 * names in each, in the order they were given.
 */
#include "base/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confined_file.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tls_private.h"
#include "base/whole_file.h"

#define FILE_MAX (1024 * 1024) /* bytes of a PEM file */
#define NAMES_MAX 1000         /* names of one certificate that are looked at */

/* ---- files ----------------------------------------------------------------------------------- */

static void tls_context_warn(const struct tls_options *o, const char *file, const char *what)
{
    if (o->warn) {
        o->warn(o->user, file, what);
    }
}

/* Looked at before OpenSSL does: it would hang on a pipe, and say little about the rest. */
static int check_file(const char *path, const char *what, struct stat *st,
                      struct tidings_error *err)
{
    int fd = confined_file_descriptor(path);
    if (fd < 0 || fstat(fd, st) < 0) {
        int rc = error_errno(err, fd < 0 ? -fd : errno, "%s '%s'", what, path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    close(fd);
    if (!S_ISREG(st->st_mode)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s '%s': not a file", what, path);
    }
    if (st->st_size > FILE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s '%s': larger than 1 MiB", what, path);
    }
    int rc = whole_file_check(st, TIDINGS_FILE_NAMED, err);
    return rc < 0 ? error_wrap(err, rc, "%s '%s'", what, path) : 0;
}

/* The same, and under which name OpenSSL can open it. */
static int tls_open_file(const char *path, const char *what, struct confined_file *file,
                         struct stat *st, struct tidings_error *err)
{
    int rc = check_file(path, what, st, err);
    if (rc < 0) {
        return rc;
    }
    rc = confined_file_open(file, path);
    return rc < 0 ? error_errno(err, -rc, "%s '%s'", what, path) : 0;
}

static int load_certificate(SSL_CTX *ssl, const char *path, const struct tls_options *o,
                            struct tidings_error *err)
{
    struct stat st;
    struct confined_file file;
    int rc = tls_open_file(path, "certificate", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    tls_api.ERR_clear_error();
    bool is_loaded = tls_api.SSL_CTX_use_certificate_chain_file(ssl, file.path) == 1;
    confined_file_close(&file);
    if (!is_loaded) {
        return tidings_fail(err, TIDINGS_E_INVALID, "certificate '%s': %s (PEM is expected)", path,
                            tls_api_reason());
    }
    X509 *certificate = tls_api.SSL_CTX_get0_certificate(ssl);
    if (tls_api.X509_cmp_current_time(tls_api.X509_get0_notAfter(certificate)) < 0) {
        tls_context_warn(o, path, "the certificate has expired");
    } else if (tls_api.X509_cmp_current_time(tls_api.X509_get0_notBefore(certificate)) > 0) {
        tls_context_warn(o, path, "the certificate is not valid yet");
    }
    return 0;
}

/* Nobody is there to be asked: it is noted that the key wanted a passphrase. */
static int refuse_passphrase(char *out, int size, int writes, void *user)
{
    (void)out;
    (void)size;
    (void)writes;
    *(bool *)user = true;
    return -1;
}

static int load_key(SSL_CTX *ssl, const struct tls_pair *pair, const struct tls_options *o,
                    struct tidings_error *err)
{
    struct stat st = {0};
    const char *path = pair->key;
    bool is_encrypted = false;
    struct confined_file file;
    int rc = tls_open_file(path, "key", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    if (st.st_mode & S_IROTH) {
        tls_context_warn(o, path, "everybody on this machine can read the key");
    }
    tls_api.SSL_CTX_set_default_passwd_cb(ssl, refuse_passphrase);
    tls_api.SSL_CTX_set_default_passwd_cb_userdata(ssl, &is_encrypted);
    tls_api.ERR_clear_error();
    bool is_loaded = tls_api.SSL_CTX_use_PrivateKey_file(ssl, file.path, SSL_FILETYPE_PEM) == 1;
    confined_file_close(&file);
    tls_api.SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    if (is_encrypted) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "key '%s': encrypted, and nobody is asked for a passphrase; "
                            "decrypt it with 'openssl pkey'",
                            path);
    }
    /* The certificate is there already: a key that is not its own is refused at once. */
    if (!is_loaded && ERR_GET_LIB(tls_api.ERR_peek_last_error()) != ERR_LIB_X509) {
        return tidings_fail(err, TIDINGS_E_INVALID, "key '%s': no private key in it (%s)", path,
                            tls_api_reason());
    }
    if (!is_loaded || tls_api.SSL_CTX_check_private_key(ssl) != 1) {
        return tidings_fail(err, TIDINGS_E_INVALID, "key '%s': not the key of certificate '%s'",
                            path, pair->certificate);
    }
    return 0;
}

static int load_clients(SSL_CTX *ssl, const struct tls_options *o, struct tidings_error *err)
{
    struct stat st;
    struct confined_file file;
    if (o->client_auth == TLS_CLIENT_OFF) {
        return 0;
    }
    if (!o->client_ca) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "client certificates are asked for, and no CA is named for them");
    }
    int rc = tls_open_file(o->client_ca, "client CA", &file, &st, err);
    if (rc < 0) {
        return rc;
    }
    tls_api.ERR_clear_error();
    STACK_OF(X509_NAME) *names = tls_api.SSL_load_client_CA_file(file.path);
    bool is_loaded = names && tls_api.SSL_CTX_load_verify_file(ssl, file.path) == 1;
    confined_file_close(&file);
    if (!is_loaded) {
        tls_api.SSL_CTX_set_client_CA_list(ssl, names);
        return tidings_fail(err, TIDINGS_E_INVALID, "client CA '%s': %s (PEM is expected)",
                            o->client_ca, tls_api_reason());
    }
    tls_api.SSL_CTX_set_client_CA_list(ssl, names); /* takes them */
    tls_api.SSL_CTX_set_verify(
        ssl,
        SSL_VERIFY_PEER |
            (o->client_auth == TLS_CLIENT_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        NULL);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name as a Host has it, on the heap; NULL: of no interest (`failed` is left alone), or out of
 * memory. */
static char *spell_name(const GENERAL_NAME *name, bool *failed)
{
    char text[INET6_ADDRSTRLEN], host[INET6_ADDRSTRLEN + 3];
    struct tidings_str spelled = STR_EMPTY;
    if (name->type == GEN_DNS) {
        spelled = tidings_strn((const char *)tls_api.ASN1_STRING_get0_data(name->d.dNSName),
                               (size_t)tls_api.ASN1_STRING_length(name->d.dNSName));
    } else if (name->type == GEN_IPADD) {
        const unsigned char *bytes = tls_api.ASN1_STRING_get0_data(name->d.iPAddress);
        int len = tls_api.ASN1_STRING_length(name->d.iPAddress);
        bool is_v6 = len == 16;
        if ((len == 4 || is_v6) &&
            inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes, text, sizeof(text))) {
            snprintf(host, sizeof(host), is_v6 ? "[%s]" : "%s", text);
            spelled = tidings_str(host);
        }
    }
    if (spelled.len == 0) {
        return NULL;
    }
    char *copy = str_dup(spelled);
    *failed = !copy;
    return copy;
}

/* The DNS names and addresses of a certificate. */
static int take_names(struct tls_host *host, struct tidings_error *err)
{
    GENERAL_NAMES *all = tls_api.X509_get_ext_d2i(tls_api.SSL_CTX_get0_certificate(host->ssl),
                                                  NID_subject_alt_name, NULL, NULL);
    const OPENSSL_STACK *stack = (const OPENSSL_STACK *)all;
    int count = all ? tls_api.OPENSSL_sk_num(stack) : 0;
    count = count < 0 ? 0 : count > NAMES_MAX ? NAMES_MAX : count;
    host->names = mem_zalloc(((size_t)count + 1) * sizeof(char *));
    bool failed = !host->names;
    for (int i = 0; i < count && !failed; i++) {
        char *name = spell_name(tls_api.OPENSSL_sk_value(stack, i), &failed);
        host->names[host->name_count] = name;
        host->name_count += name != NULL;
    }
    tls_api.GENERAL_NAMES_free(all);
    return failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* "*.example.org" is for one label in front, and for nothing else. */
static bool is_name_for(struct tidings_str pattern, struct tidings_str name)
{
    if (!str_starts(pattern, STR("*."))) {
        return str_eq_nocase(pattern, name);
    }
    ptrdiff_t dot = str_find(name, '.');
    return dot > 0 && str_eq_nocase(str_skip(pattern, 1), str_skip(name, (size_t)dot));
}

const struct tls_host *tls_context_find(const struct tls_context *c, struct tidings_str name)
{
    for (size_t i = 0; i < c->host_count; i++) {
        for (size_t j = 0; j < c->hosts[i].name_count; j++) {
            if (is_name_for(tidings_str(c->hosts[i].names[j]), name)) {
                return &c->hosts[i];
            }
        }
    }
    return NULL;
}

static int on_name(SSL *ssl, int *alert, void *user)
{
    (void)alert;
    (void)user;
    const char *name = tls_api.SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct tls_host *host =
        name ? tls_context_find(tls_context_of(ssl), tidings_str(name)) : NULL;
    if (!host) {
        return SSL_TLSEXT_ERR_NOACK; /* the first one, which it has already */
    }
    return tls_api.SSL_set_SSL_CTX(ssl, host->ssl) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* `offered` is a list of texts with a length byte before each; OpenSSL has checked it. */
static int on_protocols(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                        const unsigned char *offered, unsigned len, void *user)
{
    (void)user;
    const char *spoken = tls_protocol_of(ssl);
    for (unsigned at = 0; spoken && at < len; at += 1u + offered[at]) {
        if (offered[at] == strlen(spoken) && offered[at] < len - at &&
            memcmp(offered + at + 1, spoken, offered[at]) == 0) {
            *ret = offered + at + 1;
            *ret_len = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return spoken ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static int tls_context_set_up(SSL_CTX *ssl, const struct tls_options *o, struct tidings_error *err)
{
    unsigned char id[SSL_MAX_SID_CTX_LENGTH];
    const long least = o->least == TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
    const uint64_t options = SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION;
    /* A session that is resumed is not asked for its certificate again, so none is resumed in
     * another context: its files may say otherwise. */
    if (random_bytes(id, sizeof id) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "there is no randomness for sessions");
    }
    tls_api.SSL_CTX_set_session_id_context(ssl, id, sizeof id);
    (void)tls_api.SSL_CTX_set_options(ssl, options);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, least, NULL);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    tls_api.SSL_CTX_ctrl(ssl, SSL_CTRL_MODE,
                         SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                             SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                         NULL);
    tls_api.SSL_CTX_callback_ctrl(ssl, SSL_CTRL_SET_TLSEXT_SERVERNAME_CB, (void (*)(void))on_name);
    tls_api.SSL_CTX_set_alpn_select_cb(ssl, on_protocols, NULL);
    tls_tickets_attach(ssl);
    return 0;
}

static int open_host(struct tls_host *host, const struct tls_pair *pair,
                     const struct tls_options *o, struct tidings_error *err)
{
    host->ssl = tls_api.SSL_CTX_new(tls_api.TLS_server_method());
    if (!host->ssl) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = tls_context_set_up(host->ssl, o, err);
    if (rc == 0) {
        rc = load_certificate(host->ssl, pair->certificate, o, err);
    }
    if (rc == 0) {
        rc = load_key(host->ssl, pair, o, err);
    }
    if (rc == 0) {
        rc = load_clients(host->ssl, o, err);
    }
    return rc < 0 ? rc : take_names(host, err);
}

int tls_context_open(struct tls_context **ret, const struct tls_options *o,
                     struct tidings_error *err)
{
    if (o->count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "TLS needs a certificate");
    }
    int rc = tls_api_load(err);
    if (rc < 0) {
        return rc;
    }
    struct tls_context *c = mem_zalloc(sizeof *c + o->count * sizeof c->hosts[0]);
    if (!c) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    atomic_init(&c->refs, 1);
    c->wire = tls_wire_create();
    rc = c->wire ? tls_tickets_init(&c->tickets, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    for (size_t i = 0; i < o->count && rc == 0; i++) {
        c->host_count++;
        rc = open_host(&c->hosts[i], &o->pairs[i], o, err);
    }
    if (rc < 0) {
        tls_context_unref(c);
        return rc;
    }
    *ret = c;
    return 0;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void tls_context_unref(struct tls_context *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < c->host_count; i++) {
        struct tls_host *host = &c->hosts[i];
        for (size_t j = 0; j < host->name_count; j++) {
            mem_free(host->names[j]);
        }
        mem_free(host->names);
        tls_api.SSL_CTX_free(host->ssl);
    }
    tls_tickets_deinit(&c->tickets);
    tls_api.BIO_meth_free(c->wire);
    mem_free(c);
}
