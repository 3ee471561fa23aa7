/* SPDX-License-Identifier: MIT
 *
 * Pipelined statements to PostgreSQL. Sending never waits; reading waits while bytes are
 * transferred.
 */
#include "cluster/postgres.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/library.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * The state of a connection to PostgreSQL, which connecting and statements share.
 */

#define POSTGRES_FUNCTIONS(X)                                                                      \
    X(connectStartParams)                                                                          \
    X(connectPoll)                                                                                 \
    X(conninfoParse)                                                                               \
    X(conninfoFree)                                                                                \
    X(freemem)                                                                                     \
    X(finish)                                                                                      \
    X(status)                                                                                      \
    X(socket)                                                                                      \
    X(errorMessage)                                                                                \
    X(parameterStatus)                                                                             \
    X(setnonblocking)                                                                              \
    X(enterPipelineMode)                                                                           \
    X(pipelineSync)                                                                                \
    X(sendPrepare)                                                                                 \
    X(sendQueryPrepared)                                                                           \
    X(sendQueryParams)                                                                             \
    X(setSingleRowMode)                                                                            \
    X(flush)                                                                                       \
    X(consumeInput)                                                                                \
    X(isBusy)                                                                                      \
    X(getResult)                                                                                   \
    X(notifies)                                                                                    \
    X(backendPID)                                                                                  \
    X(resultStatus)                                                                                \
    X(resultErrorField)                                                                            \
    X(cmdStatus)                                                                                   \
    X(clear)                                                                                       \
    X(ntuples)                                                                                     \
    X(getvalue)                                                                                    \
    X(getlength)                                                                                   \
    X(setNoticeReceiver)

struct postgres_library {
#define FIELD(name) __typeof__(&PQ##name) name;
    POSTGRES_FUNCTIONS(FIELD)
#undef FIELD
};

enum postgres_phase {
    POSTGRES_DISCONNECTED,
    POSTGRES_CONNECTING,
    POSTGRES_CONNECTED,
};

struct postgres {
    PGconn *conn;             /* NULL: not connected */
    char *url, *redacted_url; /* the second without secrets */
    char *name;               /* for messages */
    const char *const *statements;
    enum postgres_phase phase;
    uint64_t attempt_until_ms, retry_at_ms; /* monotonic */
    struct tidings_error why;               /* the reason why it is unreachable */
    bool is_concealed;
    struct tidings_error concealed,
        detail;          /* the newest concealed failure: the text for clients, and the details */
    bool waits_to_write; /* while connecting */
    bool is_fresh;       /* connected, and not reported yet */
    bool is_lost;        /* no more data can be read */
    bool has_unsent;     /* statements since the last end */
    uint64_t ended, waited; /* ends that were sent, and awaited */
    struct {
        uint64_t since; /* number of the end that it was sent with; 0: not prepared */
        unsigned name;  /* a new name after each failure, when the statement may or may not exist */
    } prepared[POSTGRES_MAX_STATEMENTS];
    char state[6], tag[32];
};

/* -------------------------------------------------------------------------------------------------
 * Connecting to PostgreSQL, and the mapping of its failures to error codes.
 *
 * An attempt can span several calls, so that callers never wait long for a server that does not
 * answer.
 */

#define REDACTED_URL_MAX 512u

static pthread_once_t once = PTHREAD_ONCE_INIT;
LIBRARY(library, "cluster", "a store that several nodes share", "suggested", "libpq5",
        "libpq.so.5");
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

/* The functions of libpq, which postgres_create loads. Requires a connection. */
static const struct postgres_library *postgres_loaded_library(void)
{
    return &api;
}

/* ---- what failures mean ---------------------------------------------------------------------- */

struct meaning {
    const char *of; /* prefix of SQLSTATE, or part of the message */
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
    {"25P03", TIDINGS_E_BUSY, "lost the store lock after a stall; retry"},
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

/* Before there is a session, the server sends only messages. */
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
    tidings_fail(&c->concealed, code, "%s", concealed_text(code));
    *err = c->concealed;
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
    bool is_newest = c->concealed.text[0] != '\0' && strstr(err->text, c->concealed.text);
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
    /* Clients cannot change rights on tables. */
    bool is_ours = rc == TIDINGS_E_DENIED || rc == TIDINGS_E_NOTFOUND;
    return conceal(c, is_ours && c->is_concealed ? TIDINGS_E_IO : rc, err);
}

