/* SPDX-License-Identifier: MIT
 *
 * The token store: tokens by issuer and resource, in memory or in a user's file (JSON, mode 0600)
 * that several processes share. A writer holds the lock of the file (FILE.lock), reads it once
 * more, and replaces it as a whole. A file that other users can read or write is rejected.
 */
#ifndef CLIENT_OAUTH_TOKEN_STORE_H
#define CLIENT_OAUTH_TOKEN_STORE_H

#include "client/oauth/documents.h"

#define TOKEN_STORE_MAX 256u /* tokens; beyond: TIDINGS_E_LIMIT */
#define TOKEN_STORE_BYTES (4u << 20)

struct token_store {
    char *path; /* NULL: in memory */
    int lock;   /* the descriptor that holds it; -1: not held */
    struct token *tokens;
    size_t count;
};

int token_store_init(struct token_store *s, const char *path); /* does not read the file yet */
void token_store_deinit(struct token_store *s);

/* Replaces the tokens with those in the file; no file: none. In memory: no effect. */
int token_store_load(struct token_store *s, struct tidings_error *err);
/* The token for that server: of all whose resource covers it, the one with the longest resource.
 * `issuer`: only of that one; NULL: of any. NULL: there is none. */
struct token *token_store_find(struct token_store *s, const char *server, const char *issuer);

/* 1: the lock is held now; 0: another process has it. */
int token_store_lock(struct token_store *s, struct tidings_error *err);
void token_store_unlock(struct token_store *s); /* no effect if it is not held */
/* Both with the lock, after token_store_load. A token takes the place of the one of its issuer and
 * resource. */
int token_store_put(struct token_store *s, const struct token *t, struct tidings_error *err);
void token_store_remove(struct token_store *s, struct token *t); /* one of `tokens` */
/* Writes the file. */
int token_store_save(struct token_store *s, struct tidings_error *err);

/* Parses the content of a token file, for callers without a file. */
int token_store_parse(struct token_store *s, struct tidings_str text, struct tidings_error *err);

#endif
