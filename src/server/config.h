/* SPDX-License-Identifier: MIT
 *
 * The configuration: one table of rows (name, type, default, bounds, help), and the plain struct of
 * values that results from it.
 *
 * A row has three spellings, all derived from its name: the flag `--page-size`, the environment
 * variable `TIDINGS_PAGE_SIZE`, the key `pageSize` of the file. Values come from four sources; a
 * higher one wins in any order of calls: default < file < environment < flag. Overridden values are
 * checked too.
 *
 * Lists: items of one source accumulate, and a higher source replaces the items of a lower one. The
 * default items (`.git` of `exclude`) stay unless an empty item, which empties the list, removes
 * them.
 *
 * Errors name the place (file:line, variable, flag), the value, and the accepted values. Unknown
 * names are errors and come with the nearest known one.
 *
 * This module does not reload, and does not open the files that values name. It has no globals;
 * threads may share a config that no longer changes.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <tidings/file.h>
#include <tidings/provider.h>

#include "base/str.h"
#include "engine/catalog/provider.h"

#define CONFIG_OWNED_MAX 64u     /* owned mounts: each queries the database once a second */
#define CONFIG_ROWS_MAX 128u     /* rows in the table, asserted */
#define CONFIG_ITEMS_MAX 1000u   /* items of one list, mounts */
#define CONFIG_VALUE_MAX 4096u   /* bytes of one value */
#define CONFIG_FILE_MAX 1048576u /* bytes of the file */
#define CONFIG_FILE_NAME "tidings.json"
#define CONFIG_CLUSTER_DEFAULT "tidings"

enum config_source {
    CONFIG_DEFAULT,
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_FLAG,
    CONFIG_PROGRAM, /* tidings_server_set: a flag, but errors use the program's name for it */
};

/* The source of a row's value. */
struct config_origin {
    enum config_source source;
    unsigned line; /* CONFIG_FILE: line of the key; 0 otherwise */
};

struct config_address {
    char host[46]; /* a numeric IPv4 or IPv6 address, without brackets */
    uint16_t port; /* 0: any free one */
};

struct config_list {
    char **items;
    size_t count;
};

struct config_mount {
    const struct tidings_provider_ops *ops; /* a built-in provider */
    char *uri;                              /* canonical prefix, ends in '/' */
    char *path;                             /* files: absolute directory; not checked here */
    struct config_list exclude;             /* files: beyond config.exclude */
    char *settings;                         /* others: the provider's own JSON object */
    char *options, *limits; /* JSON objects for subscriptions below it; NULL: none */
    enum mount_nodes nodes;
};

