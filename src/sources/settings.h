/* SPDX-License-Identifier: MIT
 *
 * The configuration of a provider: a JSON object read by a table of rows into the fields of a
 * struct. Unknown keys are errors that name the known ones; a value that does not fit is an error
 * that says what does.
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

/* Fill `into`: fallbacks first, then what `config` says (empty text: nothing). On failure texts
 * taken so far are in their fields. */
int settings_read(const struct setting *rows, size_t count, struct tidings_str config, void *into,
                  struct tidings_error *err);

/* A heap copy of a JSON string without NUL, 1 to SETTING_TEXT_MAX bytes. NULL after failing. */
char *setting_text(const struct json *value, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * A read or a watch on its way to the thread of a provider that has one (base/thread.h). Whoever it
 * is delivered to finishes what it carries and frees it; when the thread has ended, both are
 * refused with TIDINGS_E_CLOSED.
 */

struct actor_job {
    struct thread_message message;
    struct list link; /* the provider's own, once delivered */
    struct tidings_read *read;
    struct tidings_watch *watch; /* neither: a watch was given up */
    int which;                   /* the provider's own */
};

typedef void (*actor_job_fn)(struct thread_message *message, void *owner);

/* A copy of `job` goes to `to`, where `deliver` gets it. false: out of memory, nothing sent. */
bool actor_job_send(struct mailbox *to, const struct actor_job *job, actor_job_fn deliver);

/* -------------------------------------------------------------------------------------------------
 * The etag of content that is at hand as a whole: 32 hexadecimal digits, equal for equal bytes.
 */

#define ETAG_SIZE 33u /* with its NUL */

static inline struct tidings_str etag_of(struct tidings_str content, char out[ETAG_SIZE])
{
    (void)snprintf(out, ETAG_SIZE, "%016" PRIx64 "%016" PRIx64, str_hash(content, 1),
                   str_hash(content, 2));
    return tidings_strn(out, ETAG_SIZE - 1);
}

#endif
