/* SPDX-License-Identifier: MIT
 *
 * Asks a server for its log and tells the program.
 */
#include "client/server_log.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/json_text.h"
#include "client/state.h"

#define LEVEL_KEY "io.modelcontextprotocol/logLevel"

/* By enum tidings_log_level. */
static const char *const server_log_levels[] = {"debug", "info",     "notice", "warning",
                                                "error", "critical", "alert",  "emergency"};

int tidings_client_on_log(struct tidings_client *c, enum tidings_log_level least,
                          tidings_client_log_fn fn, void *user, struct tidings_error *err)
{
    int rc = client_check(c, err);
    if (rc < 0) {
        return rc;
    }
    if ((unsigned)least > TIDINGS_LOG_OFF) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no level %d of a log", (int)least);
    }
    if (c->is_open || c->has_info) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "whether a client wants the server's log is said before it connects");
    }
    c->on_log = least == TIDINGS_LOG_OFF ? NULL : fn;
    c->log_user = user;
    c->log_least = least;
    return 0;
}

bool server_log_is_asked(const struct tidings_client *c, char params[SERVER_LOG_PARAMS])
{
    if (!c->on_log || !c->can_log || c->era != TIDINGS_ERA_LEGACY || c->is_resumed) {
        return false; /* the level is the session's */
    }
    snprintf(params, SERVER_LOG_PARAMS, "{\"level\":\"%s\"}", server_log_levels[c->log_least]);
    return true;
}

void server_log_put_level(const struct tidings_client *c, const struct json *meta, struct jw *w)
{
    if (c->on_log && c->era != TIDINGS_ERA_LEGACY && !jv_get(meta, LEVEL_KEY)) {
        jw_put_string(w, STR(LEVEL_KEY), tidings_str(server_log_levels[c->log_least]));
    }
}

void server_log_received(struct tidings_client *c, struct json *params)
{
    struct tidings_str level = jv_str(jv_get(params, "level"));
    unsigned at = 0;
    while (at < TIDINGS_LOG_OFF && !str_eq(level, tidings_str(server_log_levels[at]))) {
        at++;
    }
    if (!c->on_log || at == TIDINGS_LOG_OFF || at < c->log_least || client_is_stopping(c)) {
        return;
    }
    struct json *data = jv_get(params, "data");
    char *text = data ? json_text_of(c, data, NULL) : NULL;
    c->on_log(c->log_user, (enum tidings_log_level)at, jv_str(jv_get(params, "logger")),
              tidings_str(text ? text : "null"));
    mem_free(text);
}
