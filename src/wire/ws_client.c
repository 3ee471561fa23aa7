/* SPDX-License-Identifier: MIT
 *
 * Asking a server for WebSocket, and masked frames. The answer's head is read strictly where it
 * matters (status, Upgrade, Connection, Sec-WebSocket-Accept) and passed over elsewhere.
 */
#include "wire/ws_client.h"

#include "base/clock.h"
#include "wire/bearer.h"
#include "wire/http_fields.h"

int ws_client_key(char out[WS_KEY_BYTES])
{
    unsigned char bytes[16];
    struct buf text;
    if (random_bytes(bytes, sizeof(bytes)) < 0) {
        return TIDINGS_E_IO;
    }
    buf_init(&text, WS_KEY_BYTES);
    int rc = base64_put(&text, tidings_strn((const char *)bytes, sizeof(bytes)));
    if (rc == 0) {
        memcpy(out, text.ptr, WS_KEY_BYTES);
    }
    buf_deinit(&text);
    return rc;
}

void ws_client_put_request(struct buf *out, const struct ws_client_request *r)
{
    buf_putf(out,
             "GET %.*s HTTP/1.1\r\nHost: %.*s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Protocol: " WS_PROTOCOL "\r\n",
             STR_ARG(r->path), STR_ARG(r->host), r->key);
    for (size_t i = 0; r->headers && r->headers[i]; i++) {
        buf_putf(out, "%s\r\n", r->headers[i]);
    }
    buf_puts(out, STR("\r\n"));
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The length of the head, 0: it is not complete. */
static size_t head_len(struct tidings_str bytes)
{
    for (size_t i = 3; i < bytes.len; i++) {
        if (bytes.ptr[i] == '\n' && memcmp(bytes.ptr + i - 3, "\r\n\r\n", 4) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* "HTTP/1.1 101 …": the status, 0: no such line. */
unsigned ws_client_status(struct tidings_str bytes)
{
    uint64_t status = 0;
    struct tidings_str line = str_trim(str_cut(bytes, '\n', &bytes, NULL), "\r");
    if (!str_starts(line, STR("HTTP/1.1 ")) || line.len < 12 ||
        !str_to_u64(tidings_strn(line.ptr + 9, 3), &status) ||
        (line.len > 12 && line.ptr[12] != ' ')) {
        return 0;
    }
    return (unsigned)status;
}

/* What the field of that name says first. */
static struct tidings_str field_of(struct tidings_str head, struct tidings_str wanted)
{
    struct tidings_str value = STR_EMPTY;
    while (head.len > 0) {
        struct tidings_str line = str_trim(str_cut(head, '\n', &head, NULL), "\r");
        if (str_eq_nocase(str_cut(line, ':', &value, NULL), wanted)) {
            return str_trim(value, " \t");
        }
    }
    return STR_EMPTY;
}

struct tidings_str ws_client_field(struct tidings_str bytes, struct tidings_str name)
{
    struct tidings_str rest;
    str_cut(tidings_strn(bytes.ptr, head_len(bytes)), '\n', &rest, NULL);
    return field_of(rest, name);
}

struct tidings_str ws_client_body(struct tidings_str bytes)
{
    bool is_encoded = ws_client_field(bytes, STR("transfer-encoding")).len > 0 ||
                      ws_client_field(bytes, STR("content-encoding")).len > 0;
    return is_encoded ? STR_EMPTY : str_skip(bytes, head_len(bytes));
}

static int ws_client_refuse(unsigned status, struct tidings_str head, struct tidings_error *err)
{
    if (status == 401 || status == 403) {
        return bearer_refused(status, field_of(head, STR("www-authenticate")), err);
    }
    if (status == 404) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "no WebSocket at that address (HTTP 404)");
    }
    if (status == 408 || status == 429 || status >= 500) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server cannot answer now (HTTP %u)", status);
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "the server does not speak WebSocket there (HTTP %u)",
                        status);
}

struct seen {
    bool upgrade, connection, accept, wrong;
};

static void take_field(struct seen *seen, struct tidings_str line, const char *accept)
{
    struct tidings_str value;
    bool has_value;
    struct tidings_str name = str_cut(line, ':', &value, &has_value);
    value = str_trim(value, " \t");
    if (!has_value || name.len == 0) {
        seen->wrong = true;
    } else if (str_eq_nocase(name, STR("upgrade"))) {
        seen->upgrade = str_eq_nocase(value, STR("websocket"));
    } else if (str_eq_nocase(name, STR("connection"))) {
        seen->connection = http_list_has(value, "upgrade");
    } else if (str_eq_nocase(name, STR("sec-websocket-accept"))) {
        seen->wrong = seen->wrong || seen->accept;
        seen->accept = str_eq(value, tidings_str(accept));
    } else if (str_eq_nocase(name, STR("sec-websocket-protocol"))) {
        seen->wrong = seen->wrong || !str_eq(value, STR(WS_PROTOCOL));
    } else if (str_eq_nocase(name, STR("sec-websocket-extensions"))) {
        seen->wrong = true; /* none was offered */
    }
}

ptrdiff_t ws_client_check(struct tidings_str bytes, const char *key, struct tidings_error *err)
{
    char accept[WS_ACCEPT_BYTES];
    size_t len = head_len(bytes);
    if (len > WS_MAX_HEAD || (len == 0 && bytes.len > WS_MAX_HEAD)) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the head of the answer is too long");
    }
    if (len == 0) {
        return 0;
    }
    struct tidings_str rest = tidings_strn(bytes.ptr, len - 2); /* without the empty line */
    unsigned status = ws_client_status(rest);
    str_cut(rest, '\n', &rest, NULL);
    if (status != 101) {
        return ws_client_refuse(status, rest, err);
    }
    if (ws_write_accept(tidings_str(key), accept) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct seen seen = {0};
    while (rest.len > 0) {
        take_field(&seen, str_trim(str_cut(rest, '\n', &rest, NULL), "\r"), accept);
    }
    if (!seen.upgrade || !seen.connection || !seen.accept || seen.wrong) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the server's WebSocket handshake is wrong");
    }
    return (ptrdiff_t)len;
}

/* ---- frames ---------------------------------------------------------------------------------- */

int ws_client_put(struct buf *out, enum ws_opcode opcode, struct tidings_str payload)
{
    char header[WS_MAX_HEADER], mask[4];
    size_t len = (size_t)(ws_write_header(header, opcode, payload.len) - header);
    if (random_bytes(mask, sizeof(mask)) < 0) {
        return TIDINGS_E_IO;
    }
    header[1] = (char)((unsigned char)header[1] | 0x80u);
    int rc = buf_reserve(out, len + sizeof(mask) + payload.len);
    if (rc < 0) {
        return rc;
    }
    buf_put(out, header, len);
    buf_put(out, mask, sizeof(mask));
    char *at = out->ptr + out->len;
    buf_puts(out, payload);
    for (size_t i = 0; i < payload.len; i++) {
        at[i] = (char)(at[i] ^ mask[i & 3u]);
    }
    return 0;
}
