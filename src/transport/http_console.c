/* SPDX-License-Identifier: MIT
 *
 * GET /console: the page of the console, the same for everybody. It needs no token, since a browser
 * has none to send when it opens a page and nothing of the server is in it; what the page then asks
 * for is asked like anything else.
 */
#include "transport/http_private.h"

void conn_run_console(struct http_conn *conn)
{
    const struct http_config *config = conn->hw->config;
    struct buf fields, page;
    buf_init(&fields, 4096);
    buf_init(&page, config->console_page.len + 1);
    http_put_header(&fields, "Content-Security-Policy", config->console_policy);
    buf_puts(&fields, STR("X-Content-Type-Options: nosniff\r\n"
                          "Referrer-Policy: no-referrer\r\n"
                          "Cross-Origin-Opener-Policy: same-origin\r\n"
                          "Cache-Control: no-cache\r\n"));
    buf_puts(&page, config->console_page);
    const struct response_headers headers = {.extra = buf_str(&fields)};
    if (fields.failed || page.failed) {
        conn_refuse(conn, 503, "out of memory");
    } else {
        conn_answer(conn, 200, &headers, STR("text/html; charset=utf-8"), &page);
    }
    buf_deinit(&page);
    buf_deinit(&fields);
}
