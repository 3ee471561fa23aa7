/* SPDX-License-Identifier: MIT
 *
 * Which link an address stands for.
 */
#include "client/private.h"

static bool is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) {
            return false;
        }
    }
    return s.len > 0 && s.len <= 4096;
}

struct link *link_create(struct tidings_client *c, const char *address, struct tidings_error *err)
{
    struct tidings_str s = tidings_str(address);
    if (is_visible(s) && (str_starts(s, STR("http://")) || str_starts(s, STR("https://")))) {
        return link_http_create(c, address, NULL, err);
    }
    if (str_starts(s, STR("http+unix:")) && s.len > 10 && s.len < 4096) {
        return link_http_create(c, "http://localhost/mcp", address + 10, err);
    }
    tidings_fail(err, TIDINGS_E_INVALID,
                 "'%.80s' is not the address of a server (accepted: http://… or https://…, such as "
                 "http://127.0.0.1:7777/mcp)",
                 s.ptr ? s.ptr : "");
    return NULL;
}
