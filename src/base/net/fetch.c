/* SPDX-License-Identifier: MIT
 *
 * HTTP requests on a curl multi handle, whose sockets and timer are on an event loop. The library's
 * callbacks only append to the bounded buffer of their transfer; receivers are called after the
 * library has returned. A transfer that is closed while its receiver runs is freed when the
 * receiver returns.
 */
#include "base/net/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include <tidings/types.h>

#include "base/error.h"
#include "base/library.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"

/* -------------------------------------------------------------------------------------------------
 * libcurl as a table of functions, loaded at run time: together with its TLS library it costs 6 ms
 * and 6 MiB at start, so only programs that connect to a server load it.
 */

/* Name in the table, name in the library. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(global_init, curl_global_init)                                                               \
    X(global_cleanup, curl_global_cleanup)                                                         \
    X(version, curl_version)                                                                       \
    X(easy_init, curl_easy_init)                                                                   \
    X(easy_cleanup, curl_easy_cleanup)                                                             \
    X(easy_setopt, curl_easy_setopt)                                                               \
    X(easy_getinfo, curl_easy_getinfo)                                                             \
    X(easy_strerror, curl_easy_strerror)                                                           \
    X(easy_send, curl_easy_send)                                                                   \
    X(easy_recv, curl_easy_recv)                                                                   \
    X(slist_append, curl_slist_append)                                                             \
    X(slist_free_all, curl_slist_free_all)                                                         \
    X(multi_init, curl_multi_init)                                                                 \
    X(multi_cleanup, curl_multi_cleanup)                                                           \
    X(multi_add_handle, curl_multi_add_handle)                                                     \
    X(multi_remove_handle, curl_multi_remove_handle)                                               \
    X(multi_setopt, curl_multi_setopt)                                                             \
    X(multi_assign, curl_multi_assign)                                                             \
    X(multi_socket_action, curl_multi_socket_action)                                               \
    X(multi_info_read, curl_multi_info_read)                                                       \
    X(multi_strerror, curl_multi_strerror)

struct curl_api {
#define CURL_FUNCTION_FIELD(field, symbol) __typeof__(&symbol) field;
    CURL_FUNCTIONS(CURL_FUNCTION_FIELD)
#undef CURL_FUNCTION_FIELD
};

/* -------------------------------------------------------------------------------------------------
 * Values of response header fields, in strings of fixed size.
 */

/* -------------------------------------------------------------------------------------------------
 * Detects from the library's error that only one side spoke TLS.
 */

/* -------------------------------------------------------------------------------------------------
 * Loads libcurl, once. The library counts its initialisations, so that clients need not know of
 * each other; it stays in memory after the last one (its TLS library cannot be unloaded safely).
 */

/* The same interface under both names; Debian has one package per TLS library. */
LIBRARY(library, "client", "client connections and keys of token issuers", "recommended",
        "libcurl4", "libcurl.so.4", "libcurl-gnutls.so.4");
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct curl_api loaded;

static void curl_open(void)
{
    const struct library_function wanted[] = {
#define CURL_FUNCTION_ROW(field, symbol) {#symbol, &loaded.field},
        CURL_FUNCTIONS(CURL_FUNCTION_ROW)
#undef CURL_FUNCTION_ROW
    };
    library_open(&library, wanted, sizeof(wanted) / sizeof(wanted[0]));
}

/* TIDINGS_E_UNSUPPORTED if the library or one of its functions is missing. */
static int curl_load(struct curl_api *api, struct tidings_error *err)
{
    pthread_once(&once, curl_open);
    int rc = library_check(&library, err);
    if (rc == 0 && loaded.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED, "libcurl cannot start");
    }
    if (rc == 0) {
        *api = loaded;
    }
    return rc;
}

/* A table that was never loaded (zeroed) is fine. */
static void curl_unload(struct curl_api *api)
{
    if (api->global_cleanup) {
        api->global_cleanup();
    }
    *api = (struct curl_api){0};
}

/* -------------------------------------------------------------------------------------------------
 * Copies values of header fields, bounded.
 */

static void head_value_take(struct tidings_str value, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '!' || value.ptr[i] > '~') {
            return;
        }
    }
    if (value.len < size) {
        memcpy(out, value.ptr, value.len);
        out[value.len] = '\0';
    }
}

