/* SPDX-License-Identifier: MIT
 *
 * Certificates for tests, made when they run: nothing that is kept could expire.
 *
 *     const char *dir = tls_files_begin();
 *     tls_files_make(&(struct tls_wish){.name = "ca", .is_ca = true});
 *     tls_files_make(&(struct tls_wish){.name = "a", .ca = "ca", .names = "DNS:a.test"});
 *     ... DIR/a.pem, DIR/a.key ...
 *     tls_files_end();
 */
#ifndef SUPPORT_TLS_FILES_H
#define SUPPORT_TLS_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct tls_wish {
    const char *name;    /* of the files: NAME.pem and NAME.key */
    const char *subject; /* common name; NULL: `name`; "": no subject */
    const char *names;   /* as OpenSSL's subjectAltName: "DNS:a.test,DNS:*.b.test"; NULL: none */
    const char *ca;      /* name of the one that signs it, made before; NULL: itself */
    bool is_ca, is_rsa;
    long from_s, to_s; /* its time, from now; both 0: an hour around now */
};

const char *tls_files_begin(void); /* a scratch directory */
void tls_files_make(const struct tls_wish *wish);
/* DIR/NAME; the text lives until the eighth call after this one. */
const char *tls_files_path(const char *name);
void tls_files_write(const char *name, const char *text);
/* The key of NAME once more, encrypted, as NAME.secret. */
void tls_files_encrypt_key(const char *name);
void tls_files_end(void);

#endif
