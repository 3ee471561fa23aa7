/* SPDX-License-Identifier: MIT
 *
 * Which transport an address stands for.
 */
#include "base/mem.h"
#include "client/state.h"

static bool transport_address_is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) {
            return false;
        }
    }
    return s.len > 0 && s.len <= 4096;
}

static void transport_address_refuse(const char *address, struct tidings_error *err)
{
    tidings_fail(err, TIDINGS_E_INVALID,
                 "'%.60s' is not the address of a server (accepted: http://…, https://…, ws://…, "
                 "wss://…, tcp://HOST:PORT, tls://HOST:PORT, unix:PATH, http+unix:PATH)",
                 address ? address : "");
}

/* "host", "host:1", "[::1]:1": nothing that could be more than that. */
static bool is_authority(struct tidings_str s, bool with_port)
{
    ptrdiff_t colon = -1;
    bool in_brackets = false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '@' || s.ptr[i] == '?' || s.ptr[i] == '#' || s.ptr[i] == '/') {
            return false;
        }
        in_brackets = s.ptr[i] == '[' || (in_brackets && s.ptr[i] != ']');
        colon = s.ptr[i] == ':' && !in_brackets ? (ptrdiff_t)i : colon;
    }
    uint64_t port;
    bool has_port =
        colon > 0 && str_to_u64(str_skip(s, (size_t)colon + 1), &port) && port > 0 && port <= 65535;
    return s.len > 0 && (has_port || (colon < 0 && !with_port));
}

/* http:// or https:// for the same authority; NULL: out of memory. */
static char *web_url(bool is_secure, struct tidings_str authority)
{
    struct buf url;
    buf_init(&url, 8192);
    buf_puts(&url, is_secure ? STR("https://") : STR("http://"));
    buf_puts(&url, authority);
    buf_putc(&url, '/');
    if (url.failed) {
        buf_deinit(&url);
    }
    return buf_detach(&url, NULL);
}

static struct transport *create_lines(struct tidings_client *c, const char *address,
                                      struct tidings_error *err)
{
    struct tidings_str authority = tidings_str(address + 6); /* tcp:// and tls:// */
    if (!is_authority(authority, true)) {
        transport_address_refuse(address, err);
        return NULL;
    }
    char *url = web_url(address[1] == 'l', authority);
    struct transport *l = url ? transport_lines_create(c, url, NULL, err) : NULL;
    if (!url) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mem_free(url);
    return l;
}

static struct transport *create_websocket(struct tidings_client *c, const char *address,
                                          bool is_secure, struct tidings_error *err)
{
    struct tidings_str rest = tidings_str(address + (is_secure ? 6 : 5));
    size_t end = 0;
    while (end < rest.len && !strchr("/?#", rest.ptr[end])) {
        end++;
    }
    struct tidings_str authority = tidings_strn(rest.ptr, end);
    struct tidings_str path = str_skip(rest, end);
    if (!is_authority(authority, false) || (path.len > 0 && path.ptr[0] != '/') ||
        str_find(path, '#') >= 0) {
        transport_address_refuse(address, err);
        return NULL;
    }
    char *url = web_url(is_secure, authority);
    struct transport *l = url ? transport_ws_create(c, url, authority, path, err) : NULL;
    if (!url) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mem_free(url);
    return l;
}

struct transport *transport_create(struct tidings_client *c, const char *address,
                                   struct tidings_error *err)
{
    struct tidings_str s = tidings_str(address);
    if (str_starts(s, STR("http+unix:")) && s.len > 10 && s.len < 4096) {
        return transport_http_create(c, "http://localhost/mcp", address + 10, err);
    }
    if (str_starts(s, STR("unix:")) && s.len > 5 && s.len < 4096) {
        return transport_lines_create(c, "http://localhost/", address + 5, err);
    }
    if (!transport_address_is_visible(s)) {
        transport_address_refuse(address, err);
        return NULL;
    }
    if (str_starts(s, STR("http://")) || str_starts(s, STR("https://"))) {
        return transport_http_create(c, address, NULL, err);
    }
    if (str_starts(s, STR("ws://")) || str_starts(s, STR("wss://"))) {
        return create_websocket(c, address, s.ptr[2] == 's', err);
    }
    if (str_starts(s, STR("tcp://")) || str_starts(s, STR("tls://"))) {
        return create_lines(c, address, err);
    }
    transport_address_refuse(address, err);
    return NULL;
}