/* A media type, in lower case and without its parameters. */
static void head_value_take_type(struct tidings_str value, char *out, size_t size)
{
    value = str_trim(str_cut(value, ';', &(struct tidings_str){0}, NULL), " \t");
    head_value_take(value, out, size);
    for (char *p = out; *p; p++) {
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
}

/* Fields of one name form one list (RFC 9110 §5.3). A value that does not fit is omitted. */
static void head_value_add(struct tidings_str value, char *out, size_t size)
{
    size_t len = strlen(out);
    if (len + value.len + 3 <= size) {
        snprintf(out + len, size - len, "%s%.*s", len > 0 ? ", " : "", STR_ARG(value));
    }
}

/* -------------------------------------------------------------------------------------------------
 * Detects TLS on a plain port, and plain HTTP on a TLS port.
 */

static const char *tls_mismatch(const char *url, bool is_silent, const char *reason)
{
    bool is_plain = url && strncasecmp(url, "http://", 7) == 0;
    /* Error messages of OpenSSL and GnuTLS. */
    if (strstr(reason, "wrong version number") || strstr(reason, "unexpected TLS packet")) {
        return "the server does not speak TLS there: http://, ws:// or tcp:// may be meant";
    }
    return is_plain && (is_silent || strstr(reason, "HTTP/0.9"))
               ? "the server gave no answer in HTTP; if it speaks TLS there, https:// is meant"
               : NULL;
}

/* ---------------------------------------------------------------------------------------------- */

struct fetch {
    struct curl_api curl;
    CURLM *multi;
    struct list transfers;
    size_t max_bytes;
    struct loop *loop;
    struct loop_timer timer; /* the timeout that the library requested */
};

/* A socket that the library polls. */
struct fetch_socket {
    struct loop_poll poll; /* closed: all zero */
    struct loop_discard discard;
    struct fetch *fetch;
    int wanted; /* enum loop_event */
};

struct fetch_transfer {
    struct list link;
    struct fetch *fetch;
    CURL *easy;
    struct curl_slist *headers;
    struct buf in;
    struct fetch_status status;
    fetch_bytes_fn on_bytes;
    fetch_change_fn on_change;
    void *user;
    bool is_tunnel;
    bool is_held;
    bool is_secret;
    char *body; /* of a secret request, because the library does not wipe its copy */
    bool head_complete;
    bool ended;    /* the library has finished it */
    bool notified; /* … and on_change was called; for a tunnel: when it connected */
    bool handing;  /* a receiver is running */
    bool closed;   /* … and closed it */
    char reason[CURL_ERROR_SIZE];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* Unix socket path; empty: none */
};

/* ---- the library's sockets and timer --------------------------------------------------------- */

static void fetch_act(struct fetch *f, curl_socket_t fd, int what);

static void fetch_socket_free(void *socket)
{
    mem_free(socket);
}

static void fetch_socket_close(struct fetch_socket *s)
{
    loop_poll_deinit(&s->poll);
    loop_discard(s->fetch->loop, &s->discard, fetch_socket_free, s);
}

static void fetch_on_ready(struct loop_poll *poll, int events, void *user)
{
    struct fetch_socket *s = user;
    bool is_error = events & LOOP_ERROR;
    /* on an error, the library reads and writes to get its details */
    events |= is_error ? s->wanted : 0;
    int what = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
               (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0) | (is_error ? CURL_CSELECT_ERR : 0);
    fetch_act(s->fetch, poll->fd, what);
    if (is_error) {
        /* more bytes can arrive before the error */
        (void)loop_poll_set_events(&s->poll, s->wanted);
    }
}

/* NULL: it cannot be polled. */
static struct fetch_socket *fetch_socket_open(struct fetch *f, curl_socket_t fd)
{
    struct fetch_socket *s = mem_zalloc(sizeof(*s));
    if (!s || loop_poll_init(&s->poll, f->loop, fd, fetch_on_ready, s, NULL) < 0) {
        mem_free(s);
        return NULL;
    }
    s->fetch = f;
    if (f->curl.multi_assign(f->multi, fd, s) != CURLM_OK) {
        fetch_socket_close(s);
        return NULL;
    }
    return s;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *seen)
{
    struct fetch_socket *s = seen;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            fetch_socket_close(s);
        }
        return 0;
    }
    s = s ? s : fetch_socket_open(user, fd);
    if (!s) {
        return -1;
    }
    s->wanted = (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
    return loop_poll_set_events(&s->poll, s->wanted) < 0 ? -1 : 0;
}