/* Maps a failed connection. libpq names the host first, the server's message follows it. */
static int postgres_refused(struct postgres *c, struct tidings_error *err)
{
    static const struct meaning other = {"", TIDINGS_E_BUSY, ""};
    const char *said = c->conn ? api.errorMessage(c->conn) : "out of memory";
    const char *fatal = strstr(said, "FATAL:  ");
    const struct meaning *m = &other;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals && m == &other; i++) {
        m = strstr(said, refusals[i].of) ? &refusals[i] : m;
    }
    struct meaning later = *m; /* it accepted connections before, so clients may retry */
    later.code = c->is_concealed ? TIDINGS_E_BUSY : m->code;
    m = &later;
    return postgres_fail_as(c, m,
                            fatal     ? fatal + 8
                            : said[0] ? said
                                      : "the connection is lost",
                            err);
}

/* Maps the server's error to a code and adds advice. Drops the connection if it is no longer
 * usable. `r` NULL: the connection itself failed. */
static int postgres_failed(struct postgres *c, const PGresult *r, struct tidings_error *err)
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

/* Formats "postgres://user@host:port/database" from parsed options, without the password. */
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

/* libpq's message about an invalid URL may contain the password, so it is omitted. */
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

/* Waits until the connection is readable (or writable, if requested). 0: timeout. */
static int postgres_wait(struct postgres *c, bool for_writing, uint64_t until_ms,
                         bool *ret_readable)
{
    struct pollfd p = {.fd = api.socket(c->conn),
                       .events = (short)(POLLIN | (for_writing ? POLLOUT : 0))};
    uint64_t now = clock_monotonic_ms();
    int n = poll(&p, 1, until_ms > now ? (int)(until_ms - now) : 0);
    *ret_readable = n > 0 && (p.revents & ~POLLOUT) != 0;
    return n > 0 || (n < 0 && errno == EINTR) ? 1 : 0;
}

/* The URL overrides the first parameters. The last parameters override the URL. */
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

/* Performs one step. 0: connected; 1: call again when the connection is ready. */
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

/* libpq chooses what to wait for; until it is connected it can be only writing. */
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

/* ---------------------------------------------------------------------------------------------- */

static const struct postgres_library *pq(void)
{
    return postgres_loaded_library();
}

/* ---- parameters and rows --------------------------------------------------------------------- */

static void postgres_put(struct postgres_values *v, const void *at, size_t len)
{
    v->at[v->count] = at;
    v->lengths[v->count] = (int)len;
    v->formats[v->count++] = 1;
}

void postgres_put_int(struct postgres_values *v, int64_t n)
{
    unsigned char *out = v->numbers[v->count];
    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
    }
    postgres_put(v, out, 8);
}

void postgres_put_str(struct postgres_values *v, struct tidings_str s)
{
    postgres_put(v, s.len > 0 ? s.ptr : "", s.len);
}

void postgres_put_null(struct postgres_values *v)
{
    postgres_put(v, NULL, 0);
}

/* Dimensions, whether there are NULLs, the type of elements, their number, the first index; then
 * each element as its length and its bytes. */
#define ARRAY_HEAD 20u
#define ARRAY_COUNT_AT 12u

static void postgres_write_u32(char *at, uint32_t n)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (char)(n >> (24 - 8 * i));
    }
}

void postgres_array_init(struct postgres_array *a, size_t max_bytes)
{
    buf_init(&a->bytes, max_bytes);
    a->count = 0;
}

void postgres_array_deinit(struct postgres_array *a)
{
    buf_deinit(&a->bytes);
}

void postgres_array_clear(struct postgres_array *a)
{
    buf_clear(&a->bytes);
    a->count = 0;
}

int postgres_array_add(struct postgres_array *a, enum postgres_element kind,
                       const struct postgres_values *v, int index)
{
    char head[ARRAY_HEAD] = {0}, len[4];
    size_t before = a->bytes.len;
    if (a->count == 0) {
        postgres_write_u32(head, 1);
        postgres_write_u32(head + 8, kind);
        postgres_write_u32(head + 16, 1);
        buf_put(&a->bytes, head, sizeof head);
    }
    postgres_write_u32(len, (uint32_t)v->lengths[index]);
    buf_put(&a->bytes, len, sizeof len);
    int rc = buf_put(&a->bytes, v->at[index], (size_t)v->lengths[index]);
    a->count += rc == 0;
    a->bytes.len = rc == 0 ? a->bytes.len : before; /* remove a partial element */
    return rc;
}

