/* SPDX-License-Identifier: MIT
 *
 * The configuration of a provider: a JSON object read by a table of rows into the fields of a
 * struct. The error for an unknown key names the known ones; the error for an invalid value names
 * the valid ones.
 */
#ifndef SOURCES_SETTINGS_H
#define SOURCES_SETTINGS_H

#include <inttypes.h>
#include <stdio.h>

#include <tidings/provider.h>

#include "base/str.h"
#include "base/thread.h"
#include "formats/json.h"

enum setting_type {
    SETTING_SIZE,     /* uint64_t bytes: 4096 or "4k" */
    SETTING_DURATION, /* uint64_t ms: "250ms", or whole seconds */
    SETTING_TEXT,     /* char *, mem_free it; no NUL inside; at most SETTING_TEXT_MAX bytes */
    SETTING_OTHER,    /* `take` reads it */
};

#define SETTING_TEXT_MAX 4096u
#define SETTINGS_DEPTH 8u

struct setting {
    const char *key;
    enum setting_type type;
    size_t offset;
    uint64_t fallback, min, max; /* sizes and durations */
    int (*take)(void *into, struct json *value, struct tidings_error *err);
};

/* Fills `into`: defaults first, then the values in `config` (empty text: none). On failure the
 * fields hold the strings read so far. */
int settings_read(const struct setting *rows, size_t count, struct tidings_str config, void *into,
                  struct tidings_error *err);

/* Returns a heap copy of a JSON string without NUL, 1 to SETTING_TEXT_MAX bytes. NULL on failure,
 * with an error. */
char *setting_text(const struct json *value, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * A read or a watch on its way to the thread of a provider that has one (base/thread.h). The
 * receiver finishes and frees it; if the thread has ended, both fail with TIDINGS_E_CLOSED.
 */

struct actor_job {
    struct thread_message message;
    struct list link; /* for the provider, after delivery */
    struct tidings_read *read;
    struct tidings_watch *watch; /* neither: a watch was released */
    int which;                   /* for the provider */
};

typedef void (*actor_job_fn)(struct thread_message *message, void *owner);

/* Sends a copy of `job` to `to`, where `deliver` gets it. Returns false if out of memory; nothing
 * is sent then. */
bool actor_job_send(struct mailbox *to, const struct actor_job *job, actor_job_fn deliver);

/* -------------------------------------------------------------------------------------------------
 * The etag of content that is available as a whole: 32 hexadecimal digits, equal for equal bytes.
 */

#define ETAG_SIZE 33u /* with its NUL */

static inline struct tidings_str etag_of(struct tidings_str content, char out[ETAG_SIZE])
{
    (void)snprintf(out, ETAG_SIZE, "%016" PRIx64 "%016" PRIx64, str_hash(content, 1),
                   str_hash(content, 2));
    return tidings_strn(out, ETAG_SIZE - 1);
}

#endif
