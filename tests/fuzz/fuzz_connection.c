/* SPDX-License-Identifier: MIT
 *
 * Any bytes on an HTTP connection to a whole server. The output is a series of well-formed
 * responses with our header fields and bodies that match them, at most one for each request; and no
 * state remains when the client disconnects. Input up to a byte 0x1e is sent together; a first byte
 * of 1 to 9 splits it into pieces of that number of bytes.
 */
#include "formats/http.h"
#include "formats/json.h"
#include "formats/sse.h"
#include "server/config.h"
#include "support/dialogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct response {
    unsigned status;
    size_t length;
    bool has_length, is_events, is_json;
    bool is_strangers; /* the content of a resource, in its sandbox */
};

static bool is_ours(struct tidings_str name)
{
    static const char *const ours[] = {
        "Date",
        "Cross-Origin-Resource-Policy",
        "Content-Type",
        "Content-Length",
        "Connection",
        "Mcp-Session-Id",
        "Cross-Origin-Resource-Policy",
        "Allow",
        "Cache-Control",
        "Vary",
        "ETag",
        "Last-Modified",
        "Accept-Ranges",
        "Content-Range",
        "Upgrade",
        "X-Content-Type-Options",
        "Content-Security-Policy",
        "Retry-After",
        "Location",
        "WWW-Authenticate",
        "X-Accel-Buffering",
    };
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (str_eq(name, tidings_str(ours[i]))) {
            return true;
        }
    }
    return str_starts(name, STR("Sec-WebSocket-")) || str_starts(name, STR("Access-Control-"));
}

/* A line without its CRLF. */
static struct tidings_str cut_line(struct tidings_str *rest)
{
    bool whole = false;
    struct tidings_str line = str_cut(*rest, '\n', rest, &whole);
    dialogue_require(whole && line.len > 0 && line.ptr[line.len - 1] == '\r', "lines end in CRLF");
    line.len--;
    for (size_t i = 0; i < line.len; i++) {
        dialogue_require(http_is_text(line.ptr[i]), "a head is text");
    }
    return line;
}

static void read_field(struct response *r, struct tidings_str line)
{
    struct tidings_str value;
    bool has_colon = false;
    struct tidings_str name = str_cut(line, ':', &value, &has_colon);
    value = str_trim(value, " ");
    dialogue_require(has_colon && is_ours(name), "only our own fields are told");
    if (str_eq(name, STR("Content-Length"))) {
        uint64_t n = 0;
        dialogue_require(!r->has_length && str_to_u64(value, &n), "one length");
        r->length = (size_t)n;
        r->has_length = true;
    } else if (str_eq(name, STR("Content-Type"))) {
        r->is_events = str_starts(value, STR("text/event-stream"));
        r->is_json = str_starts(value, STR("application/json"));
    } else if (str_eq(name, STR("Content-Security-Policy"))) {
        r->is_strangers = str_eq(value, STR("sandbox"));
    }
}

static void read_head(struct response *r, struct tidings_str *rest)
{
    struct tidings_str line = cut_line(rest);
    uint64_t status = 0;
    *r = (struct response){0};
    dialogue_require(str_starts(line, STR("HTTP/1.1 ")) && line.len > 13 && line.ptr[12] == ' ' &&
                         str_to_u64(tidings_strn(line.ptr + 9, 3), &status),
                     "a response begins with its status");
    r->status = (unsigned)status;
    while ((line = cut_line(rest)).len > 0) {
        read_field(r, line);
    }
}

static void on_event(const struct sse_event *event, void *user)
{
    (void)user;
    struct json *root = NULL;
    bool is_endpoint = str_eq(event->event, STR("endpoint"));
    dialogue_require(is_endpoint || str_eq(event->event, STR("message")), "events are messages");
    if (!is_endpoint && event->data.len > 0) {
        dialogue_require(jv_parse(event->data, 512, &root, NULL) == 0, "events are JSON");
        jv_unref(root);
    }
}

static void check_events(struct tidings_str body)
{
    struct sse_parser p;
    sse_parser_init(&p, 1u << 20);
    dialogue_require(sse_parser_feed(&p, body.ptr, body.len, on_event, NULL) == 0, "events");
    sse_parser_deinit(&p);
}

/* Checks all output; returns the number of answered requests. */
static size_t check_heard(bool has_head_requests)
{
    struct tidings_str rest = dialogue_heard();
    size_t answers = 0;
    while (rest.len > 0) {
        struct response r;
        read_head(&r, &rest);
        if (r.status == 100) {
            continue;
        }
        answers++;
        if (r.status == 101 || r.is_events) {
            if (r.is_events) {
                check_events(rest);
            }
            return answers; /* the rest of the connection */
        }
        bool is_bare =
            has_head_requests &&
            !(r.length <= rest.len &&
              (rest.len == r.length || str_starts(str_skip(rest, r.length), STR("HTTP/"))));
        if (r.has_length && !is_bare) {
            dialogue_require(r.length <= rest.len, "a body is whole");
            struct json *root = NULL;
            struct tidings_str body = tidings_strn(rest.ptr, r.length);
            dialogue_require(!r.is_json || r.is_strangers || r.length == 0 ||
                                 jv_parse(body, 512, &root, NULL) == 0,
                             "what is called JSON is JSON");
            jv_unref(root);
            rest = str_skip(rest, r.length);
        } else {
            dialogue_require(is_bare || r.status == 204 || r.status == 304, "a length is told");
        }
    }
    return answers;
}

static size_t count_in(struct tidings_str s, const char *what)
{
    size_t n = 0, len = strlen(what);
    for (size_t i = 0; i + len <= s.len; i++) {
        n += memcmp(s.ptr + i, what, len) == 0;
    }
    return n;
}

static void say(struct tidings_str piece, size_t step)
{
    while (piece.len > 0 && !dialogue_is_over()) {
        size_t n = step > 0 && step < piece.len ? step : piece.len;
        (void)dialogue_say(tidings_strn(piece.ptr, n));
        piece = str_skip(piece, n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str input = tidings_strn((const char *)data, size), piece;
    size_t step = 0;
    if (size > 16384) {
        return 0;
    }
    if (size > 0 && data[0] >= 1 && data[0] <= 9) {
        step = data[0];
        input = str_skip(input, 1);
    }
    size_t asked = count_in(input, "HTTP/") + 1;
    bool has_head_requests = count_in(input, "HEAD ") > 0;
    dialogue_open(DIALOGUE_HTTP);
    while (!dialogue_is_over() && dialogue_next(&input, &piece)) {
        say(piece, step);
    }
    if (!dialogue_is_over()) {
        dialogue_finish();
    }
    dialogue_require(check_heard(has_head_requests) <= asked, "no answer without a request");
    dialogue_close();
    return 0;
}