static int fetch_set_timer(CURLM *multi, long ms, void *user)
{
    struct fetch *f = user;
    (void)multi;
    if (ms < 0) {
        loop_timer_stop(&f->timer);
    } else {
        loop_timer_start(&f->timer, (uint64_t)ms, 0);
    }
    return 0;
}

static void fetch_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    fetch_act(user, CURL_SOCKET_TIMEOUT, 0);
}

int fetch_create(struct loop *loop, size_t max_bytes, struct fetch **ret, struct tidings_error *err)
{
    struct fetch *f = mem_zalloc(sizeof(*f));
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list_init(&f->transfers);
    f->max_bytes = max_bytes;
    f->loop = loop;
    loop_timer_init(&f->timer, loop, fetch_on_timer, f);
    int rc = curl_load(&f->curl, err);
    if (rc == 0 && !(f->multi = f->curl.multi_init())) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        fetch_destroy(f);
        return rc;
    }
    f->curl.multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    f->curl.multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    f->curl.multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, fetch_set_timer);
    f->curl.multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    *ret = f;
    return 0;
}

void fetch_destroy(struct fetch *f)
{
    if (!f) {
        return;
    }
    list_each (it, next, &f->transfers) {
        fetch_close(list_entry(it, struct fetch_transfer, link));
    }
    if (f->multi) {
        f->curl.multi_cleanup(f->multi);
    }
    loop_timer_stop(&f->timer);
    curl_unload(&f->curl);
    mem_free(f);
}

const char *fetch_library(void)
{
    struct curl_api curl = {0};
    const char *name = curl_load(&curl, NULL) == 0 ? curl.version() : NULL;
    curl_unload(&curl);
    return name;
}

/* ---- starting and ending --------------------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct fetch_transfer *t = user;
    t->head_complete = true;
    int rc = buf_put(&t->in, bytes, size * count);
    if (t->is_secret) {
        explicit_bzero(bytes, size * count); /* the library's buffer, which it no longer needs */
    }
    return rc < 0 ? 0 : size * count;
}

/* Called per line of the head, again for each interim (1xx) head. */
static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct fetch_transfer *t = user;
    struct fetch_status *s = &t->status;
    struct tidings_str line = str_trim(tidings_strn(bytes, size * count), " \t\r\n");
    struct tidings_str value;
    if (str_starts(line, STR("HTTP/"))) {
        s->content_type[0] = s->session[0] = s->challenge[0] = s->nonce[0] = '\0';
        s->retry_after_s = 0;
        return size * count;
    }
    struct tidings_str name = str_cut(line, ':', &value, NULL);
    value = str_trim(value, " \t");
    if (str_eq_nocase(name, STR("content-type"))) {
        head_value_take_type(value, s->content_type, sizeof(s->content_type));
    } else if (str_eq_nocase(name, STR("mcp-session-id"))) {
        head_value_take(value, s->session, sizeof(s->session));
    } else if (str_eq_nocase(name, STR("www-authenticate"))) {
        head_value_add(value, s->challenge, sizeof(s->challenge));
    } else if (str_eq_nocase(name, STR("dpop-nonce"))) {
        head_value_take(value, s->nonce, sizeof(s->nonce));
    } else if (str_eq_nocase(name, STR("retry-after"))) {
        uint64_t seconds = 0; /* a date is not supported */
        s->retry_after_s =
            str_to_u64(value, &seconds) && seconds <= UINT32_MAX ? (uint32_t)seconds : 0;
    } else if (line.len == 0) {
        long status = 0;
        t->fetch->curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        t->head_complete = status >= 200;
    }
    return size * count;
}

