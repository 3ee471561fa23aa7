/* SPDX-License-Identifier: MIT
 *
 * /livez and /readyz beside the endpoint: for balancers and supervisors, so nobody is asked for a
 * token. Why it is not ready is said in a word, and in a sentence to those on this machine.
 */
#include "transport/http_private.h"
#include "transport/peer_identity.h"

#define LIVE_PATH "/livez"
#define READY_PATH "/readyz"
#define HEALTH_MAX 512u

bool health_is_at(const struct http_config *config, struct tidings_str path)
{
    return config->health && (str_eq(path, STR(LIVE_PATH)) || str_eq(path, STR(READY_PATH)));
}

void conn_run_health(struct http_conn *conn, const struct http_request *req)
{
    const struct http_config *config = conn->hw->config;
    const struct response_headers headers = {.extra = STR("Cache-Control: no-store\r\n")};
    struct channel_facts facts;
    char said[HEALTH_MAX];
    struct buf text;
    channel_get_facts(&conn->channel, &facts);
    int status = config->health(config->health_user, str_eq(req->path, STR(LIVE_PATH)),
                                facts.is_local, said, sizeof(said));
    buf_init(&text, sizeof(said));
    buf_puts(&text, tidings_str(said));
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}