/* Counts are plain, sizes are bytes, durations are milliseconds. */
struct config {
    struct config_address http;
    struct config_list tcp;          /* addresses */
    struct config_list unix_sockets; /* paths */
    struct config_list http_unix;    /* paths */
    unsigned unix_mode;
    struct config_list tls_cert, tls_key; /* files, in pairs */
    char *tls_client_ca;                  /* a file; empty: none */
    unsigned tls_client_auth;             /* enum tls_client_auth */
    unsigned tls_min;                     /* enum tls_version */
    struct config_list auth_issuer;       /* URLs */
    struct config_list auth_jwks;         /* files or URLs; none, or one for each issuer */
    struct config_list auth_audience, auth_scope;
    char *auth_resource, *auth_introspection;       /* URLs; empty: none */
    char *auth_credentials, *auth_ca, *auth_tokens; /* files; empty: none */
    uint64_t auth_leeway_ms;
    unsigned auth_dpop; /* enum dpop_mode */
    uint64_t workers;   /* 0: one per core */
    struct config_mount *mounts;
    size_t mount_count;
    char *skills; /* a directory that is mounted at skill:// (config_mount_skills); empty: none */
    struct config_list exclude;
    struct config_list shared, owned; /* prefixes of mounts, including those of the program */
    struct config_list publish;       /* canonical prefixes */
    uint64_t published_max, published_bytes;
    unsigned change_tools; /* 0: auto, 1: on, 2: off */
    uint64_t page_size;
    uint64_t max_read;
    uint64_t max_body;
    uint64_t max_line;
    uint64_t max_input;
    uint64_t max_output, max_connection_output;
    uint64_t max_depth;
    uint64_t keepalive_ms;
    uint64_t header_timeout_ms;
    uint64_t body_timeout_ms;
    uint64_t idle_timeout_ms;
    uint64_t stall_timeout_ms;
    uint64_t session_timeout_ms;
    uint64_t max_sessions;
    uint64_t max_connections;       /* 0: limited by the number of descriptors */
    uint64_t max_listens;           /* per connection */
    uint64_t max_subscriptions;     /* per subscriber */
    uint64_t max_all_subscriptions; /* 0: unlimited */
    uint64_t fair_share;            /* percent */
    uint64_t max_uris_per_listen;
    /* For one client; 0: unlimited, see server/setup.c for the defaults.
     */
    uint64_t max_client_connections, max_client_sessions;
    uint64_t connection_rate, connection_burst;
    uint64_t request_rate, request_burst;
    uint64_t subscribe_rate, subscribe_burst;
    uint64_t block_after, block_time_ms;
    uint64_t max_clients;
    uint64_t outbox; /* notifications per subscriber */
    uint64_t log_entries;
    uint64_t log_bytes;
    uint64_t max_announced;
    uint64_t drain_ms;
    uint64_t max_watches;
    uint64_t watch_quiet_ms;
    uint64_t watch_linger_ms;
    uint64_t watch_timeout_ms;
    uint64_t window_ms, rate_ms;         /* of subscriptions without these options */
    unsigned detail;                     /* likewise; 0: full, 1: slim */
    uint64_t max_window_ms, max_rate_ms; /* maximum that a client may request */
    struct config_list subscriptions;    /* rules as JSON objects, see server/option_rules.h */
    struct config_list access;           /* likewise, see server/auth_setup.h */
    char *access_file;
    uint64_t max_breadth;
    uint64_t max_value;
    uint64_t max_calls, call_timeout_ms, ask_timeout_ms;
    uint64_t max_tasks, max_client_tasks, task_ttl_ms;
    uint64_t log_age_ms;    /* 0: no limit */
    unsigned io_uring;      /* 0: auto, 1: off */
    char *entities;         /* a file, or ":memory:"; empty: none */
    char *entity_authority; /* the start of their absolute URIs; empty: none */
    char *store;            /* the same, but entities are not served */
    unsigned stale_reads;   /* 0: serve, 1: refuse */
    bool accept_data_loss;  /* for a store in a file */
    uint64_t stale_cache;
    char *cluster, *node; /* of a store that several nodes share; `node` empty: any name */
    uint64_t system_interval_ms;
    bool stdio, self, system, list_changed, subscribe;
    bool allow_write, allow_remote, legacy_sse, console;
    bool sandbox;     /* of a program that requests it */
    unsigned profile; /* 0: none; see config_get for the text */
    struct config_list allow_origin;
    struct config_list allow_host;
    unsigned
        protocol_max; /* of TIDINGS_PROTOCOL_VERSIONS; 0: the newest; see config_get for the text */
    char *log_level;  /* see log_levels_parse */
    unsigned log_format;   /* enum log_format */
    char *log_file;        /* empty: standard error */
    char *access_log_file; /* empty: the same as the log */
    bool access_log;
    char *name;
    char *metrics; /* empty: none; "path"; or an address */
    char *title, *instructions;

    char *file;                                    /* the file that was loaded; NULL: none */
    enum tidings_file_from file_from;              /* named by the user, or found */
    struct config_origin origins[CONFIG_ROWS_MAX]; /* by row */
};

/* All defaults. TIDINGS_E_NOMEM; call config_deinit even after a failure. */
int config_init(struct config *c, struct tidings_error *err);
void config_deinit(struct config *c);

/* Set a row by the name in its flag ("page-size"). A list gains one item. */
int config_set(struct config *c, const char *name, const char *value, enum config_source source,
               struct tidings_error *err);