/* A proxy from the environment is never used for this machine. */
static bool is_loopback_url(const char *url)
{
    static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        const char *at = strstr(url, "://");
        if (at && strncasecmp(at, hosts[i], strlen(hosts[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* False: out of memory. */
static bool fetch_append(const struct curl_api *curl, struct curl_slist **all, const char *line)
{
    struct curl_slist *more = curl->slist_append(*all, line);
    *all = more ? more : *all;
    return more != NULL;
}

static int set_headers(struct fetch_transfer *t, const struct fetch_request *request)
{
    const struct curl_api *curl = &t->fetch->curl;
    bool ok = true;
    for (size_t i = 0; i < FETCH_MAX_HEADERS && request->headers[i] && ok; i++) {
        ok = fetch_append(curl, &t->headers, request->headers[i]);
    }
    ok = ok && curl->easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK;
    return ok ? 0 : TIDINGS_E_NOMEM;
}

/* Options that change the meaning of the request must succeed; the others may fail. */
static int set_options(struct fetch_transfer *t, const struct fetch_request *request)
{
    const struct curl_api *curl = &t->fetch->curl;
    CURL *easy = t->easy;
    int bad = 0;
    bad += curl->easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_WRITEDATA, t) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_HEADERDATA, t) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_PRIVATE, t) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, t->reason) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
    if (request->body.len > 0) {
        bad += curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                                 (curl_off_t)request->body.len) != CURLE_OK;
        t->body = request->is_secret ? str_dup(request->body) : NULL;
        bad += request->is_secret && !t->body;
        bad += t->body
                   ? curl->easy_setopt(easy, CURLOPT_POSTFIELDS, t->body) != CURLE_OK
                   : curl->easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body.ptr) != CURLE_OK;
    }
    if (request->ca_file) {
        bad += curl->easy_setopt(easy, CURLOPT_CAINFO, request->ca_file) != CURLE_OK;
    }
    if (request->cert_file) {
        const char *key = request->key_file ? request->key_file : request->cert_file;
        bad += curl->easy_setopt(easy, CURLOPT_SSLCERT, request->cert_file) != CURLE_OK;
        bad += curl->easy_setopt(easy, CURLOPT_SSLKEY, key) != CURLE_OK;
    }
    if (request->timeout_ms > 0) {
        bad += curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms) != CURLE_OK;
    }
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 30L);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 10L);
    if (request->unix_path) {
        snprintf(t->socket, sizeof(t->socket), "%s", request->unix_path);
        bad += curl->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_path) != CURLE_OK;
    }
    if (request->is_tunnel) {
        bad += curl->easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK;
        curl->easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
        curl->easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    }
    if (request->no_proxy || is_loopback_url(request->url)) {
        curl->easy_setopt(easy, CURLOPT_NOPROXY, "*");
    }
    return bad > 0 ? TIDINGS_E_NOMEM : 0;
}

int fetch_start(struct fetch *f, const struct fetch_request *request, struct fetch_transfer **ret,
                struct tidings_error *err)
{
    struct fetch_transfer *t = mem_zalloc(sizeof(*t));
    if (!t) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    t->fetch = f;
    t->on_bytes = request->on_bytes;
    t->on_change = request->on_change;
    t->is_tunnel = request->is_tunnel;
    t->user = request->user;
    t->ended = true; /* until it is added to the library */
    t->notified = t->is_held = request->is_held;
    t->is_secret = request->is_secret;
    buf_init(&t->in, f->max_bytes);
    t->in.is_secret = t->is_secret;
    list_init(&t->link);
    t->easy = f->curl.easy_init();
    if (!t->easy || set_options(t, request) < 0 || set_headers(t, request) < 0 ||
        (!t->is_held && f->curl.multi_add_handle(f->multi, t->easy) != CURLM_OK)) {
        fetch_close(t);
        return tidings_fail(err, TIDINGS_E_NOMEM, "cannot set up a request to '%s'", request->url);
    }
    t->ended = t->is_held;
    list_append(&f->transfers, &t->link);
    *ret = t;
    return 0;
}

static void detach(struct fetch_transfer *t)
{
    if (!t->ended) {
        t->fetch->curl.multi_remove_handle(t->fetch->multi, t->easy);
        t->ended = true;
    }
}

/* They can contain tokens. */
static void free_headers(const struct curl_api *curl, struct curl_slist *headers)
{
    for (struct curl_slist *at = headers; at; at = at->next) {
        explicit_bzero(at->data, strlen(at->data));
    }
    curl->slist_free_all(headers);
}

