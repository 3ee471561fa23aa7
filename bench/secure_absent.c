/* SPDX-License-Identifier: MIT
 *
 * In place of secure.c in a build without OpenSSL.
 */
#include "secure.h"

#include "common.h"

void secure_make_files(void)
{
    bench_die("there is no TLS in this build");
}

const char *secure_certificate(void)
{
    return "";
}

const char *secure_key(void)
{
    return "";
}

void secure_remove_files(void)
{
}

struct ssl_st *secure_connect(int fd)
{
    (void)fd;
    return NULL;
}

void secure_write(struct ssl_st *ssl, const char *bytes, size_t n)
{
    (void)ssl;
    (void)bytes;
    (void)n;
}

size_t secure_read(struct ssl_st *ssl, char *bytes, size_t max)
{
    (void)ssl;
    (void)bytes;
    (void)max;
    return 0;
}

void secure_free(struct ssl_st *ssl)
{
    (void)ssl;
}
