/* SPDX-License-Identifier: MIT
 *
 * Remembers which servers of project files the user has agreed to use. A project's .mcp.json comes
 * with a checkout. A server that launches a command, uses variables, or would get a token is used
 * only after the user approved it once. The record consists of the file, the name and a digest of
 * the whole entry, so a changed entry needs a new approval. Records are in
 *
 *     $XDG_STATE_HOME/tidings/trusted (~/.local/state/…)
 *
 * a line of JSON each, the newest last; the file must meet the rules of <tidings/file.h>.
 * Unreadable lines are ignored. At most TRUST_MAX lines: the oldest are evicted and need a new
 * approval.
 */
#ifndef CLI_TRUST_H
#define CLI_TRUST_H

#include <tidings/file.h>

#include "cli/command.h"
#include "cli/target.h"

#define TRUST_MAX 1000u
#define TRUST_NAME_MAX 256u        /* bytes of a name that can be stored */
#define TRUST_FILE_MAX (32u << 20) /* bytes that are read from the file */

struct trusted {
    struct tidings_str file, name, digest;
    struct tidings_str since; /* 2026-07-28T10:00:00.012Z */
};

/* Returns 1 if the user agreed to exactly that entry, 0 if not, or an error if it is unknown. */
int trust_find(const struct trusted *entry, struct tidings_error *err);
/* Record the agreement, at this time. */
int trust_add(const struct trusted *entry, int64_t now_ms, struct tidings_error *err);

/* Each approved entry, the oldest first. */
typedef void (*trust_fn)(void *user, const struct trusted *entry);
int trust_each(trust_fn fn, void *user, struct tidings_error *err);
/* Forget all entries of that name, from any file, and call `fn` for each. Returns their number, or
 * an error. */
int trust_forget(struct tidings_str name, trust_fn fn, void *user, struct tidings_error *err);

/* The lines of such a file. For the functions above, and for tests. */
void trust_parse(struct tidings_str text, trust_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * Asks for consent to a server from a project's file, which came with a checkout. Without consent,
 * the file must not launch a program, read the user's variables, or get a token or header that the
 * user provided. The user is asked once (trust.h), on a terminal; elsewhere the server is refused,
 * and the error names the command that approves it. A plain URL that gets none of these needs no
 * consent.
 */

/* 0: allowed. TIDINGS_E_DENIED: not approved, or the approvals are unreadable. */
int consent_check(const struct cli *cli, const char *path, const char *name,
                  const struct target *target, struct tidings_error *err);

#endif