/* Returns true if the list contains a header of that name. */
static bool fetch_replaces(const char *const *headers, const char *header)
{
    bool is_there = false;
    for (size_t i = 0; headers[i]; i++) {
        is_there = is_there || strncasecmp(header, headers[i], strcspn(headers[i], ":") + 1) == 0;
    }
    return is_there;
}

int fetch_again(struct fetch_transfer *t, const char *const *headers, struct tidings_error *err)
{
    const struct curl_api *curl = &t->fetch->curl;
    struct curl_slist *all = NULL;
    bool ok = true;
    for (size_t i = 0; headers[i] && ok; i++) {
        ok = fetch_append(curl, &all, headers[i]);
    }
    for (const struct curl_slist *at = t->headers; at && ok; at = at->next) {
        ok = fetch_replaces(headers, at->data) || fetch_append(curl, &all, at->data);
    }
    if (!ok || curl->easy_setopt(t->easy, CURLOPT_HTTPHEADER, all) != CURLE_OK) {
        free_headers(curl, all);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    free_headers(curl, t->headers);
    t->headers = all;
    detach(t);
    if (curl->multi_add_handle(t->fetch->multi, t->easy) != CURLM_OK) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "cannot set up a request again");
    }
    buf_clear(&t->in);
    t->status = (struct fetch_status){0};
    t->head_complete = t->ended = t->notified = false;
    return 0;
}

void fetch_close(struct fetch_transfer *t)
{
    if (!t) {
        return;
    }
    detach(t);
    if (t->handing) {
        t->closed = true;
        return;
    }
    list_remove(&t->link);
    if (t->easy) {
        t->fetch->curl.easy_cleanup(t->easy);
    }
    free_headers(&t->fetch->curl, t->headers);
    buf_deinit(&t->in);
    str_free_secret(t->body);
    mem_free(t);
}

const struct fetch_status *fetch_status(const struct fetch_transfer *t)
{
    return &t->status;
}

/* Replaces the library's error messages that lack names: it knows only host names, not socket
 * paths. */
static void fetch_explain(struct fetch_transfer *t, CURLcode result)
{
    const struct curl_api *curl = &t->fetch->curl;
    struct tidings_error why = {0};
    char *url = NULL;
    long number = 0;
    curl->easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
    bool is_silent = result == CURLE_GOT_NOTHING || result == CURLE_WEIRD_SERVER_REPLY;
    const char *mismatch = tls_mismatch(url, is_silent, t->reason);
    if (result != CURLE_OK && mismatch) {
        snprintf(t->reason, sizeof(t->reason), "%s", mismatch);
    } else if (result == CURLE_COULDNT_CONNECT && t->socket[0]) {
        curl->easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &number);
        error_errno(&why, number > 0 ? (int)number : ECONNREFUSED, "connect to '%s'", t->socket);
        snprintf(t->reason, sizeof(t->reason), "%s", why.text);
    } else if (result == CURLE_URL_MALFORMAT && url) {
        snprintf(t->reason, sizeof(t->reason), "'%.160s' is not a URL", url);
    }
}

static void end_transfer(struct fetch_transfer *t, CURLcode result)
{
    fetch_explain(t, result);
    if (result == CURLE_OK && t->is_tunnel) {
        t->status.connected = true; /* valid until the library releases the socket */
        return;
    }
    detach(t);
    if (result == CURLE_OK) {
        return;
    }
    int code = result == CURLE_OPERATION_TIMEDOUT         ? TIDINGS_E_TIMEOUT
               : result == CURLE_PEER_FAILED_VERIFICATION ? TIDINGS_E_DENIED
               : result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL ||
                       result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_CERTPROBLEM
                   ? TIDINGS_E_INVALID
               : t->in.failed ? t->in.failed
                              : TIDINGS_E_IO;
    /* The library's message for this one does not tell which side closed. */
    const char *text = t->in.failed                   ? "the answer is too large"
                       : result == CURLE_PARTIAL_FILE ? "the connection was closed in the middle "
                                                        "of the answer, without its end"
                       : t->reason[0]                 ? t->reason
                                                      : t->fetch->curl.easy_strerror(result);
    tidings_fail(&t->status.error, code, "%s", text);
}

