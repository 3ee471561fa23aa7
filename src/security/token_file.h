/* SPDX-License-Identifier: MIT
 *
 * The file of tokens: who may come with which, one line each.
 *
 *     # name   SHA-256 of the token, in hex    scopes
 *     alice    9f86d081884c7d659a2feaa0c55a…   res:read res:write
 *
 * The file holds hashes, so that reading it opens no door. They need neither salt nor a slow
 * function: those make guessing a short password expensive, and a token made by token_make has 256
 * random bits, which nobody guesses, fast or slow. Hence tokens are made here and never chosen.
 *
 * A name may stand on several lines: a new token is handed out before the old one is taken away.
 */
#ifndef SECURITY_TOKEN_FILE_H
#define SECURITY_TOKEN_FILE_H

#include "base/map.h"
#include "base/str.h"
#include "security/principal.h"

#define TOKEN_FILE_MAX (1u << 20) /* bytes */
#define TOKEN_FILE_LINES 4096u    /* tokens */
#define TOKEN_FILE_NAME_MAX 128u

struct token_file; /* immutable, counted: a value of a shared map */

/* `path` is for errors: "PATH:LINE: …", TIDINGS_E_PARSE or TIDINGS_E_LIMIT. `text` is copied. The
 * value has the key TOKEN_FILE_KEY. */
int token_file_parse(struct token_file **ret, const char *path, struct tidings_str text,
                     struct tidings_error *err);
int token_file_load(struct token_file **ret, const char *path, struct tidings_error *err);
#define TOKEN_FILE_KEY STR("tokens")
struct shared_value *token_file_value(struct token_file *f);
struct token_file *token_file_of(struct shared_value *value); /* NULL for NULL */

/* The identity of the token with that digest. Takes the same time wherever its line is, and when
 * there is none (then *ret is NULL). TIDINGS_E_NOMEM. */
int token_file_find(const struct token_file *f, const unsigned char digest[SHA256_BYTES],
                    struct identity **ret);

/* A new token of 256 random bits to `token`, and to `line` what belongs into the file (without a
 * line feed). Scopes with blanks between them. TIDINGS_E_INVALID for a name or scope that cannot
 * stand there. */
int token_make(struct tidings_str name, struct tidings_str scopes, struct buf *token,
               struct buf *line, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The credentials with which this server introspects tokens at the authorization server: a client
 * id and a secret, kept as the header `Authorization: Basic …`.
 */

struct credentials; /* immutable, counted: a value of a shared map */

/* The file has one line, CLIENT_ID:SECRET (RFC 6749 §2.3.1). The value has the key
 * CREDENTIALS_KEY. */
int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err);
#define CREDENTIALS_KEY STR("credentials")
struct shared_value *credentials_value(struct credentials *c);
struct credentials *credentials_of(struct shared_value *value); /* NULL for NULL */
/* "Authorization: Basic …" */
const char *credentials_header(const struct credentials *c);

/* application/x-www-form-urlencoded, of what needs it. */
void credentials_put_encoded(struct buf *out, struct tidings_str s);

#endif