bool postgres_array_next(const struct postgres_array *a, size_t *at, struct tidings_str *ret)
{
    *at = *at == 0 ? ARRAY_HEAD : *at;
    if (*at >= a->bytes.len) {
        return false;
    }
    const unsigned char *len = (const unsigned char *)a->bytes.ptr + *at;
    *ret = tidings_strn((const char *)len + 4,
                        (size_t)len[0] << 24 | (size_t)len[1] << 16 | (size_t)len[2] << 8 | len[3]);
    *at += 4 + ret->len;
    return true;
}

void postgres_put_first(struct postgres_values *v, const struct postgres_array *a)
{
    struct tidings_str first = STR_EMPTY;
    size_t at = 0;
    (void)postgres_array_next(a, &at, &first);
    postgres_put_str(v, first);
}

void postgres_put_array(struct postgres_values *v, struct postgres_array *a)
{
    postgres_write_u32(a->bytes.ptr + ARRAY_COUNT_AT, a->count);
    postgres_put(v, a->bytes.ptr, a->bytes.len);
}

void postgres_free(struct pg_result *r)
{
    if (r) {
        pq()->clear(r);
    }
}

int postgres_rows(struct pg_result *r)
{
    return r ? pq()->ntuples(r) : 0;
}

int64_t postgres_int(struct pg_result *r, int row, int column)
{
    const unsigned char *at = (const unsigned char *)pq()->getvalue(r, row, column);
    int len = pq()->getlength(r, row, column);
    uint64_t n = len > 0 && len < 8 && (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (int i = 0; i < len && i < 8; i++) {
        n = (n << 8) | at[i];
    }
    return (int64_t)n;
}

struct tidings_str postgres_str(struct pg_result *r, int row, int column)
{
    return tidings_strn(pq()->getvalue(r, row, column), (size_t)pq()->getlength(r, row, column));
}

/* ---- sending --------------------------------------------------------------------------------- */

static int postgres_sent(struct postgres *c, int is_sent, struct tidings_error *err)
{
    c->has_unsent = true;
    return is_sent == 1 ? 0 : postgres_failed(c, NULL, err);
}

static int postgres_fail_unreachable(const struct postgres *c, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_BUSY, "%s",
                        c->why.code != 0 ? c->why.text : "the connection is lost");
}

struct statement_name {
    char text[32];
};

static int postgres_prepare(struct postgres *c, int statement, struct statement_name *ret,
                            struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    (void)snprintf(ret->text, sizeof ret->text, "tidings_%d_%u", statement,
                   c->prepared[statement].name);
    if (c->prepared[statement].since > 0) {
        return 0;
    }
    int rc = postgres_sent(
        c, pq()->sendPrepare(c->conn, ret->text, c->statements[statement], 0, NULL), err);
    if (rc == 0) {
        c->prepared[statement].since = c->ended + 1;
    }
    return rc;
}

/* Statements that were prepared in the failed part, or after it, may or may not exist. */
static void postgres_forget_prepared(struct postgres *c)
{
    for (size_t i = 0; i < POSTGRES_MAX_STATEMENTS; i++) {
        if (c->prepared[i].since > c->waited) {
            c->prepared[i].since = 0;
            c->prepared[i].name++;
        }
    }
}

int postgres_send(struct postgres *c, int statement, const struct postgres_values *values,
                  struct tidings_error *err)
{
    static const struct postgres_values none;
    const struct postgres_values *v = values ? values : &none;
    struct statement_name name;
    int rc = postgres_prepare(c, statement, &name, err);
    return rc < 0 ? rc
                  : postgres_sent(c,
                                  pq()->sendQueryPrepared(c->conn, name.text, v->count, v->at,
                                                          v->lengths, v->formats, 1),
                                  err);
}

/* Sends SQL that is used once. */
static int postgres_send_text(struct postgres *c, const char *sql, struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    return postgres_sent(c, pq()->sendQueryParams(c->conn, sql, 0, NULL, NULL, NULL, NULL, 1), err);
}

