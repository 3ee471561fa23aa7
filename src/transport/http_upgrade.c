/* SPDX-License-Identifier: MIT
 *
 * The upgrade of an HTTP connection to a WebSocket: the handshake, and handing over what the
 * connection had (transport/websocket.h), with which it ends.
 */
#include "transport/http_private.h"
#include "wire/ws.h"

#define REFUSAL_MAX 4096u

static void refuse_upgrade(struct http_conn *conn, int status, const char *why)
{
    const struct response_headers headers = {
        .extra = status == 426 ? STR("Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                     "Sec-WebSocket-Version: 13\r\n")
                               : STR_EMPTY,
        .reason = tidings_str(why),
    };
    struct buf text;
    buf_init(&text, REFUSAL_MAX);
    buf_putf(&text, "%s\n", why);
    conn->r->after = AFTER_REFUSE;
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}

bool upgrade_check(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    struct tidings_error err = {0};
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    if (status == 0) {
        int rc = websocket_check_reader(conn->hw->websockets, &err);
        status = rc == 0 ? 0 : rc == TIDINGS_E_UNSUPPORTED ? 501 : 503;
        why = err.text;
    }
    if (status != 0) {
        refuse_upgrade(conn, status, why);
    }
    return status == 0;
}

void conn_run_upgrade(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    struct websocket *ws = status == 0 ? websocket_create(conn->hw->websockets) : NULL;
    if (!ws) {
        refuse_upgrade(conn, status != 0 ? status : 503, status != 0 ? why : "out of memory");
        return;
    }
    struct buf *head = &conn->hw->head;
    buf_clear(head);
    http_put_status(head, 101);
    buf_puts(head, STR("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    http_put_header(head, "Sec-WebSocket-Accept", tidings_str(handshake.accept));
    if (handshake.names_protocol) {
        http_put_header(head, "Sec-WebSocket-Protocol", STR(WS_PROTOCOL));
    }
    buf_puts(head, STR("\r\n"));
    sendq_puts(&conn->out, buf_str(head));
    conn_become_websocket(conn, ws);
}
