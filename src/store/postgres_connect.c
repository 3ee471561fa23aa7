/* SPDX-License-Identifier: MIT
 *
 * Connecting to PostgreSQL, and which of our errors its failures are.
 *
 * An attempt goes on across calls, so that nobody waits long for a server that does not answer.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/library.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/postgres_private.h"

#define REDACTED_URL_MAX 512u

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct library library = {.file = "libpq.so.5", .package = "libpq5"};
static struct postgres_library api;

static void postgres_load(void)
{
    const struct library_function wanted[] = {
#define ROW(name) {"PQ" #name, &api.name},
        POSTGRES_FUNCTIONS(ROW)
#undef ROW
    };
    library_open(&library, wanted, sizeof wanted / sizeof *wanted);
}

const struct postgres_library *postgres_loaded_library(void)
{
    return &api;
}

/* ---- what failures mean ---------------------------------------------------------------------- */

struct meaning {
    const char *of; /* how SQLSTATE begins, or a piece of what is said */
    int code;
    const char *advice; /* or empty */
};

static const struct meaning states[] = {
    {"53100", TIDINGS_E_FULL, "make room on its disk"},
    {"53200", TIDINGS_E_NOMEM, "give it more memory"},
    {"53", TIDINGS_E_BUSY, ""},
    {"08", TIDINGS_E_BUSY, ""},
    {"57", TIDINGS_E_BUSY, ""},
    {"40", TIDINGS_E_BUSY, "try again"},
    {"55P03", TIDINGS_E_BUSY, "another node holds the lock; try again"},
    {"25P03", TIDINGS_E_BUSY, "this node stood still with the lock; try again"},
    {"25006", TIDINGS_E_BUSY, "it is a standby; name the primary, or all hosts"},
    {"28", TIDINGS_E_DENIED, "check user and password"},
    {"42501", TIDINGS_E_DENIED, "give the user rights on the schema and its tables"},
    {"3D000", TIDINGS_E_NOTFOUND, "make the database first (createdb)"},
    {"3F000", TIDINGS_E_NOTFOUND, "make the schema first, or name another search_path"},
    {"42P01", TIDINGS_E_NOTFOUND, "the tables of tidings are missing"},
    {"23505", TIDINGS_E_EXISTS, ""},
    {"54", TIDINGS_E_LIMIT, ""},
    {"22", TIDINGS_E_INVALID, ""},
};

/* Before there is a session there are only sentences. */
static const struct meaning refusals[] = {
    {"password authentication failed", TIDINGS_E_DENIED, "check user and password"},
    {"no password supplied", TIDINGS_E_DENIED,
     "put the password into the URL, PGPASSWORD or ~/.pgpass"},
    {"authentication failed", TIDINGS_E_DENIED, "check user and password"},
    {"pg_hba.conf", TIDINGS_E_DENIED, "let this host in with a line of pg_hba.conf"},
    {"role \"", TIDINGS_E_DENIED, "make the user first (createuser), or name another"},
    {"database \"", TIDINGS_E_NOTFOUND, "make the database first (createdb), or name another"},
    {"session is read-only", TIDINGS_E_BUSY, "it is a standby; name the primary, or all hosts"},
    {"Connection refused", TIDINGS_E_BUSY, "is it running, and are host and port right?"},
    {"No such file", TIDINGS_E_BUSY, "is it running, and are host and port right?"},
    {"could not translate host name", TIDINGS_E_BUSY, "check the name of the host"},
    {"SSL", TIDINGS_E_DENIED, "see sslmode of the URL"},
};

static const char *concealed_text(int code)
{
    switch (code) {
    case TIDINGS_E_BUSY:
        return "the database cannot be reached or is busy; try again later";
    case TIDINGS_E_FULL:
        return "the database has no room";
    case TIDINGS_E_NOMEM:
        return "the database is out of memory";
    case TIDINGS_E_EXISTS:
        return "the database has it already";
    case TIDINGS_E_LIMIT:
    case TIDINGS_E_INVALID:
        return "the database does not accept this value";
    default:
        return "the database failed; the log of the server has the reason";
    }
}

