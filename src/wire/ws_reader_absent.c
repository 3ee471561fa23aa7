/* SPDX-License-Identifier: MIT
 *
 * In place of ws_reader.c where wslay was not there at build time.
 */
#include "base/error.h"
#include "wire/ws.h"

struct ws_reader *ws_reader_create(size_t max_message, struct tidings_error *err)
{
    (void)max_message;
    tidings_fail(err, TIDINGS_E_UNSUPPORTED, "WebSocket was left out of this build (no wslay)");
    return NULL;
}

struct ws_reader *ws_reader_create_client(size_t max_message, struct tidings_error *err)
{
    return ws_reader_create(max_message, err);
}

void ws_reader_destroy(struct ws_reader *r)
{
    (void)r;
}

void ws_reader_feed(struct ws_reader *r, const char *bytes, size_t len)
{
    (void)r;
    (void)bytes;
    (void)len;
}

int ws_reader_keep(struct ws_reader *r)
{
    (void)r;
    return 0;
}

enum ws_event ws_reader_next(struct ws_reader *r, struct ws_message *ret)
{
    (void)r;
    (void)ret;
    return WS_MORE;
}

bool ws_reader_has_grown(struct ws_reader *r, size_t step)
{
    (void)r;
    (void)step;
    return false;
}

size_t ws_reader_size(const struct ws_reader *r)
{
    (void)r;
    return 0;
}

bool ws_reader_is_idle(const struct ws_reader *r)
{
    (void)r;
    return true;
}
