/* SPDX-License-Identifier: MIT
 *
 * Requests on a curl multi handle. The library's callbacks only append to the buffer of their call,
 * bounded; fetch_step hands the buffers over afterwards. A call that is closed while its receiver
 * runs is freed when the receiver returns.
 */
#include "client/fetch.h"

#ifdef TIDINGS_HAVE_CURL

#include <strings.h>

#include "base/list.h"
#include "base/mem.h"
#include "client/curl.h"

struct fetch {
    struct curl_api curl;
    CURLM *multi;
    struct list calls;
    size_t max_bytes;
    int wake_fd;
};

struct fetch_call {
    struct list link;
    struct fetch *fetch;
    CURL *easy;
    struct curl_slist *headers;
    struct buf in;
    struct fetch_status status;
    fetch_bytes_fn on_bytes;
    void *user;
    bool head_complete;
    bool ended;   /* the library is done with it */
    bool handing; /* on_bytes is running */
    bool closed;  /* … and closed it */
    char reason[CURL_ERROR_SIZE];
};

int fetch_create(int wake_fd, size_t max_bytes, struct fetch **ret, struct tidings_error *err)
{
    struct fetch *f = mem_zalloc(sizeof(*f));
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    list_init(&f->calls);
    f->wake_fd = wake_fd;
    f->max_bytes = max_bytes;
    int rc = curl_load(&f->curl, err);
    if (rc < 0) {
        mem_free(f);
        return rc;
    }
    f->multi = f->curl.multi_init();
    if (!f->multi) {
        fetch_destroy(f);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *ret = f;
    return 0;
}

void fetch_destroy(struct fetch *f)
{
    if (!f) {
        return;
    }
    list_each (it, next, &f->calls) {
        fetch_close(list_entry(it, struct fetch_call, link));
    }
    if (f->multi) {
        f->curl.multi_cleanup(f->multi);
    }
    curl_unload(&f->curl);
    mem_free(f);
}

const char *fetch_library(const struct fetch *f)
{
    return f->curl.version();
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct fetch_call *call = user;
    call->head_complete = true;
    return buf_put(&call->in, bytes, size * count) < 0 ? 0 : size * count;
}

/* Copy a header's value when it fits and is visible ASCII; else leave `out` empty. */
static void take_value(struct tidings_str value, char *out, size_t size)
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

static void take_type(struct tidings_str value, char *out, size_t size)
{
    value = str_trim(str_cut(value, ';', &(struct tidings_str){0}, NULL), " \t");
    take_value(value, out, size);
    for (char *p = out; *p; p++) {
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
}

/* Called per line of the head, once more for each interim (1xx) one. */
static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct fetch_call *call = user;
    struct fetch_status *s = &call->status;
    struct tidings_str line = str_trim(tidings_strn(bytes, size * count), " \t\r\n");
    struct tidings_str value;
    if (str_starts(line, STR("HTTP/"))) {
        s->content_type[0] = s->session[0] = '\0';
        return size * count;
    }
    struct tidings_str name = str_cut(line, ':', &value, NULL);
    value = str_trim(value, " \t");
    if (str_eq_nocase(name, STR("content-type"))) {
        take_type(value, s->content_type, sizeof(s->content_type));
    } else if (str_eq_nocase(name, STR("mcp-session-id"))) {
        take_value(value, s->session, sizeof(s->session));
    } else if (line.len == 0) {
        long status = 0;
        call->fetch->curl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        call->head_complete = status >= 200;
    }
    return size * count;
}

/* A proxy of the environment never leads to this very machine. */
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

static int set_headers(struct fetch_call *call, const struct fetch_request *request)
{
    const struct curl_api *curl = &call->fetch->curl;
    for (size_t i = 0; i < FETCH_MAX_HEADERS && request->headers[i]; i++) {
        struct curl_slist *more = curl->slist_append(call->headers, request->headers[i]);
        if (!more) {
            return TIDINGS_E_NOMEM;
        }
        call->headers = more;
    }
    return curl->easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK
               ? 0
               : TIDINGS_E_NOMEM;
}

/* Options whose failure would change the meaning are counted, comforts are not. */
static int set_options(struct fetch_call *call, const struct fetch_request *request)
{
    const struct curl_api *curl = &call->fetch->curl;
    CURL *easy = call->easy;
    int bad = 0;
    bad += curl->easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_WRITEDATA, call) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_HEADERDATA, call) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_PRIVATE, call) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, call->reason) != CURLE_OK;
    bad += curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
    if (request->body.len > 0) {
        bad += curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                                 (curl_off_t)request->body.len) != CURLE_OK;
        bad += curl->easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body.ptr) != CURLE_OK;
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
    if (is_loopback_url(request->url)) {
        curl->easy_setopt(easy, CURLOPT_NOPROXY, "*");
    }
    return bad > 0 ? TIDINGS_E_NOMEM : 0;
}