/* Keep the details of `err` and reduce it to the text for clients. */
static int conceal(struct postgres *c, int code, struct tidings_error *err)
{
    if (!c->is_concealed || !err) {
        return code;
    }
    c->detail = *err;
    tidings_fail(&c->told, code, "%s", concealed_text(code));
    *err = c->told;
    return code;
}

const char *postgres_name(const struct postgres *c)
{
    return c->is_concealed ? "the database" : c->name;
}

void postgres_conceal(struct postgres *c)
{
    c->is_concealed = true;
    if (c->why.code != 0) {
        (void)conceal(c, TIDINGS_E_BUSY, &c->why);
    }
}

const char *postgres_explain(const struct postgres *c, const struct tidings_error *err)
{
    bool is_newest = c->told.text[0] != '\0' && strstr(err->text, c->told.text);
    return is_newest ? c->detail.text : err->text;
}

int postgres_refuse(struct postgres *c, int code, struct tidings_error *err)
{
    (void)error_wrap(err, code, "%s", c->name);
    return conceal(c, c->is_concealed ? TIDINGS_E_BUSY : code, err);
}

static int postgres_fail_as(struct postgres *c, const struct meaning *m, const char *said,
                            struct tidings_error *err)
{
    int len = (int)strcspn(said, "\n");
    bool has_advice = m && m->advice[0] != '\0';
    struct tidings_error own = {0, ""};
    err = err ? err : &own;
    int rc = error_wrap(err,
                        tidings_fail(err, m ? m->code : TIDINGS_E_IO, "%.*s%s%s", len, said,
                                     has_advice ? ": " : "", has_advice ? m->advice : ""),
                        "%s", c->name);
    /* A client has nothing to do with rights on tables. */
    bool is_ours = rc == TIDINGS_E_DENIED || rc == TIDINGS_E_NOTFOUND;
    return conceal(c, is_ours && c->is_concealed ? TIDINGS_E_IO : rc, err);
}

/* Of a connection that failed: libpq names the host first, what the server says comes after it. */
static int postgres_refused(struct postgres *c, struct tidings_error *err)
{
    static const struct meaning other = {"", TIDINGS_E_BUSY, ""};
    const char *said = c->conn ? api.errorMessage(c->conn) : "out of memory";
    const char *fatal = strstr(said, "FATAL:  ");
    const struct meaning *m = &other;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals && m == &other; i++) {
        m = strstr(said, refusals[i].of) ? &refusals[i] : m;
    }
    struct meaning later = *m; /* it let us in before, and clients may try again */
    later.code = c->is_concealed ? TIDINGS_E_BUSY : m->code;
    m = &later;
    return postgres_fail_as(c, m,
                            fatal     ? fatal + 8
                            : said[0] ? said
                                      : "the connection is lost",
                            err);
}

int postgres_failed(struct postgres *c, const PGresult *r, struct tidings_error *err)
{
    const char *state = r ? api.resultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    const char *said = r ? api.resultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    const char *severity = r ? api.resultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED) : NULL;
    c->state[0] = '\0';
    if (!state || !said) {
        int rc = postgres_refused(c, err);
        postgres_drop(c);
        return rc;
    }
    memcpy(c->state, state, strnlen(state, sizeof c->state - 1));
    c->state[strnlen(state, sizeof c->state - 1)] = '\0';
    const struct meaning *m = NULL;
    for (size_t i = 0; i < sizeof states / sizeof *states && !m; i++) {
        m = strncmp(state, states[i].of, strlen(states[i].of)) == 0 ? &states[i] : NULL;
    }
    int rc = postgres_fail_as(c, m, said, err);
    if (c->is_lost || (severity && strcmp(severity, "ERROR") != 0)) {
        postgres_drop(c);
    }
    return rc;
}

