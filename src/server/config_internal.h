/* SPDX-License-Identifier: MIT
 *
 * The rows of the configuration, and the functions that the files config*.c share.
 */
#ifndef SERVER_CONFIG_INTERNAL_H
#define SERVER_CONFIG_INTERNAL_H

#include "server/config.h"

enum config_type {
    CONFIG_BOOL,     /* bool */
    CONFIG_NUMBER,   /* uint64_t */
    CONFIG_SIZE,     /* uint64_t bytes */
    CONFIG_DURATION, /* uint64_t ms */
    CONFIG_CHOICE,   /* unsigned, index into choices */
    CONFIG_TEXT,     /* char * */
    CONFIG_LEVELS,   /* char *, of the log */
    CONFIG_PATH,     /* char *, of a file */
    CONFIG_MODE,     /* unsigned, permissions in octal */
    CONFIG_ADDRESS,  /* struct config_address */
    CONFIG_GLOBS,    /* struct config_list from here on */
    CONFIG_ORIGINS,
    CONFIG_HOSTS,
    CONFIG_RULES,  /* JSON objects: options of subscriptions, … */
    CONFIG_ACCESS, /* … and access rules */
    CONFIG_PREFIXES,
    CONFIG_ADDRESSES,
    CONFIG_PATHS, /* of sockets */
    CONFIG_FILES,
    CONFIG_WORDS,
    CONFIG_MOUNTS, /* mounts and mount_count */
};

struct config_row {
    const char *name; /* kebab-case; the other spellings are derived from it */
    const char *key;  /* key in the file if it is not derived; else NULL */
    enum config_type type;
    size_t offset;              /* in struct config */
    const char *value;          /* default, as a flag would give it; lists: one item or "" */
    uint64_t min, max;          /* numbers, sizes, durations */
    const char *const *choices; /* CONFIG_CHOICE: ends with NULL */
    const char *bare;           /* value of an option without an argument; NULL: it needs one */
    const char *metavar;        /* name of the value in the help */
    const char *help;           /* one phrase, lower case, no full stop */
};

extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* A title in `--help`, before the row of that name. The last has neither. */
struct config_topic {
    const char *first, *title;
};
extern const struct config_topic config_topics[];

#define CONFIG_NAME_MAX 48u /* bytes of any spelling, with its NUL */

enum config_spelling {
    CONFIG_AS_NAME,     /* page-size */
    CONFIG_AS_FLAG,     /* --page-size */
    CONFIG_AS_VARIABLE, /* TIDINGS_PAGE_SIZE */
    CONFIG_AS_KEY,      /* pageSize */
};

/* The spelling of a row, NUL-terminated. */
void config_spell(const struct config_row *row, enum config_spelling how,
                  char out[CONFIG_NAME_MAX]);
/* The row with that spelling, or NULL. */
const struct config_row *config_find(struct tidings_str text, enum config_spelling how);
/* The nearest row whose spelling is at most `distance` edits away; or NULL. */
const struct config_row *config_nearest(struct tidings_str text, enum config_spelling how,
                                        unsigned distance);
/* TIDINGS_E_INVALID: "unknown option '--pagesize', did you mean '--page-size'?". `what` is the
 * noun ("option", "key"). */
int config_unknown(struct tidings_str text, enum config_spelling how, const char *what,
                   struct tidings_error *err);

/* Untrusted text, made safe for an error message: control characters are replaced and long text is
 * truncated. */
#define CONFIG_QUOTE_MAX 64u
const char *config_quote(struct tidings_str text, char out[CONFIG_QUOTE_MAX]);

static inline bool config_is_list(enum config_type type)
{
    return type >= CONFIG_GLOBS;
}

/* Check `value`, and store it unless a higher source has set the row. The error does not name the
 * place: the caller adds it. */
int config_assign(struct config *c, const struct config_row *row, struct tidings_str value,
                  struct config_origin origin, struct tidings_error *err);

/* Append a list item, or empty the list if the item is empty. */
int config_list_add(struct config_list *list, struct tidings_str item, struct tidings_error *err);
void config_list_deinit(struct config_list *list);

struct json;

/* A mount about to be added. */
struct config_mount_spec {
    const struct tidings_provider_ops *ops; /* NULL: files */
    struct tidings_str settings;            /* other providers: JSON object */
    struct tidings_str uri;            /* empty: file:// and the absolute path; system://metrics/ */
    struct tidings_str path;           /* relative: from `base` */
    struct tidings_str base;           /* empty: from the working directory */
    const struct config_list *exclude; /* copied; NULL: none */
    struct json *options, *limits;     /* NULL: none */
    enum mount_nodes nodes;
};
int config_mount_add(struct config *c, const struct config_mount_spec *spec,
                     struct config_origin origin, struct tidings_error *err);

/* The values that a row accepts: "1 to 1000". */
int config_put_accepted(struct buf *out, const struct config_row *row);

/* Parsers of one value each (config.c). TIDINGS_E_INVALID with the value and what is accepted. */
int config_check_item(enum config_type type, struct tidings_str s, struct tidings_error *err);

#endif
