/* SPDX-License-Identifier: MIT */
#include "support/tls_files.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

static char dir[64];

/* A test that cannot make its files is of no use. */
static void must(bool is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "tls_files: %s failed\n", what);
        abort();
    }
}

const char *tls_files_begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/tidings-tls-XXXXXX");
    must(mkdtemp(dir) != NULL, "mkdtemp");
    return dir;
}

const char *tls_files_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static FILE *open_file(const char *name, const char *suffix, const char *mode)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    FILE *f = fopen(tls_files_path(full), mode);
    must(f != NULL, full);
    return f;
}

void tls_files_write(const char *name, const char *text)
{
    FILE *f = open_file(name, "", "w");
    fputs(text, f);
    fclose(f);
}

static EVP_PKEY *load_key(const char *name)
{
    FILE *f = open_file(name, ".key", "r");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    must(key != NULL, "reading a key");
    return key;
}

static X509 *load_certificate(const char *name)
{
    FILE *f = open_file(name, ".pem", "r");
    X509 *certificate = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    must(certificate != NULL, "reading a certificate");
    return certificate;
}

static void add_extension(X509 *certificate, X509V3_CTX *context, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, kind, value);
    must(extension && X509_add_ext(certificate, extension, -1) == 1, value);
    X509_EXTENSION_free(extension);
}

static void name_it(X509 *certificate, const struct tls_wish *w)
{
    const char *subject = w->subject ? w->subject : w->name;
    X509_NAME *name = X509_get_subject_name(certificate);
    if (subject[0]) {
        must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject,
                                        -1, -1, 0) == 1,
             "a subject");
    }
}

void tls_files_make(const struct tls_wish *w)
{
    EVP_PKEY *key = w->is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    must(key && certificate, "a key");
    bool has_time = w->from_s != 0 || w->to_s != 0;
    X509_set_version(certificate, X509_VERSION_3);
    static long serial;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), has_time ? w->from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), has_time ? w->to_s : 3600);
    X509_set_pubkey(certificate, key);
    name_it(certificate, w);
    X509 *ca = w->ca ? load_certificate(w->ca) : certificate;
    EVP_PKEY *ca_key = w->ca ? load_key(w->ca) : key;
    X509_set_issuer_name(certificate, X509_get_subject_name(ca));
    X509V3_CTX context;
    X509V3_set_ctx(&context, ca, certificate, NULL, NULL, 0);
    add_extension(certificate, &context, NID_basic_constraints,
                  w->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (w->names) {
        add_extension(certificate, &context, NID_subject_alt_name, w->names);
    }
    must(X509_sign(certificate, ca_key, EVP_sha256()) > 0, "signing");
    FILE *f = open_file(w->name, ".pem", "w");
    must(PEM_write_X509(f, certificate) == 1, "writing a certificate");
    fclose(f);
    f = open_file(w->name, ".key", "w");
    must(fchmod(fileno(f), 0600) == 0, "fchmod");
    must(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1, "writing a key");
    fclose(f);
    if (w->ca) {
        X509_free(ca);
        EVP_PKEY_free(ca_key);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void tls_files_encrypt_key(const char *name)
{
    EVP_PKEY *key = load_key(name);
    FILE *f = open_file(name, ".secret", "w");
    char pass[] = "word";
    must(PEM_write_PrivateKey(f, key, EVP_aes_256_cbc(), (unsigned char *)pass, 4, NULL, NULL) == 1,
         "encrypting a key");
    fclose(f);
    EVP_PKEY_free(key);
}

void tls_files_end(void)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.') {
            unlink(tls_files_path(e->d_name));
        }
    }
    if (d) {
        closedir(d);
    }
    rmdir(dir);
}
