/* SPDX-License-Identifier: MIT
 *
 * Pages of lists: reading and writing their cursors.
 */
#include "request/page.h"

#include "base/str.h"
#include "uri/uri.h"

#define PAGE_CURSOR_MAX (URI_MAX * 8u)

bool page_read_cursor(struct request *request, const char *sources, char *ret_source,
                      struct tidings_str *ret_after)
{
    char source = sources[0];
    *ret_after = STR_EMPTY;
    struct json *given = jv_get(request->msg.params, "cursor");
    if (given && !(jv_is(given, JV_STRING) && jv_str(given).len == 0)) {
        struct buf text;
        buf_init(&text, PAGE_CURSOR_MAX);
        bool good = jv_is(given, JV_STRING) && base64url_decode(&text, jv_str(given)) == 0 &&
                    text.len > 1 && text.ptr[0] != '\0' && strchr(sources, text.ptr[0]) &&
                    str_is_utf8(buf_str(&text));
        if (good) {
            source = text.ptr[0];
            *ret_after = arena_dup(&request->arena, str_skip(buf_str(&text), 1));
            good = ret_after->ptr != NULL;
        }
        buf_deinit(&text);
        if (!good) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "params.cursor is not one this server gave out; begin again without it");
            return false;
        }
    }
    if (ret_source) {
        *ret_source = source;
    }
    return true;
}

void page_write_cursor(struct jw *w, char source, struct tidings_str last)
{
    struct buf text, coded;
    buf_init(&text, PAGE_CURSOR_MAX);
    buf_init(&coded, PAGE_CURSOR_MAX * 2);
    buf_putc(&text, source);
    buf_puts(&text, last);
    base64url_put(&coded, buf_str(&text));
    jw_put_string(w, STR("nextCursor"), buf_str(&coded));
    if (text.failed || coded.failed) {
        w->out->failed = TIDINGS_E_NOMEM; /* half a cursor is none */
    }
    buf_deinit(&text);
    buf_deinit(&coded);
}

size_t page_size(struct request *request)
{
    const struct worker_limits *limits = request->worker->limits;
    static const char *const names[] = {"pageSize", "limit"};
    for (size_t i = 0; i < 2; i++) {
        struct json *hint = jv_get(request->msg.params, names[i]);
        if (!hint) {
            continue;
        }
        if (!jv_is(hint, JV_INT) || jv_int(hint) < 1) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "params.%s must be an integer from 1 to %zu", names[i],
                         limits->max_page_size);
            return 0;
        }
        uint64_t n = (uint64_t)jv_int(hint);
        return n < limits->max_page_size ? (size_t)n : limits->max_page_size;
    }
    return limits->page_size;
}