/* Serve a directory at file:///absolute/path/, as the positional arguments do. */
int config_add_dir(struct config *c, const char *dir, enum config_source source,
                   struct tidings_error *err);

/* After all settings: mount the directory of skills, unless it is mounted already. */
int config_mount_skills(struct config *c, struct tidings_error *err);

/* Read a JSON file; // and block comments are allowed. The file must meet the rules of
 * <tidings/file.h>, otherwise TIDINGS_E_DENIED. Relative directories in it are relative to the
 * folder of the file. TIDINGS_E_NOTFOUND if it does not exist. After another failure some of its
 * values may already be set: discard the config. */
int config_load_file(struct config *c, const char *path, enum tidings_file_from from,
                     struct tidings_error *err);

/* The same from memory; `path` is its name in errors. */
int config_load_text(struct config *c, const char *path, struct tidings_str text,
                     struct tidings_error *err);

/* Take every TIDINGS_NAME of `environment` (as environ: "NAME=value", NULL at the end). Empty
 * values count as not set; lists are separated by commas. Unknown TIDINGS_ names are ignored unless
 * they resemble a known one. */
int config_load_env(struct config *c, char *const *environment, struct tidings_error *err);

/* The arguments of a server program: `--name value`, `--name=value`, `--bool`, `--no-bool`,
 * directories, `--` before directories that begin with '-'. Then the environment, then the file:
 * `--config FILE`, else TIDINGS_CONFIG, else ./tidings.json if it exists; no file with
 * `--no-config`. Ends with config_check. argv[0] is the first argument proper. */
int config_args(struct config *c, int argc, char *const *argv, char *const *environment,
                struct tidings_error *err);

/* Checks settings that need or contradict one another. An address beyond loopback needs
 * allow-remote, and excludes allow-write, unless clients must authenticate. */
int config_check(const struct config *c, struct tidings_error *err);

/* Returns true if the server's own state is served (`self`, `console`). */
bool config_shows_self(const struct config *c);
/* The file of the store, ":memory:", or NULL: none. */
const char *config_store(const struct config *c);
/* Returns true if the store is a database that several nodes share (postgres://…). */
bool config_store_is_shared(const struct config *c);
/* The nodes that watch the mount at `uri`, or around it, as far as the configuration names them. */
enum mount_nodes config_nodes_of(const struct config *c, struct tidings_str uri);
/* Returns true if any source set that row. */
bool config_is_set(const struct config *c, const char *name);
/* Returns true if a higher source overrides the file for that row. */
bool config_is_beyond_file(const struct config *c, const char *name);
/* HTTP is served if an address for it is set, or no other listener is configured. */
bool config_wants_http(const struct config *c);
/* Returns true if clients must have a certificate, which identifies them. */
bool config_knows_clients(const struct config *c);
/* Returns true if HTTP requests must have a token. */
bool config_wants_tokens(const struct config *c);
/* Returns true if the server uses TLS, or if auth-resource says that a proxy in front of it
 * does. */
bool config_is_encrypted(const struct config *c);
/* "127.0.0.1:7777", "[::1]:7777", "7777". */
int config_parse_address(struct tidings_str s, struct config_address *out,
                         struct tidings_error *err);
bool config_address_is_loopback(const struct config_address *a);

/* The value of a row in the spelling of its flag ("16m", "15s", "2026-07-28"); lists are joined by
 * commas. TIDINGS_E_NOTFOUND: no such row. */
int config_get(const struct config *c, const char *name, struct buf *out);

/* The value of a row that is a number, size or duration (ms). TIDINGS_E_NOTFOUND: no such row; *ret
 * is unchanged. */
int config_get_number(const struct config *c, const char *name, uint64_t *ret);

/* The options for --help, by topic, in lines of `width` columns (50 to 100; 0: 80). */
int config_help(struct buf *out, size_t width);

/* All effective values as a configuration file, each with a comment that names its source.
 */
int config_print(const struct config *c, struct buf *out);
/* The same as JSON without comments: {"settings": the content of a file, "origins": the source of
 * each value}. */
int config_json(const struct config *c, struct buf *out);

#endif