static void collect_ended(struct fetch *f)
{
    CURLMsg *msg;
    int left;
    while ((msg = f->curl.multi_info_read(f->multi, &left)) != NULL) {
        char *private = NULL;
        if (msg->msg == CURLMSG_DONE &&
            f->curl.easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK) {
            CURLcode result = msg->data.result;
            end_transfer((struct fetch_transfer *)(void *)private, result);
        }
    }
}

/* ---- tunnels --------------------------------------------------------------------------------- */

int fetch_socket(const struct fetch_transfer *t)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    t->fetch->curl.easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd);
    return fd == CURL_SOCKET_BAD ? -1 : fd;
}

ssize_t fetch_send(struct fetch_transfer *t, const char *bytes, size_t len)
{
    size_t n = 0;
    CURLcode rc = t->fetch->curl.easy_send(t->easy, bytes, len, &n);
    return rc == CURLE_OK ? (ssize_t)n : rc == CURLE_AGAIN ? 0 : TIDINGS_E_CLOSED;
}

ssize_t fetch_recv(struct fetch_transfer *t, char *out, size_t room)
{
    size_t n = 0;
    CURLcode rc = t->fetch->curl.easy_recv(t->easy, out, room, &n);
    return rc == CURLE_AGAIN ? 0 : rc == CURLE_OK && n > 0 ? (ssize_t)n : TIDINGS_E_CLOSED;
}

/* ---- receivers ------------------------------------------------------------------------------- */

static int hand_bytes(struct fetch_transfer *t)
{
    size_t len;
    char *bytes = buf_detach(&t->in, &len);
    int rc = t->on_bytes ? t->on_bytes(t->user, tidings_strn(bytes, len)) : 0;
    if (t->is_secret) {
        explicit_bzero(bytes, len);
    }
    mem_free(bytes);
    return rc;
}

static void fail_transfer(struct fetch_transfer *t, int code)
{
    detach(t);
    buf_clear(&t->in);
    if (t->status.error.code == 0) {
        tidings_fail(&t->status.error, code, "%s", tidings_code_text(code));
    }
}

/* Returns true if a receiver ran, so the list of transfers may have changed. */
static bool fetch_hand_over(struct fetch_transfer *t)
{
    if (t->handing || t->notified) {
        return false;
    }
    bool has_head = t->head_complete && t->status.status == 0;
    if (has_head) {
        t->fetch->curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status.status);
    }
    bool has_bytes = t->in.len > 0;
    bool is_over = !has_bytes && (t->ended || t->status.connected);
    if (!has_head && !has_bytes && !is_over) {
        return false;
    }
    t->notified = is_over;
    t->status.finished = is_over && t->ended;
    t->handing = true;
    int rc = has_bytes && !has_head ? hand_bytes(t) : 0;
    if ((has_head || is_over) && t->on_change) {
        t->on_change(t->user);
    }
    t->handing = false;
    if (t->closed) {
        fetch_close(t);
    } else if (rc < 0) {
        fail_transfer(t, rc);
    }
    return true;
}

static void hand_over_all(struct fetch *f)
{
    bool again = true;
    while (again) {
        again = false;
        list_each (it, next, &f->transfers) {
            if (fetch_hand_over(list_entry(it, struct fetch_transfer, link))) {
                again = true;
                break;
            }
        }
    }
}

/* The library failed: all transfers fail. */
static void fail_all(struct fetch *f, CURLMcode code)
{
    list_each (it, next, &f->transfers) {
        struct fetch_transfer *t = list_entry(it, struct fetch_transfer, link);
        if (!t->ended) {
            tidings_fail(&t->status.error, TIDINGS_E_IO, "%s", f->curl.multi_strerror(code));
            fail_transfer(t, TIDINGS_E_IO);
        }
    }
}

/* Handles a ready socket, or an expired timer (CURL_SOCKET_TIMEOUT). */
static void fetch_act(struct fetch *f, curl_socket_t fd, int what)
{
    int running;
    CURLMcode rc = f->curl.multi_socket_action(f->multi, fd, what, &running);
    collect_ended(f);
    if (rc != CURLM_OK) {
        fail_all(f, rc);
    }
    hand_over_all(f);
}