int postgres_end(struct postgres *c, struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    if (pq()->pipelineSync(c->conn) != 1) {
        return postgres_failed(c, NULL, err);
    }
    c->has_unsent = false;
    c->ended++;
    return pq()->flush(c->conn) < 0 ? postgres_failed(c, NULL, err) : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the next result of libpq, which can be NULL. Without the connection, results that arrived
 * before the loss follow, including its reason. */
static int postgres_next(struct postgres *c, PGresult **ret, struct tidings_error *err)
{
    uint64_t until = clock_monotonic_ms() + POSTGRES_DEADLINE_MS;
    for (;;) {
        int unflushed = c->is_lost ? 0 : pq()->flush(c->conn);
        if (c->is_lost || !pq()->isBusy(c->conn)) {
            *ret = pq()->getResult(c->conn);
            return 0;
        }
        bool is_readable = false;
        if (postgres_wait(c, unflushed > 0, until, &is_readable) == 0) {
            int rc = tidings_fail(err, TIDINGS_E_BUSY, "%s: it does not answer", postgres_name(c));
            c->state[0] = '\0';
            postgres_drop(c);
            return rc;
        }
        c->is_lost = is_readable && !pq()->consumeInput(c->conn);
        until = clock_monotonic_ms() + POSTGRES_DEADLINE_MS;
    }
}

static void postgres_note_tag(struct postgres *c, PGresult *r)
{
    (void)snprintf(c->tag, sizeof c->tag, "%s", pq()->cmdStatus(r));
}

/* Reads results up to the next end. Returns 0, or the first failure. */
static int postgres_read_part(struct postgres *c, struct pg_result **results, size_t count,
                              struct tidings_error *err)
{
    unsigned nothing = 0; /* consecutive NULL results: after a loss no end follows */
    int failed = 0;
    for (size_t n = 0;;) {
        PGresult *r = NULL;
        int rc = postgres_next(c, &r, failed < 0 ? NULL : err);
        if (rc < 0) {
            return failed < 0 ? failed : rc;
        }
        nothing = r ? 0 : nothing + 1;
        if (!r && c->is_lost && nothing > 1) {
            rc = postgres_failed(c, NULL, failed < 0 ? NULL : err);
            return failed < 0 ? failed : rc;
        }
        switch (r ? (int)pq()->resultStatus(r) : (int)PGRES_EMPTY_QUERY) {
        case PGRES_PIPELINE_SYNC:
            pq()->clear(r);
            c->waited++;
            return failed;
        case PGRES_TUPLES_OK:
            postgres_note_tag(c, r);
            if (n < count) {
                results[n++] = r;
                r = NULL;
            }
            break;
        case PGRES_COMMAND_OK:
            postgres_note_tag(c, r);
            break;
        case PGRES_FATAL_ERROR:
        case PGRES_BAD_RESPONSE:
            if (failed == 0) {
                postgres_forget_prepared(c);
                failed = postgres_failed(c, r, err);
            }
            if (!c->conn) {
                pq()->clear(r);
                return failed;
            }
            break;
        default:
            break;
        }
        pq()->clear(r);
    }
}

int postgres_finish(struct postgres *c, unsigned leave, struct pg_result **results, size_t count,
                    struct tidings_error *err)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = NULL;
    }
    c->tag[0] = '\0';
    int rc = c->conn ? 0 : postgres_fail_unreachable(c, err);
    while (c->ended - c->waited > leave) {
        bool is_last = c->ended - c->waited == leave + 1;
        c->tag[0] = '\0';
        rc = postgres_read_part(c, results, is_last ? count : 0, err);
        if (!c->conn) {
            break;
        }
    }
    for (size_t i = 0; rc < 0 && i < count; i++) {
        postgres_free(results[i]);
        results[i] = NULL;
    }
    return rc;
}

const char *postgres_tag(const struct postgres *c)
{
    return c->tag;
}

int postgres_ask(struct postgres *c, int statement, const struct postgres_values *values,
                 struct pg_result **ret, struct tidings_error *err)
{
    int rc = postgres_send(c, statement, values, err);
    rc = rc == 0 ? postgres_end(c, err) : rc;
    return rc == 0 ? postgres_finish(c, 0, ret, ret ? 1 : 0, err) : rc;
}

