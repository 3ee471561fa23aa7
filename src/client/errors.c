/* SPDX-License-Identifier: MIT
 *
 * Turns JSON-RPC errors and HTTP statuses of servers into codes of ours. The protocol has had more
 * than one code for the same thing, and servers have their own.
 */
#include "client/errors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "wire/bearer.h"

#define BODY_MAX 160u /* bytes of what a server says besides */

/* 501: it never will. */
static bool is_busy(long status)
{
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

/* Of http://HOST:PORT or http://HOST:PORT/. */
static bool errors_has_no_path(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    return !path || path[1] == '\0';
}

int errors_from_status(const char *url, long status, struct tidings_str challenge,
                       struct tidings_error *err)
{
    if (status == 401 || status == 403) {
        return bearer_refused(status, challenge, err);
    }
    if (status == 404) {
        return tidings_fail(
            err, TIDINGS_E_NOTFOUND, "no MCP endpoint at that address (HTTP 404): %s",
            url && errors_has_no_path(url) ? "name its path too, which is /mcp for most servers"
                                           : "ask whoever runs the server for its path");
    }
    if (is_busy(status)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server cannot answer now (HTTP %ld)", status);
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "the answer is not one of an MCP server (HTTP %ld)",
                        status);
}

/* The sentence of a JSON object, as servers and gateways name it; empty: none. */
static struct tidings_str errors_sentence(struct json *root)
{
    static const char *const names[] = {"error_description", "message", "detail", "error", "title"};
    struct json *inner = jv_get(root, "error");
    struct tidings_str text = jv_str(jv_get(inner, "message"));
    for (size_t i = 0; text.len == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        text = jv_str(jv_get(root, names[i]));
    }
    return text;
}

static void errors_append(struct tidings_str text, struct tidings_error *err)
{
    char line[BODY_MAX + 1];
    struct tidings_str rest;
    text = str_trim(str_cut(text, '\n', &rest, NULL), " \t\r");
    if (text.len == 0 || !str_is_utf8(text)) {
        return;
    }
    size_t len = text.len < BODY_MAX ? text.len : BODY_MAX;
    while (len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) {
        len--; /* not within a character */
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        line[i] = c < ' ' || c == 0x7f ? '?' : text.ptr[i];
    }
    line[len] = '\0';
    struct tidings_error told = *err;
    tidings_fail(err, told.code, "%s: %s", told.text, line);
}

void errors_add_body(struct tidings_str body, struct tidings_error *err)
{
    struct json *root = NULL;
    body = str_trim(body, " \t\r\n");
    if (body.len == 0 || body.ptr[0] == '<' || body.ptr[0] == '[') {
        return;
    }
    if (body.ptr[0] != '{') {
        errors_append(body, err);
    } else if (jv_parse_peer(body, &root, NULL, NULL) == 0) {
        errors_append(errors_sentence(root), err);
    }
    jv_unref(root);
}

/* Our own servers, and others that took it up, say there what the codes of the protocol cannot. */
int errors_from_reason(struct json *data)
{
    static const struct {
        const char *reason;
        int code;
    } known[] = {
        {"deleted", TIDINGS_E_GONE},         {"not_found", TIDINGS_E_NOTFOUND},
        {"too_large", TIDINGS_E_LIMIT},      {"unknownEntity", TIDINGS_E_NOTFOUND},
        {"unknownType", TIDINGS_E_NOTFOUND}, {"internal", TIDINGS_E_INTERNAL},
        {"invalid", TIDINGS_E_INVALID},
    };
    struct tidings_str reason = jv_str(jv_get(data, "reason"));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (str_eq(reason, tidings_str(known[i].reason))) {
            return known[i].code;
        }
    }
    return 0;
}

static bool mentions(struct tidings_str text, struct tidings_str what)
{
    for (size_t i = 0; i + what.len <= text.len; i++) {
        if (strncasecmp(text.ptr + i, what.ptr, what.len) == 0) {
            return true;
        }
    }
    return false;
}

/* Servers on the official SDKs begin their messages with "MCP error -32601: "; the code is told
 * anyway, so it stands once. */
static struct tidings_str errors_message(struct json *error, int64_t code)
{
    struct tidings_str text = jv_str(jv_get(error, "message"));
    char prefix[48];
    int len = snprintf(prefix, sizeof(prefix), "MCP error %" PRId64 ": ", code);
    struct tidings_str begin = tidings_strn(prefix, (size_t)len);
    while (str_starts(text, begin) && text.len > begin.len) {
        text = tidings_strn(text.ptr + begin.len, text.len - begin.len);
    }
    return text;
}

/* -32002 until 2025-11-25, -32602 since; -32001 and -32601 elsewhere. */
static bool is_missing(struct json *error, int64_t code, long status)
{
    struct json *data = jv_get(error, "data");
    struct tidings_str text = jv_str(jv_get(error, "message"));
    bool says_so = mentions(text, STR("not found"));
    bool names_uri = jv_get(data, "uri") && !jv_get(data, "reason");
    return code == -32002 || (code == -32001 && (status == 0 || status == 200)) ||
           (code == -32601 &&
            (mentions(text, STR("resource not found")) || mentions(text, STR("unknown tool")) ||
             mentions(text, STR("unknown prompt")))) ||
           (code == -32602 && (says_so || names_uri));
}

int errors_from_response(struct json *error, long status, struct tidings_error *err)
{
    int64_t code = jv_int(jv_get(error, "code"));
    struct tidings_str text = errors_message(error, code);
    int reason = errors_from_reason(jv_get(error, "data"));
    int own = reason < 0                         ? reason
              : is_busy(status)                  ? TIDINGS_E_BUSY
              : status == 401 || status == 403   ? TIDINGS_E_DENIED
              : is_missing(error, code, status)  ? TIDINGS_E_NOTFOUND
              : code == -32601 || code == -32022 ? TIDINGS_E_UNSUPPORTED
              : code == -32603                   ? TIDINGS_E_BUSY
                                                 : TIDINGS_E_INVALID;
    return tidings_fail(err, own, "%.*s (%" PRId64 ")", STR_ARG(text), code);
}

void errors_name_missing(const char *method, const char *capabilities, struct tidings_error *err)
{
    static const struct {
        const char *methods, *capability;
    } known[] = {
        {"resources/", "resources"},
        {"prompts/", "prompts"},
        {"tools/", "tools"},
        {"completion/", "completions"},
    };
    struct json *all = NULL;
    if (jv_parse_peer(tidings_str(capabilities), &all, NULL, NULL) < 0) {
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool is_it = str_starts(tidings_str(method), tidings_str(known[i].methods));
        if (is_it && !jv_get(all, known[i].capability)) {
            tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server offers no %s (-32601)",
                         known[i].capability);
        }
    }
    jv_unref(all);
}

bool errors_want_tls(struct tidings_str text)
{
    return mentions(text, STR("TLS")) || mentions(text, STR("HTTPS"));
}
