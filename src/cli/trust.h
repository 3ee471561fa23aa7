/* SPDX-License-Identifier: MIT
 *
 * Remembers which servers of projects' files the person agreed to use. A project's .mcp.json comes
 * with a checkout: one that launches a command, has variables put in, or would be sent a token is
 * used only after somebody looked at it once. What is remembered is the file, the name and a digest
 * of all the entry says, so an entry that changes is a new one, in
 *
 *     $XDG_STATE_HOME/tidings/trusted (~/.local/state/…)
 *
 * a line of JSON each, the newest last, as <tidings/file.h> wants files that are found. What cannot
 * be understood there counts as never said. At most TRUST_MAX lines: the oldest go, and are asked
 * for again.
 */
#ifndef CLI_TRUST_H
#define CLI_TRUST_H

#include <tidings/file.h>

#include "cli/command.h"
#include "cli/target.h"

#define TRUST_MAX 1000u
#define TRUST_NAME_MAX 256u        /* bytes of a name that can be remembered */
#define TRUST_FILE_MAX (32u << 20) /* bytes that are read of the file */

struct trusted {
    struct tidings_str file, name, digest;
    struct tidings_str since; /* 2026-07-28T10:00:00.012Z */
};

/* Was that very entry agreed to? 1, 0, or an error: nobody could know. */
int trust_find(const struct trusted *entry, struct tidings_error *err);
/* It is from now on, at this time. */
int trust_add(const struct trusted *entry, int64_t now_ms, struct tidings_error *err);

/* Each that was agreed to, the oldest first. */
typedef void (*trust_fn)(void *user, const struct trusted *entry);
int trust_each(trust_fn fn, void *user, struct tidings_error *err);
/* Forget those of that name, of whichever file; each is told. Their number, or an error. */
int trust_forget(struct tidings_str name, trust_fn fn, void *user, struct tidings_error *err);

/* The lines of such a file. For the above, and for tests. */
void trust_parse(struct tidings_str text, trust_fn fn, void *user);

/* -------------------------------------------------------------------------------------------------
 * Asks the person whether a server that a project's file names may be used. The file came with a
 * checkout: before it has a program launched, gets what is in the person's variables, or is sent a
 * token or header that the person gave for somebody, they are asked, once (trust.h): on a terminal;
 * elsewhere it is refused with the command that agrees to it. A plain URL that gets none of these
 * needs no question.
 */

/* 0: it may. TIDINGS_E_DENIED: nobody agreed, or what was agreed to cannot be read. */
int consent_check(const struct cli *cli, const char *path, const char *name,
                  const struct target *target, struct tidings_error *err);

#endif