int postgres_exec(struct postgres *c, const char *sql, struct tidings_error *err)
{
    int rc = 0;
    while (rc == 0 && *sql != '\0') {
        const char *end = strchr(sql, ';');
        size_t len = end ? (size_t)(end - sql) : strlen(sql);
        char *one = str_dup(tidings_strn(sql, len));
        rc = one ? postgres_send_text(c, one, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        mem_free(one);
        sql += len + (end ? 1 : 0);
    }
    rc = rc == 0 ? postgres_end(c, err) : rc;
    return rc == 0 ? postgres_finish(c, 0, NULL, 0, err) : rc;
}

/* Rows arrive one by one; the last result has no row and holds the status. */
static int postgres_read_rows(struct postgres *c, postgres_row_fn fn, void *user,
                              struct tidings_error *err)
{
    int stopped = 0, failed = 0;
    for (;;) {
        PGresult *r = NULL;
        int rc = postgres_next(c, &r, stopped < 0 ? NULL : err);
        if (rc < 0) {
            return stopped < 0 ? stopped : rc;
        }
        if (!r && c->is_lost) {
            rc = postgres_failed(c, NULL, stopped < 0 ? NULL : err);
            return stopped < 0 ? stopped : rc;
        }
        ExecStatusType status = r ? pq()->resultStatus(r) : PGRES_EMPTY_QUERY;
        if (status == PGRES_PIPELINE_SYNC) {
            pq()->clear(r);
            c->waited++;
            return stopped < 0 ? stopped : failed;
        }
        if (status == PGRES_SINGLE_TUPLE && stopped == 0) {
            stopped = fn(user, r, err);
            stopped = stopped < 0 ? stopped : 0;
        } else if (status == PGRES_FATAL_ERROR && failed == 0) {
            failed = postgres_failed(c, r, stopped < 0 ? NULL : err);
            if (!c->conn) {
                pq()->clear(r);
                return stopped < 0 ? stopped : failed;
            }
        }
        pq()->clear(r);
    }
}

int postgres_each(struct postgres *c, int statement, const struct postgres_values *values,
                  postgres_row_fn fn, void *user, struct tidings_error *err)
{
    struct statement_name name;
    int rc = postgres_prepare(c, statement, &name, err);
    rc = rc == 0 && c->has_unsent ? postgres_end(c, err) : rc;
    rc = rc == 0 ? postgres_finish(c, 0, NULL, 0, err) : rc;
    rc = rc == 0 ? postgres_send(c, statement, values, err) : rc;
    rc = rc == 0 ? postgres_end(c, err) : rc;
    if (rc < 0) {
        return rc;
    }
    (void)pq()->setSingleRowMode(c->conn);
    return postgres_read_rows(c, fn, user, err);
}

/* ---- notifications --------------------------------------------------------------------------- */

int postgres_descriptor(const struct postgres *c)
{
    return c->phase == POSTGRES_CONNECTED ? pq()->socket(c->conn) : -1;
}

/* Discards available results of ends that no caller awaits. Otherwise libpq reads nothing after
 * them, including notifications. */
static void postgres_take_unwaited(struct postgres *c)
{
    unsigned nothing = 0; /* consecutive NULL results: there is one between two statements */
    while (c->ended > c->waited && nothing < 2 && !pq()->isBusy(c->conn)) {
        PGresult *r = pq()->getResult(c->conn);
        nothing = r ? 0 : nothing + 1;
        switch (r ? (int)pq()->resultStatus(r) : (int)PGRES_EMPTY_QUERY) {
        case PGRES_PIPELINE_SYNC:
            c->waited++;
            break;
        case PGRES_FATAL_ERROR:
        case PGRES_BAD_RESPONSE:
            postgres_forget_prepared(c);
            break;
        default:
            break;
        }
        pq()->clear(r);
    }
}

int postgres_notified(struct postgres *c, postgres_notified_fn fn, void *user)
{
    if (c->phase != POSTGRES_CONNECTED || !pq()->consumeInput(c->conn)) {
        postgres_drop(c);
        return TIDINGS_E_BUSY;
    }
    postgres_take_unwaited(c);
    int own = pq()->backendPID(c->conn);
    for (PGnotify *n; (n = pq()->notifies(c->conn)) != NULL;) {
        if (n->be_pid != own) {
            fn(user, tidings_str(n->extra));
        }
        pq()->freemem(n);
    }
    return 0;
}
