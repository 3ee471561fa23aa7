/* SPDX-License-Identifier: MIT
 *
 * What an HTTP request of a client shows so that it is let in: the lines that the program's
 * credentials (<tidings/credentials.h>), its function or its token put there.
 */
#ifndef CLIENT_CREDENTIALS_H
#define CLIENT_CREDENTIALS_H

#include "base/str.h"

#include <tidings/credentials.h>

#define CREDENTIALS_LINES 4u

struct client_settings;
struct tidings_client;

struct credentials_lines {
    struct buf lines[CREDENTIALS_LINES]; /* "Name: value" */
    size_t count;
    const char *server; /* as in struct tidings_credentials_request; borrowed */
};

void credentials_lines_init(struct credentials_lines *l);
void credentials_lines_deinit(struct credentials_lines *l);
/* What a request shall show now, instead of what was there. */
int credentials_lines_fill(struct credentials_lines *l, const struct client_settings *s,
                           const char *method, const char *url);
/* Likewise where a function gives tokens, if it gives another one; false: it does not. */
bool credentials_lines_renew(struct credentials_lines *l, const struct client_settings *s);
/* "Authorization: …"; empty: none. */
struct tidings_str credentials_lines_authorization(const struct credentials_lines *l);

/* The program's credentials have their turns in those of the client. */
int credentials_attach(struct tidings_client *c, struct tidings_error *err);
void credentials_detach(struct tidings_client *c); /* twice is fine */

#endif
