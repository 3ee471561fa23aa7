/* SPDX-License-Identifier: MIT */
#include "core/shown.h"

#include "base/seal.h"
#include "core/core.h"
#include "core/hub.h"

#define PURPOSE STR("cursor")
#define NONE STR("-") /* nothing could be sealed: who comes back with it reads again */

static bool is_equal(const struct log_cursor *a, const struct log_cursor *b)
{
    return a->epoch == b->epoch && a->seq == b->seq && a->has_position == b->has_position &&
           a->position == b->position;
}

struct tidings_str shown_seal(struct core *core, const struct principal *who,
                              const struct log_cursor *cursor)
{
    struct shown_cursor *last = &core->shown;
    if (access_is_full(who)) {
        return STR_EMPTY;
    }
    if (!last->is_valid || !is_equal(&last->cursor, cursor)) {
        char plain[CURSOR_TEXT];
        struct buf out;
        buf_init(&out, CURSOR_SEALED);
        if (seal_put(&out, hub_seal(core->hub), PURPOSE, cursor_print(cursor, plain)) < 0) {
            buf_deinit(&out);
            return NONE;
        }
        last->cursor = *cursor;
        last->len = out.len;
        last->is_valid = true;
        memcpy(last->text, out.ptr, out.len);
        buf_deinit(&out);
    }
    return tidings_strn(last->text, last->len);
}

struct tidings_str shown_cursor(struct core *core, const struct principal *who,
                                const struct log_cursor *cursor, char out[CURSOR_TEXT])
{
    struct tidings_str sealed = shown_seal(core, who, cursor);
    return sealed.len > 0 ? sealed : cursor_print(cursor, out);
}

bool shown_open(const struct core *core, const struct principal *who, struct tidings_str text,
                struct log_cursor *ret)
{
    if (cursor_parse(text, ret)) {
        return access_is_full(who);
    }
    struct buf plain;
    buf_init(&plain, CURSOR_SEALED);
    bool good = text.len <= CURSOR_SEALED &&
                seal_open(&plain, hub_seal(core->hub), PURPOSE, text) == 0 &&
                cursor_parse(buf_str(&plain), ret);
    buf_deinit(&plain);
    return good;
}
