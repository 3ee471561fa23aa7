/* SPDX-License-Identifier: MIT
 *
 * WebSocket: the handshake (RFC 6455 §4.2) and frames out (§5.2).
 */
#include "wire/ws.h"

#include "base/sha1.h"

#define KEY_BYTES 16u
#define KEY_TEXT_BYTES 24u /* of those, in base64 */

/* ---- handshake ------------------------------------------------------------------------------- */

/* The field may come several times: then its lists count as one. */
static bool any_has(const struct http_request *req, struct tidings_str name, const char *token)
{
    for (unsigned i = 0; i < req->header_count; i++) {
        if (str_eq_nocase(req->headers[i].name, name) &&
            http_list_has(req->headers[i].value, token)) {
            return true;
        }
    }
    return false;
}

bool ws_is_upgrade(const struct http_request *req)
{
    return any_has(req, STR("upgrade"), "websocket");
}

/* 16 bytes in base64, once. */
static bool is_key(struct tidings_str key, unsigned count)
{
    struct buf bytes;
    buf_init(&bytes, KEY_BYTES);
    bool ok = count == 1 && key.len == KEY_TEXT_BYTES && base64_decode(&bytes, key) == 0 &&
              bytes.len == KEY_BYTES;
    buf_deinit(&bytes);
    return ok;
}

int ws_write_accept(struct tidings_str key, char out[WS_ACCEPT_BYTES])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* §1.3 */
    char text[KEY_TEXT_BYTES + sizeof(guid) - 1];
    unsigned char digest[SHA1_BYTES];
    memcpy(text, key.ptr, KEY_TEXT_BYTES);
    memcpy(text + KEY_TEXT_BYTES, guid, sizeof(guid) - 1);
    sha1(tidings_strn(text, sizeof(text)), digest);
    struct buf accept;
    buf_init(&accept, WS_ACCEPT_BYTES);
    int rc = base64_put(&accept, tidings_strn((const char *)digest, sizeof(digest)));
    if (rc == 0) {
        memcpy(out, accept.ptr, accept.len + 1);
    }
    buf_deinit(&accept);
    return rc;
}

/* Names of subprotocols are compared as they are, letter case included. */
static bool offers_ours(const struct http_request *req, bool *offers_any)
{
    bool found = false;
    *offers_any = false;
    for (unsigned i = 0; i < req->header_count; i++) {
        struct tidings_str list = req->headers[i].value;
        if (!str_eq_nocase(req->headers[i].name, STR("sec-websocket-protocol"))) {
            continue;
        }
        *offers_any = true;
        while (list.len > 0) {
            struct tidings_str name = str_trim(str_cut(list, ',', &list, NULL), " \t");
            found = found || str_eq(name, STR(WS_PROTOCOL));
        }
    }
    return found;
}

int ws_check_handshake(const struct http_request *req, struct ws_handshake *ret, const char **why)
{
    unsigned count = 0;
    bool offers_any = false;
    *ret = (struct ws_handshake){0};
    if (req->method != HTTP_GET || req->minor == 0) {
        *why = "a WebSocket begins with GET in HTTP/1.1";
        return 400;
    }
    if (!any_has(req, STR("connection"), "upgrade")) {
        *why = "a WebSocket needs Connection: Upgrade beside Upgrade: websocket";
        return 400;
    }
    if (req->chunked || req->content_length > 0) {
        *why = "the request that begins a WebSocket has no body";
        return 400;
    }
    struct tidings_str version = http_header(req, "sec-websocket-version", &count);
    if (count != 1 || !str_eq(version, STR("13"))) {
        *why = "the version of WebSocket spoken here is 13; see Sec-WebSocket-Version";
        return 426;
    }
    struct tidings_str key = http_header(req, "sec-websocket-key", &count);
    if (!is_key(key, count)) {
        *why = "Sec-WebSocket-Key must be there once: 16 bytes in base64";
        return 400;
    }
    ret->names_protocol = offers_ours(req, &offers_any);
    if (offers_any && !ret->names_protocol) {
        *why = "of the protocols in Sec-WebSocket-Protocol none is spoken here; offer mcp, or none";
        return 400;
    }
    if (ws_write_accept(key, ret->accept) < 0) {
        *why = "out of memory";
        return 503;
    }
    return 0;
}

/* ---- frames out ------------------------------------------------------------------------------ */

size_t ws_header_len(uint64_t payload_len)
{
    return payload_len <= WS_MAX_CONTROL ? 2 : payload_len <= UINT16_MAX ? 4 : WS_MAX_HEADER;
}

char *ws_write_header(char *at, enum ws_opcode opcode, uint64_t payload_len)
{
    size_t len = ws_header_len(payload_len);
    at[0] = (char)(0x80u | (unsigned)opcode); /* final, no reserved bits */
    at[1] = (char)(len == 2 ? payload_len : len == 4 ? 126 : 127);
    for (size_t i = 2; i < len; i++) {
        at[i] = (char)(payload_len >> 8 * (len - 1 - i) & 0xff);
    }
    return at + len;
}

size_t ws_write_close(char out[2 + WS_MAX_CONTROL], unsigned code, struct tidings_str reason)
{
    if (code == WS_NO_CODE) {
        return (size_t)(ws_write_header(out, WS_OP_CLOSE, 0) - out);
    }
    size_t room = WS_MAX_CONTROL - 2;
    size_t len = reason.len < room ? reason.len : room;
    while (len > 0 && !str_is_utf8(tidings_strn(reason.ptr, len))) {
        len--;
    }
    char *at = ws_write_header(out, WS_OP_CLOSE, 2 + len);
    *at++ = (char)(code >> 8 & 0xff);
    *at++ = (char)(code & 0xff);
    if (len > 0) {
        memcpy(at, reason.ptr, len);
    }
    return (size_t)(at + len - out);
}
