/* SPDX-License-Identifier: MIT
 *
 * The client half of TLS for benchmarks, and a certificate for the servers. Certificates are not
 * checked: it is the server that is measured.
 */
#ifndef BENCH_SECURE_H
#define BENCH_SECURE_H

#include <sys/types.h>

struct ssl_st;

/* A certificate and its key (P-256), created in a separate directory until the end. */
void secure_make_files(void);
const char *secure_certificate(void);
const char *secure_key(void);
void secure_remove_files(void);

/* TLS 1.3 on a blocking socket, which does not block from then on. */
struct ssl_st *secure_connect(int fd);
/* All of them; waits when it must. */
void secure_write(struct ssl_st *ssl, const char *bytes, size_t n);
/* The available input, 0: none at the moment; dies at the end of the connection. */
size_t secure_read(struct ssl_st *ssl, char *bytes, size_t max);
void secure_free(struct ssl_st *ssl); /* without a word; NULL is fine */

#endif
