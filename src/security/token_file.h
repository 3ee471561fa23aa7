/* SPDX-License-Identifier: MIT
 *
 * The token file: names, digests and scopes of valid tokens, one per line.
 *
 *     # name   SHA-256 of the token, in hex    scopes
 *     alice    9f86d081884c7d659a2feaa0c55a…   res:read res:write
 *
 * The file contains hashes, so reading it gives no access. They need neither salt nor a slow
 * function: those make it expensive to guess a short password, but a token made by token_make has
 * 256 random bits, which cannot be guessed. Hence tokens are generated here, never chosen.
 *
 * Several lines can have the same name, so that a new token can be issued before the old one is
 * revoked.
 */
#ifndef SECURITY_TOKEN_FILE_H
#define SECURITY_TOKEN_FILE_H

#include "base/map.h"
#include "base/str.h"
#include "security/principal.h"

#define TOKEN_FILE_MAX (1u << 20) /* bytes */
#define TOKEN_FILE_LINES 4096u    /* tokens */
#define TOKEN_FILE_NAME_MAX 128u

struct token_file; /* immutable, reference counted: a value of a shared map */

/* `path` is used in errors: "PATH:LINE: …", TIDINGS_E_PARSE or TIDINGS_E_LIMIT. `text` is copied.
 * The value has the key TOKEN_FILE_KEY. */
int token_file_parse(struct token_file **ret, const char *path, struct tidings_str text,
                     struct tidings_error *err);
int token_file_load(struct token_file **ret, const char *path, struct tidings_error *err);
#define TOKEN_FILE_KEY STR("tokens")
struct shared_value *token_file_value(struct token_file *f);
struct token_file *token_file_of(struct shared_value *value); /* NULL for NULL */

/* Finds the identity of the token with that digest. Takes the same time wherever its line is, and
 * if there is none (then *ret is NULL). TIDINGS_E_NOMEM. */
int token_file_find(const struct token_file *f, const unsigned char digest[SHA256_BYTES],
                    struct identity **ret);

/* Writes a new token of 256 random bits to `token`, and its line for the file to `line` (without a
 * line feed). Scopes are separated by blanks. TIDINGS_E_INVALID for an invalid name or scope. */
int token_make(struct tidings_str name, struct tidings_str scopes, struct buf *token,
               struct buf *line, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The credentials with which this server introspects tokens at the authorization server: a client
 * id and a secret, kept as the header `Authorization: Basic …`.
 */

struct credentials; /* immutable, reference counted: a value of a shared map */

/* The file has one line, CLIENT_ID:SECRET (RFC 6749 §2.3.1). The value has the key
 * CREDENTIALS_KEY. */
int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err);
#define CREDENTIALS_KEY STR("credentials")
struct shared_value *credentials_value(struct credentials *c);
struct credentials *credentials_of(struct shared_value *value); /* NULL for NULL */
/* "Authorization: Basic …" */
const char *credentials_header(const struct credentials *c);

/* Encodes application/x-www-form-urlencoded characters where necessary. */
void credentials_put_encoded(struct buf *out, struct tidings_str s);

#endif
