/* SPDX-License-Identifier: MIT
 *
 * The configuration of a provider: a JSON object read by a table of rows into the fields of a
 * struct. Unknown keys are errors that name the known ones; a value that does not fit is an error
 * that says what does.
 */
#ifndef PROVIDER_SETTINGS_H
#define PROVIDER_SETTINGS_H

#include "base/str.h"
#include "json/json.h"

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

#endif
