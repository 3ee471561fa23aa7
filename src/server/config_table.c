/* SPDX-License-Identifier: MIT
 *
 * The table of the configuration and the spellings derived from it. All users of options (parser,
 * help, printed configuration, the check of the man page) read this table; a new option needs a row
 * and a field.
 */
#include <stdio.h>
#include <string.h>

#include <tidings/server.h>

#include "base/text.h"
#include "engine/protocol/dialect.h"
#include "server/config_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The options of a server as `--help` prints them: grouped by topic, wrapped at blanks.
 */

#define HELP_COLUMN 30u /* the column of the descriptions */
#define WIDTH_DEFAULT 80u
#define WIDTH_MIN 50u
#define WIDTH_MAX 100u

struct help_page {
    struct buf *out;
    size_t width;
};

/* Prints `text`, with the cursor at the column of the descriptions. */
static void help_page_wrap(struct help_page *p, struct tidings_str text)
{
    size_t column = HELP_COLUMN;
    while (text.len > 0) {
        const char *blank = memchr(text.ptr, ' ', text.len);
        size_t n = blank ? (size_t)(blank - text.ptr) : text.len;
        if (column > HELP_COLUMN && column + 1 + n > p->width) {
            buf_putf(p->out, "\n%*s", (int)HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            buf_putc(p->out, ' ');
            column++;
        }
        buf_put(p->out, text.ptr, n);
        column += n;
        n += blank ? 1 : 0;
        text = tidings_strn(text.ptr + n, text.len - n);
    }
    buf_putc(p->out, '\n');
}

static void help_page_row(struct help_page *p, const char *name, const char *metavar,
                          struct tidings_str help)
{
    size_t start = p->out->len;
    buf_putf(p->out, "  --%s%s%s", name, metavar ? " " : "", metavar ? metavar : "");
    size_t used = p->out->len - start;
    if (used + 1 >= HELP_COLUMN) {
        buf_putc(p->out, '\n');
        used = 0;
    }
    buf_putf(p->out, "%*s", (int)(HELP_COLUMN - used), "");
    help_page_wrap(p, help);
}

static void help_page_option(struct help_page *p, const struct config_row *row)
{
    bool is_on = row->type == CONFIG_BOOL && strcmp(row->value, "true") == 0;
    struct tidings_config_option o;
    struct buf help;
    buf_init(&help, 4096);
    buf_putf(&help, "%s%s", is_on ? "do not " : "", row->help);
    if (row->type == CONFIG_LEVELS) {
        buf_puts(&help, STR("; levels are "));
        config_put_accepted(&help, row);
    }
    if (row->type == CONFIG_CHOICE) {
        buf_puts(&help, STR("; one of "));
        config_put_accepted(&help, row);
    }
    if (row->value[0] && row->type != CONFIG_BOOL) {
        buf_putf(&help, " (default %s)", row->value);
    }
    tidings_config_option((size_t)(row - config_rows), &o);
    help_page_row(p, o.name, o.metavar, buf_str(&help));
    p->out->failed |= help.failed;
    buf_deinit(&help);
}

int config_help(struct buf *out, size_t width)
{
    width = width == 0 ? WIDTH_DEFAULT : width < WIDTH_MIN ? WIDTH_MIN : width;
    struct help_page page = {out, width > WIDTH_MAX ? WIDTH_MAX : width};
    const struct config_topic *topic = config_topics;
    for (size_t i = 0; i < config_row_count; i++) {
        if (topic->first && strcmp(topic->first, config_rows[i].name) == 0) {
            buf_putf(out, "%s%s\n", i > 0 ? "\n" : "", topic->title);
            topic++;
        }
        help_page_option(&page, &config_rows[i]);
    }
    buf_puts(out, STR("\nthe configuration file\n"));
    struct tidings_config_option o;
    for (size_t i = config_row_count; tidings_config_option(i, &o); i++) {
        help_page_row(&page, o.name, o.metavar, tidings_str(o.help));
    }
    return out->failed;
}

bool tidings_config_option(size_t index, struct tidings_config_option *ret)
{
    static const struct tidings_config_option others[] = {
        {"config", "FILE", "read FILE instead of ./" CONFIG_FILE_NAME, NULL, NULL, false},
        {"no-config", NULL, "read no file", NULL, NULL, false},
    };
    if (index >= config_row_count) {
        index -= config_row_count;
        if (index < sizeof(others) / sizeof(others[0])) {
            *ret = others[index];
            return true;
        }
        return false;
    }
    const struct config_row *row = &config_rows[index];
    bool is_on = row->type == CONFIG_BOOL && strcmp(row->value, "true") == 0;
    snprintf(ret->name, sizeof(ret->name), "%s%s", is_on ? "no-" : "", row->name);
    ret->metavar = row->metavar;
    ret->help = row->help;
    ret->choices = row->choices;
    ret->value = row->metavar && row->value[0] ? row->value : NULL;
    ret->is_list = config_is_list(row->type);
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

#define FIELD(f) offsetof(struct config, f)
#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
#define SEC 1000ull
#define HOUR (3600ull * SEC)

static const char *const versions[] = {TIDINGS_PROTOCOL_VERSIONS, NULL};
static const char *const profiles[] = {"none", DIALECT_PROFILES, NULL};
static const char *const urings[] = {"auto", "off", NULL};
static const char *const dpops[] = {"accept", "require", "nonce", NULL}; /* enum dpop_mode */
static const char *const auths[] = {"off", "request", "require", NULL};  /* enum tls_client_auth */
static const char *const tls_versions[] = {"1.2", "1.3", NULL};          /* enum tls_version */
static const char *const offers[] = {"auto", "on", "off", NULL};
static const char *const stales[] = {"serve", "refuse", NULL};
static const char *const details[] = {"full", "slim", NULL};
static const char *const formats[] = {"text", "json", "logfmt", "journal",
                                      NULL}; /* enum log_format */
static const char *const levels[] = {"off", "error", "warn", "info", "debug", NULL};

/* clang-format off */
#define ROW(n, t, f, def, mv, h) \
    .name = (n), .type = (t), .offset = FIELD(f), .value = (def), .metavar = (mv), .help = (h)
#define BOOL(n, f, def, h) {ROW(n, CONFIG_BOOL, f, def, NULL, h)}
#define RANGE(n, t, f, def, lo, hi, mv, h) {ROW(n, t, f, def, mv, h), .min = (lo), .max = (hi)}
#define NUMBER(n, f, def, lo, hi, h) RANGE(n, CONFIG_NUMBER, f, def, lo, hi, "N", h)
#define SIZE(n, f, def, lo, hi, h) RANGE(n, CONFIG_SIZE, f, def, lo, hi, "BYTES", h)
#define DURATION(n, f, def, lo, hi, h) RANGE(n, CONFIG_DURATION, f, def, lo, hi, "TIME", h)
#define CHOICE(n, f, def, list, mv, h) {ROW(n, CONFIG_CHOICE, f, def, mv, h), .choices = (list)}
#define TEXT(n, f, def, h) {ROW(n, CONFIG_TEXT, f, def, "TEXT", h)}
#define LIST(n, t, f, def, mv, h) {ROW(n, t, f, def, mv, h)}

const struct config_row config_rows[] = {
    {ROW("http", CONFIG_ADDRESS, http, "127.0.0.1:7777", "ADDR:PORT",
         "address of the HTTP endpoint /mcp; port 0 takes any free one")},
    BOOL("stdio", stdio, "false",
         "speak on standard input and output; HTTP only when --http is given too"),
    LIST("http-unix", CONFIG_PATHS, http_unix, "", "PATH",
         "the HTTP endpoint on a Unix socket; may be repeated"),
    LIST("tcp", CONFIG_ADDRESSES, tcp, "", "ADDR:PORT",
         "accept line-delimited JSON-RPC on this address; may be repeated"),
    LIST("unix", CONFIG_PATHS, unix_sockets, "", "PATH",
         "the same on a Unix socket; may be repeated"),
    {ROW("unix-mode", CONFIG_MODE, unix_mode, "0600", "MODE",
         "permissions of these sockets")},
    BOOL("legacy-sse", legacy_sse, "false",
         "also serve the HTTP+SSE transport of 2024-11-05 at /sse"),
    BOOL("console", console, "false",
         "a page at /console that shows what the server does; brings --self along"),
    LIST("allow-origin", CONFIG_ORIGINS, allow_origin, "", "ORIGIN",
         "accept this Origin besides loopback ones; may be repeated"),
    LIST("allow-host", CONFIG_HOSTS, allow_host, "", "HOST",
         "accept this Host besides loopback, its address and certificate; may be repeated"),
    BOOL("allow-remote", allow_remote, "false",
         "allow addresses that other machines can reach"),
    LIST("tls-cert", CONFIG_FILES, tls_cert, "", "FILE",
         "speak TLS on HTTP and TCP with this certificate (PEM, with its chain); may be repeated"),
    LIST("tls-key", CONFIG_FILES, tls_key, "", "FILE",
         "its key; one for each --tls-cert, in the same order"),
    {ROW("tls-client-ca", CONFIG_PATH, tls_client_ca, "", "FILE",
         "certificates that those of clients must come from (PEM)")},
    CHOICE("tls-client-auth", tls_client_auth, "off", auths, "WHEN",
           "whether clients may or must show a certificate"),
    CHOICE("tls-min", tls_min, "1.2", tls_versions, "VERSION", "oldest version of TLS"),
    LIST("auth-issuer", CONFIG_WORDS, auth_issuer, "", "URL",
         "accept access tokens of this authorization server on HTTP; may be repeated"),
    LIST("auth-jwks", CONFIG_FILES, auth_jwks, "", "FILE|URL",
         "its keys, where it does not publish them itself; one for each --auth-issuer"),
    LIST("auth-audience", CONFIG_WORDS, auth_audience, "", "NAME",
         "tokens must be meant for this name instead of --auth-resource; may be repeated"),
    {ROW("auth-resource", CONFIG_TEXT, auth_resource, "", "URL",
         "how clients reach the endpoint from outside; the name tokens are meant for")},
    LIST("auth-scope", CONFIG_WORDS, auth_scope, "", "SCOPE",
         "every token needs this scope; may be repeated"),
    DURATION("auth-leeway", auth_leeway_ms, "60s", 0, 600 * SEC,
             "by how much the clock of the authorization server may differ"),
    CHOICE("auth-dpop", auth_dpop, "accept", dpops, "HOW",
           "whether tokens may or must be bound to a key, and its proofs hold a nonce"),
    {ROW("auth-introspection", CONFIG_TEXT, auth_introspection, "", "URL",
         "introspection endpoint for opaque tokens (RFC 7662)")},
    {ROW("auth-credentials", CONFIG_PATH, auth_credentials, "", "FILE",
         "credentials for introspection: one line ID:SECRET")},
    {ROW("auth-ca", CONFIG_PATH, auth_ca, "", "FILE",
         "certificates that those of the authorization server must come from (PEM)")},
    {ROW("auth-tokens", CONFIG_PATH, auth_tokens, "", "FILE",
         "accept the tokens whose hashes are in this file")},
    {ROW("access", CONFIG_ACCESS, access, "", "JSON",
         "a rule that says who may do what with which URIs; may be repeated"),
     .key = "access"},
    {ROW("access-file", CONFIG_PATH, access_file, "", "FILE",
         "a file of such rules, read again on SIGHUP")},
    {ROW("mount", CONFIG_MOUNTS, mounts, "", "URI=DIR",
         "serve DIR below the URI prefix; may be repeated"), .key = "mounts"},
    {ROW("skills", CONFIG_PATH, skills, "", "DIR",
         "serve the Agent Skills in DIR, each below skill://NAME")},
    LIST("shared", CONFIG_PREFIXES, shared, "", "PREFIX",
         "every node of a cluster has the same in this mount, and watches it itself"),
    LIST("owned", CONFIG_PREFIXES, owned, "", "PREFIX",
         "… and one of them at a time watches it for all; may be repeated"),
    LIST("exclude", CONFIG_GLOBS, exclude, ".git", "GLOB",
         "leave out what matches; may be repeated, an empty GLOB drops the default"),
    LIST("publish", CONFIG_PREFIXES, publish, "", "PREFIX",
         "URIs below this prefix may be published; may be repeated"),
    NUMBER("published-max", published_max, "10000", 1, 1000000, "resources published at a time"),
    SIZE("published-bytes", published_bytes, "64m", 1 * KIB, 64 * GIB,
         "memory they may take together"),
    BOOL("allow-write", allow_write, "false",
         "let clients publish and write, by HTTP and by tools; beyond loopback only if known"),
    {ROW("entities", CONFIG_TEXT, entities, "", "FILE",
         "serve typed entities with their history, kept in this store, or in :memory:")},
    {ROW("entity-authority", CONFIG_TEXT, entity_authority, "", "URL",
         "clients may also write URL/entity/… for entity:///…")},
    {ROW("store", CONFIG_TEXT, store, "", "FILE",
         "persist published resources and file state in this file")},
    BOOL("accept-data-loss", accept_data_loss, "false",
         "start although the store file has lost acknowledged writes; for one start"),
    {ROW("cluster", CONFIG_TEXT, cluster, CONFIG_CLUSTER_DEFAULT, "NAME",
         "the nodes that share a store of PostgreSQL; another name there is refused")},
    {ROW("node", CONFIG_TEXT, node, "", "NAME",
         "this one's name among them; empty: that of the machine and a random number")},
    CHOICE("stale-reads", stale_reads, "serve", stales, "HOW",
           "reads during a database outage: cached data, marked as stale, or an error"),
    SIZE("stale-cache", stale_cache, "64m", 0, 64 * GIB,
         "memory for entities that can be read then"),
    BOOL("system", system, "false", "serve load, memory, disk and network at system://metrics"),
    DURATION("system-interval", system_interval_ms, "2s", 100, 1 * HOUR,
             "sampling interval of metrics while subscribed"),
    {ROW("metrics", CONFIG_TEXT, metrics, "", "[ADDR:PORT]",
         "serve /metrics, /livez and /readyz here; \"path\": /metrics beside the endpoint, for "
         "clients that can read tidings://self/"), .bare = "127.0.0.1:9464"},
    BOOL("self", self, "false", "serve the server's own state below tidings://self/"),
    CHOICE("change-tools", change_tools, "auto", offers, "WHEN",
           "tools for hosts that cannot subscribe: changes_since …; auto: stdio, loopback HTTP"),
    NUMBER("page-size", page_size, "100", 1, 1000, "entries in one page of a list"),
    BOOL("subscribe", subscribe, "true", "let clients subscribe to resources"),
    BOOL("list-changed", list_changed, "true",
         "announce changes of the lists of resources, tools and prompts"),
    {ROW("subscription", CONFIG_RULES, subscriptions, "", "JSON",
         "options and limits of subscriptions below a URI prefix; may be repeated"),
     .key = "subscriptions"},
    DURATION("window", window_ms, "100ms", 0, 1 * HOUR,
             "changes within this time become one update"),
    DURATION("rate", rate_ms, "0s", 0, 24 * HOUR,
             "least time between two notifications of a subscription"),
    CHOICE("detail", detail, "full", details, "HOW",
           "content of updates; slim: only the changed fields and the cursor"),
    DURATION("max-window", max_window_ms, "60s", 0, 1 * HOUR,
             "longest window a client may ask for"),
    DURATION("max-rate", max_rate_ms, "1h", 0, 24 * HOUR, "longest pause a client may ask for"),
    NUMBER("max-breadth", max_breadth, "1000", 0, 1000000,
           "subscriptions of one client address that may cover whole mounts"),
    SIZE("max-value", max_value, "64k", 0, 16 * MIB,
         "largest content that rides in a notification"),
    NUMBER("outbox", outbox, "1024", 1, 1000000, "notifications waiting per client"),
    NUMBER("log-entries", log_entries, "100000", 1, 100000000, "changes kept for those who resume"),
    SIZE("log-bytes", log_bytes, "64m", 64 * KIB, 64 * GIB, "memory those changes may take"),
    DURATION("log-age", log_age_ms, "24h", 0, 8760 * HOUR,
             "age after which kept changes go; 0: never"),
    NUMBER("max-watches", max_watches, "100000", 1, 100000000,
           "directories watched by the kernel; those beyond are polled"),
    DURATION("watch-quiet", watch_quiet_ms, "10ms", 1, 1 * SEC,
             "quiet time after which a change of a file is announced"),
    DURATION("watch-timeout", watch_timeout_ms, "10s", 10, 1 * HOUR,
             "time a provider or hook has to accept a subscription before it is refused"),
    DURATION("watch-linger", watch_linger_ms, "60s", 0, 24 * HOUR,
             "time a watch is kept after its last subscriber left"),
    NUMBER("workers", workers, "0", 0, 64, "threads that serve connections; 0: one per core"),
    CHOICE("io-uring", io_uring, "auto", urings, "WHEN", "gather the writes of a turn in one call"),
    BOOL("sandbox", sandbox, "true",
         "give up what is not needed after the start: other files, programs, connections"),
    DURATION("drain", drain_ms, "2s", 0, 1 * HOUR,
             "time to end streams and finish answers after a signal to stop"),
    {ROW("log-level", CONFIG_LEVELS, log_level, "info", "LEVEL[,AREA=LEVEL…]",
         "log level, and levels of some areas"), .choices = levels},
    CHOICE("log-format", log_format, "text", formats, "FORMAT", "how the log is written"),
    {ROW("log-file", CONFIG_PATH, log_file, "", "FILE",
         "log to the end of this file instead of standard error; SIGUSR1 opens it again")},
    BOOL("access-log", access_log, "false", "a line of the log for each request and stream"),
    {ROW("access-log-file", CONFIG_PATH, access_log_file, "", "FILE",
         "these lines go to the end of this file instead; brings --access-log along")},
    TEXT("name", name, "tidings", "name the server gives itself"),
    TEXT("title", title, "", "title for people"),
    TEXT("instructions", instructions, "",
         "instructions for models; '' for none; by default they name roots and tools"),
    CHOICE("profile", profile, "none", profiles, "NAME",
           "speak to legacy clients to the letter of another document"),
    CHOICE("protocol-max", protocol_max, TIDINGS_PROTOCOL_MODERN, versions, "VERSION",
           "newest protocol revision that is offered"),
    SIZE("max-read", max_read, "16m", 1 * KIB, 1 * GIB, "largest resource that may be read"),
    SIZE("max-body", max_body, "4m", 1 * KIB, 256 * MIB,
         "largest body of an HTTP request, or message of a WebSocket"),
    SIZE("max-line", max_line, "4m", 1 * KIB, 256 * MIB,
         "longest message on standard input, TCP and Unix sockets"),
    SIZE("max-input", max_input, "128m", 64 * KIB, 64 * GIB,
         "memory for requests and messages that came in part, of all connections"),
    SIZE("max-output", max_output, "256m", 1 * MIB, 256 * GIB,
         "memory for answers that are under way, of all connections; a quarter of it for one "
         "client"),
    SIZE("max-connection-output", max_connection_output, "64m", 64 * KIB, 64 * GIB,
         "memory for answers under way on one connection, beyond which its messages wait"),
    NUMBER("max-depth", max_depth, "64", 8, 512, "deepest nesting of JSON that is accepted"),
    DURATION("keepalive", keepalive_ms, "15s", 1 * SEC, 1 * HOUR,
             "pause after which a silent stream gets a comment, a WebSocket a ping"),
    DURATION("header-timeout", header_timeout_ms, "10s", 1 * SEC, 1 * HOUR,
             "time a client has to send the head of a request"),
    DURATION("body-timeout", body_timeout_ms, "30s", 1 * SEC, 1 * HOUR,
             "time a client has for each 64 KiB of a body or message"),
    DURATION("idle-timeout", idle_timeout_ms, "75s", 1 * SEC, 24 * HOUR,
             "time after which an unused connection is closed"),
    DURATION("stall-timeout", stall_timeout_ms, "30s", 1 * SEC, 1 * HOUR,
             "time after which a client that takes nothing, or answers no ping, is cut off"),
    DURATION("session-timeout", session_timeout_ms, "30m", 1 * SEC, 168 * HOUR,
             "time after which an unused legacy session ends"),
    DURATION("call-timeout", call_timeout_ms, "60s", 0, 24 * HOUR,
             "time a tool, prompt or provider has to answer; 0: any"),
    DURATION("ask-timeout", ask_timeout_ms, "10m", 1 * SEC, 24 * HOUR,
             "time a legacy client has to answer what a tool or prompt asks it"),
    DURATION("task-ttl", task_ttl_ms, "1h", 1 * SEC, 720 * HOUR,
             "time for which a task is kept, and has to finish, from its beginning"),
    NUMBER("max-connections", max_connections, "0", 0, 1000000,
           "concurrent connections; 0: as many as the descriptor limit allows"),
    NUMBER("max-sessions", max_sessions, "10240", 1, 1000000, "legacy sessions at a time"),
    NUMBER("max-listens", max_listens, "64", 1, 10000, "open subscriptions/listen per connection"),
    NUMBER("max-subscriptions", max_subscriptions, "10000", 1, 1000000,
           "subscriptions per session or connection"),
    NUMBER("max-all-subscriptions", max_all_subscriptions, "1000000", 0, 100000000,
           "subscriptions of all clients; 0: any number"),
    NUMBER("max-uris-per-listen", max_uris_per_listen, "1000", 1, 100000,
           "URIs in one subscriptions/listen"),
    NUMBER("fair-share", fair_share, "25", 1, 100,
           "percent of a limit of all clients that one principal may have; rounded up: 1 of 2"),
    SIZE("max-announced", max_announced, "32m", 64 * KIB, 64 * GIB,
         "memory for changes that are announced and not told yet"),
    NUMBER("max-calls", max_calls, "256", 1, 100000, "tools and prompts under way at a time"),
    NUMBER("max-tasks", max_tasks, "1000", 1, 100000,
           "tasks that run or whose results are kept, at a time"),
    NUMBER("max-client-tasks", max_client_tasks, "100", 0, 100000,
           "tasks of one client at a time; 0: any"),
    NUMBER("max-client-connections", max_client_connections, "1000", 0, 1000000,
           "connections of one client at a time; 0: any"),
    NUMBER("max-client-sessions", max_client_sessions, "1000", 0, 1000000,
           "legacy sessions of one client at a time; 0: any"),
    NUMBER("connection-rate", connection_rate, "50", 0, 1000000,
           "new connections of one client in a second; 0: any"),
    NUMBER("connection-burst", connection_burst, "500", 1, 1000000,
           "those it may open at once when it has opened none for long"),
    NUMBER("request-rate", request_rate, "1000", 0, 1000000,
           "requests of one client in a second; 0: any"),
    NUMBER("request-burst", request_burst, "5000", 1, 1000000,
           "those it may send at once when it has sent none for long"),
    NUMBER("subscribe-rate", subscribe_rate, "20", 0, 1000000,
           "subscribe and listen requests of one client in a second; 0: any"),
    NUMBER("subscribe-burst", subscribe_burst, "1000", 1, 1000000,
           "those it may send at once when it has sent none for long"),
    NUMBER("block-after", block_after, "0", 0, 1000000,
           "refusals by these in a minute before it is shut out; 0: never"),
    DURATION("block-time", block_time_ms, "5m", 1 * SEC, 24 * HOUR, "time it is shut out for"),
    NUMBER("max-clients", max_clients, "65536", 1, 1000000,
           "clients that are counted apart at a time"),
};

const struct config_topic config_topics[] = {
    {"http", "where clients connect"},
    {"tls-cert", "TLS"},
    {"auth-issuer", "authentication and access"},
    {"mount", "resources"},
    {"subscribe", "subscriptions"},
    {"max-watches", "watching files"},
    {"workers", "the process"},
    {"max-read", "sizes"},
    {"keepalive", "times"},
    {"max-connections", "how many at once"},
    {"max-client-connections", "limits of each client"},
    {NULL, NULL},
};
/* clang-format on */

const size_t config_row_count = sizeof(config_rows) / sizeof(config_rows[0]);

_Static_assert(sizeof(config_rows) / sizeof(config_rows[0]) <= CONFIG_ROWS_MAX,
               "struct config.origins has room for every row");

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void config_spell(const struct config_row *row, enum config_spelling how, char out[CONFIG_NAME_MAX])
{
    if (how == CONFIG_AS_KEY && row->key) {
        snprintf(out, CONFIG_NAME_MAX, "%s", row->key);
        return;
    }
    const char *prefix = how == CONFIG_AS_FLAG ? "--" : how == CONFIG_AS_VARIABLE ? "TIDINGS_" : "";
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    bool raise = false;
    for (const char *p = row->name; *p && n < CONFIG_NAME_MAX - 1; p++) {
        if (how == CONFIG_AS_KEY && *p == '-') {
            raise = true;
            continue;
        }
        if (how == CONFIG_AS_VARIABLE) {
            out[n++] = *p == '-' ? '_' : upper(*p);
        } else {
            out[n++] = raise ? upper(*p) : *p;
        }
        raise = false;
    }
    out[n] = '\0';
}

const struct config_row *config_find(struct tidings_str text, enum config_spelling how)
{
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        char spelling[CONFIG_NAME_MAX];
        const char *name = row->name;
        if (how != CONFIG_AS_NAME) { /* the program itself looks up names often during startup */
            config_spell(row, how, spelling);
            name = spelling;
        }
        if (str_eq(text, tidings_str(name))) {
            return row;
        }
    }
    return NULL;
}

const struct config_row *config_nearest(struct tidings_str text, enum config_spelling how,
                                        unsigned distance)
{
    if (text.len >= CONFIG_NAME_MAX) {
        return NULL;
    }
    const struct config_row *best = NULL;
    unsigned best_distance = distance + 1;
    for (size_t i = 0; i < config_row_count; i++) {
        char name[CONFIG_NAME_MAX];
        config_spell(&config_rows[i], how, name);
        unsigned d = edit_distance(text, tidings_str(name), distance);
        if (d < best_distance) {
            best_distance = d;
            best = &config_rows[i];
        }
    }
    return best;
}

const char *config_quote(struct tidings_str text, char out[CONFIG_QUOTE_MAX])
{
    bool cut = text.len > CONFIG_QUOTE_MAX - 1;
    size_t n = cut ? CONFIG_QUOTE_MAX - 4 : text.len;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        out[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    snprintf(out + n, CONFIG_QUOTE_MAX - n, "%s", cut ? "..." : "");
    return out;
}

int config_unknown(struct tidings_str text, enum config_spelling how, const char *what,
                   struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    char name[CONFIG_NAME_MAX];
    static const char *const address_words[] = {"--port", "--host", "--bind", "--listen"};
    const struct config_row *near = config_nearest(text, how, 2);
    for (size_t i = 0; i < sizeof address_words / sizeof *address_words; i++) {
        if (how == CONFIG_AS_FLAG && str_eq(text, tidings_str(address_words[i]))) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "unknown %s '%s': an address is '--http 127.0.0.1:PORT'", what,
                                address_words[i]);
        }
    }
    if (!near) {
        return tidings_fail(err, TIDINGS_E_INVALID, "unknown %s '%s'", what,
                            config_quote(text, shown));
    }
    config_spell(near, how, name);
    return tidings_fail(err, TIDINGS_E_INVALID, "unknown %s '%s', did you mean '%s'?", what,
                        config_quote(text, shown), name);
}