int fetch_start(struct fetch *f, const struct fetch_request *request, struct fetch_call **ret,
                struct tidings_error *err)
{
    struct fetch_call *call = mem_zalloc(sizeof(*call));
    if (!call) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    call->fetch = f;
    call->on_bytes = request->on_bytes;
    call->user = request->user;
    call->ended = true; /* until the library has it */
    buf_init(&call->in, f->max_bytes);
    list_init(&call->link);
    call->easy = f->curl.easy_init();
    if (!call->easy || set_options(call, request) < 0 || set_headers(call, request) < 0 ||
        f->curl.multi_add_handle(f->multi, call->easy) != CURLM_OK) {
        fetch_close(call);
        return tidings_fail(err, TIDINGS_E_NOMEM, "cannot set up a request to '%s'", request->url);
    }
    call->ended = false;
    list_append(&f->calls, &call->link);
    *ret = call;
    return 0;
}

static void detach(struct fetch_call *call)
{
    if (!call->ended) {
        call->fetch->curl.multi_remove_handle(call->fetch->multi, call->easy);
        call->ended = true;
    }
}

void fetch_close(struct fetch_call *call)
{
    if (!call) {
        return;
    }
    detach(call);
    if (call->handing) {
        call->closed = true;
        return;
    }
    list_remove(&call->link);
    if (call->easy) {
        call->fetch->curl.easy_cleanup(call->easy);
    }
    call->fetch->curl.slist_free_all(call->headers);
    buf_deinit(&call->in);
    mem_free(call);
}

const struct fetch_status *fetch_status(const struct fetch_call *call)
{
    return &call->status;
}

static void end_call(struct fetch_call *call, CURLcode result)
{
    detach(call);
    if (result == CURLE_OK) {
        return;
    }
    int code = result == CURLE_OPERATION_TIMEDOUT         ? TIDINGS_E_TIMEOUT
               : result == CURLE_PEER_FAILED_VERIFICATION ? TIDINGS_E_DENIED
               : result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL ||
                       result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_CERTPROBLEM
                   ? TIDINGS_E_INVALID
               : call->in.failed ? call->in.failed
                                 : TIDINGS_E_IO;
    const char *text = call->in.failed   ? "the answer is too large"
                       : call->reason[0] ? call->reason
                                         : call->fetch->curl.easy_strerror(result);
    tidings_fail(&call->status.error, code, "%s", text);
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
            end_call((struct fetch_call *)(void *)private, result);
        }
    }
}

/* True: something was handed over, the list of calls may have changed. */
static bool hand_over(struct fetch_call *call)
{
    if (call->handing || call->status.finished) {
        return false;
    }
    if (call->head_complete && call->status.status == 0) {
        call->fetch->curl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status.status);
    }
    if (call->in.len == 0) {
        call->status.finished = call->ended;
        return false;
    }
    size_t len;
    char *bytes = buf_detach(&call->in, &len);
    call->handing = true;
    int rc = call->on_bytes(call->user, tidings_strn(bytes, len));
    call->handing = false;
    mem_free(bytes);
    if (call->closed) {
        fetch_close(call);
    } else if (rc < 0) {
        detach(call);
        buf_clear(&call->in);
        call->status.finished = true;
        if (call->status.error.code == 0) {
            tidings_fail(&call->status.error, rc, "%s", tidings_code_text(rc));
        }
    }
    return true;
}

static void hand_over_all(struct fetch *f)
{
    bool again = true;
    while (again) {
        again = false;
        list_each (it, next, &f->calls) {
            if (hand_over(list_entry(it, struct fetch_call, link))) {
                again = true;
                break;
            }
        }
    }
}

int fetch_step(struct fetch *f, int timeout_ms, struct tidings_error *err)
{
    struct curl_waitfd wake = {.fd = f->wake_fd, .events = CURL_WAIT_POLLIN};
    int running;
    CURLMcode rc = f->curl.multi_perform(f->multi, &running);
    collect_ended(f);
    bool pending = false;
    list_each (it, next, &f->calls) {
        struct fetch_call *call = list_entry(it, struct fetch_call, link);
        pending = pending || (!call->handing && !call->status.finished &&
                              (call->in.len > 0 || call->ended ||
                               (call->head_complete && call->status.status == 0)));
    }
    if (rc == CURLM_OK && !pending) {
        rc = f->curl.multi_poll(f->multi, &wake, 1, timeout_ms < 0 ? 60000 : timeout_ms, NULL);
        if (rc == CURLM_OK) {
            rc = f->curl.multi_perform(f->multi, &running);
        }
        collect_ended(f);
    }
    if (rc != CURLM_OK) {
        return tidings_fail(err, TIDINGS_E_IO, "%s", f->curl.multi_strerror(rc));
    }
    hand_over_all(f);
    return 0;
}

#endif