const char *postgres_state(const struct postgres *c)
{
    return c->state;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void ignore_notice(void *user, const PGresult *r)
{
    (void)user;
    (void)r;
}

/* "postgres://user@host:port/database" of what libpq understood; a password is no part of it. */
static char *postgres_hide_secrets(const PQconninfoOption *options)
{
    const char *user = NULL, *host = NULL, *port = NULL, *database = NULL;
    struct buf out;
    for (const PQconninfoOption *o = options; o->keyword; o++) {
        user = strcmp(o->keyword, "user") == 0 ? o->val : user;
        host = strcmp(o->keyword, "host") == 0 ? o->val : host;
        port = strcmp(o->keyword, "port") == 0 ? o->val : port;
        database = strcmp(o->keyword, "dbname") == 0 ? o->val : database;
    }
    buf_init(&out, REDACTED_URL_MAX);
    buf_putf(&out, "postgres://%s%s%s%s%s%s%s", user ? user : "", user ? "@" : "", host ? host : "",
             port ? ":" : "", port ? port : "", database ? "/" : "", database ? database : "");
    if (out.failed == TIDINGS_E_LIMIT) {
        buf_clear(&out);
        buf_puts(&out, STR("postgres://"));
    }
    return buf_detach(&out, NULL);
}

/* What libpq says of a URL that it cannot read may be the password: it is not repeated. */
static int postgres_read_url(struct postgres *c, const char *url, struct tidings_error *err)
{
    char *said = NULL;
    bool is_ours = strncmp(url, "postgres://", 11) == 0 || strncmp(url, "postgresql://", 13) == 0;
    PQconninfoOption *options = is_ours ? api.conninfoParse(url, &said) : NULL;
    api.freemem(said);
    if (!options) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the URL of the database cannot be read: write it like "
                            "postgres://USER@HOST:PORT/DATABASE, with other characters than "
                            "letters and digits as %%XX");
    }
    c->redacted_url = postgres_hide_secrets(options);
    api.conninfoFree(options);
    c->url = str_dup(tidings_str(url));
    struct buf name;
    buf_init(&name, REDACTED_URL_MAX + 16);
    buf_putf(&name, "database '%s'", c->redacted_url ? c->redacted_url : "");
    c->name = name.failed ? NULL : buf_detach(&name, NULL);
    buf_deinit(&name);
    return c->redacted_url && c->url && c->name
               ? 0
               : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int postgres_create(const char *url, const char *const *statements, struct postgres **ret,
                    struct tidings_error *err)
{
    pthread_once(&once, postgres_load);
    int rc = library_check(&library, err);
    struct postgres *c = rc == 0 ? mem_zalloc(sizeof(*c)) : NULL;
    if (!c) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    c->statements = statements;
    rc = postgres_read_url(c, url, err);
    if (rc < 0) {
        postgres_destroy(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void postgres_destroy(struct postgres *c)
{
    if (c) {
        postgres_drop(c);
        str_free_secret(c->url);
        mem_free(c->redacted_url);
        mem_free(c->name);
        mem_free(c);
    }
}

const char *postgres_redacted_url(const struct postgres *c)
{
    return c->redacted_url;
}

void postgres_drop(struct postgres *c)
{
    api.finish(c->conn);
    c->conn = NULL;
    c->phase = POSTGRES_DISCONNECTED;
    c->is_lost = false;
    c->is_fresh = false;
    c->has_unsent = false;
    c->ended = c->waited = 0;
    memset(c->prepared, 0, sizeof c->prepared);
}

bool postgres_is_connected(const struct postgres *c)
{
    return c->phase == POSTGRES_CONNECTED;
}

const char *postgres_parameter(const struct postgres *c, const char *name)
{
    const char *value = c->conn ? api.parameterStatus(c->conn, name) : NULL;
    return value ? value : "";
}

int postgres_wait(struct postgres *c, bool for_writing, uint64_t until_ms, bool *ret_readable)
{
    struct pollfd p = {.fd = api.socket(c->conn),
                       .events = (short)(POLLIN | (for_writing ? POLLOUT : 0))};
    uint64_t now = clock_monotonic_ms();
    int n = poll(&p, 1, until_ms > now ? (int)(until_ms - now) : 0);
    *ret_readable = n > 0 && (p.revents & ~POLLOUT) != 0;
    return n > 0 || (n < 0 && errno == EINTR) ? 1 : 0;
}

/* What the URL says wins over the first, and the last over the URL. */
static void postgres_start(struct postgres *c)
{
    const char *const keywords[] = {"application_name", "target_session_attrs", "tcp_user_timeout",
                                    "keepalives_idle",  "keepalives_interval",  "keepalives_count",
                                    "dbname",           "client_encoding",      NULL};
    const char *const values[] = {"tidings", "read-write", "4000", "2", "1",
                                  "3",       c->url,       "UTF8", NULL};
    c->conn = api.connectStartParams(keywords, values, 1);
    c->phase = c->conn ? POSTGRES_CONNECTING : POSTGRES_DISCONNECTED;
    c->waits_to_write = true;
    c->attempt_until_ms = clock_monotonic_ms() + POSTGRES_DEADLINE_MS;
    if (c->conn) {
        (void)api.setNoticeReceiver(c->conn, ignore_notice, NULL);
    }
}

static int postgres_give_up(struct postgres *c, int rc)
{
    c->retry_at_ms = clock_monotonic_ms() + POSTGRES_RETRY_MS + random_upto(POSTGRES_RETRY_MS / 2);
    postgres_drop(c);
    return rc;
}

void postgres_put_off(struct postgres *c, const struct tidings_error *why)
{
    c->why = *why;
    (void)postgres_give_up(c, why->code);
}

/* One step, 0: there; 1: go on when the connection is ready for more. */
static int postgres_step(struct postgres *c, struct tidings_error *err)
{
    if (c->conn && api.status(c->conn) == CONNECTION_BAD) {
        return postgres_give_up(c, postgres_refused(c, err));
    }
    switch (c->conn ? (int)api.connectPoll(c->conn) : (int)PGRES_POLLING_FAILED) {
    case PGRES_POLLING_OK:
        if (api.setnonblocking(c->conn, 1) != 0 || !api.enterPipelineMode(c->conn)) {
            return postgres_give_up(c, postgres_refused(c, err));
        }
        c->phase = POSTGRES_CONNECTED;
        c->is_fresh = true;
        return 0;
    case PGRES_POLLING_WRITING:
        c->waits_to_write = true;
        return 1;
    case PGRES_POLLING_READING:
        c->waits_to_write = false;
        return 1;
    default:
        return postgres_give_up(c, postgres_refused(c, err));
    }
}

/* libpq has its own say on what to wait for: to write alone, before the connection stands. */
static bool postgres_wait_step(struct postgres *c, uint64_t until_ms)
{
    struct pollfd p = {.fd = api.socket(c->conn), .events = c->waits_to_write ? POLLOUT : POLLIN};
    uint64_t now = clock_monotonic_ms();
    return until_ms > now && poll(&p, 1, (int)(until_ms - now)) != 0;
}

static int postgres_connect(struct postgres *c, int wait_ms, struct tidings_error *err)
{
    uint64_t until = clock_monotonic_ms() + (uint64_t)wait_ms;
    if (c->phase == POSTGRES_DISCONNECTED) {
        postgres_start(c);
    }
    while (!c->conn || api.status(c->conn) == CONNECTION_BAD ||
           postgres_wait_step(c, until < c->attempt_until_ms ? until : c->attempt_until_ms)) {
        int rc = postgres_step(c, err);
        if (rc <= 0) {
            return rc;
        }
    }
    int rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "it does not answer: is it running, and are host "
                          "and port right?");
    rc = postgres_refuse(c, rc, err);
    return clock_monotonic_ms() >= c->attempt_until_ms ? postgres_give_up(c, rc) : rc;
}

int postgres_ready(struct postgres *c, int wait_ms, struct tidings_error *err)
{
    struct tidings_error why = {0};
    if (c->phase == POSTGRES_CONNECTED) {
        bool is_fresh = c->is_fresh;
        c->is_fresh = false;
        return is_fresh ? 1 : 0;
    }
    if (c->phase == POSTGRES_DISCONNECTED && clock_monotonic_ms() < c->retry_at_ms) {
        return tidings_fail(err, c->why.code, "%s", c->why.text);
    }
    int rc = postgres_connect(c, wait_ms, &why);
    if (rc < 0) {
        c->why = why;
        return tidings_fail(err, rc, "%s", why.text);
    }
    c->is_fresh = false;
    return 1;
}
