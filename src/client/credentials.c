/* SPDX-License-Identifier: MIT
 *
 * Asks the program's credentials what to show.
 */
#include "client/credentials.h"

#include <strings.h>

#include "client/state.h"
#include "client/subscriptions.h"

#define CREDENTIALS_LINE_MAX 65536u

void credentials_lines_init(struct credentials_lines *l)
{
    l->count = 0;
    l->server = NULL;
    for (size_t i = 0; i < CREDENTIALS_LINES; i++) {
        buf_init_secret(&l->lines[i], CREDENTIALS_LINE_MAX);
    }
}

void credentials_lines_deinit(struct credentials_lines *l)
{
    for (size_t i = 0; i < CREDENTIALS_LINES; i++) {
        buf_deinit(&l->lines[i]);
    }
    l->count = 0;
}

static int credentials_put(void *to, const char *line)
{
    struct credentials_lines *l = to;
    const char *colon = strchr(line, ':');
    if (!colon || colon == line) {
        return TIDINGS_E_INVALID;
    }
    for (const char *p = line; *p; p++) { /* nothing that would begin another header */
        if (*p > '~' || *p < ' ' || (p < colon && *p == ' ')) {
            return TIDINGS_E_INVALID;
        }
    }
    if (l->count == CREDENTIALS_LINES) {
        return TIDINGS_E_LIMIT;
    }
    buf_clear(&l->lines[l->count]);
    int rc = buf_puts(&l->lines[l->count], tidings_str(line));
    l->count += rc == 0;
    return rc;
}

int credentials_lines_fill(struct credentials_lines *l, const struct client_settings *s,
                           const char *method, const char *url)
{
    const struct tidings_credentials *c = s->credentials;
    l->count = 0;
    if (c) {
        struct tidings_credentials_request request = {
            .method = method, .url = url, .server = l->server};
        return c->show ? c->show(c->user, &request, credentials_put, l) : 0;
    }
    buf_clear(&l->lines[0]);
    settings_put_token(s, &l->lines[0]);
    l->count = l->lines[0].len > 0;
    return l->lines[0].failed;
}

bool credentials_lines_renew(struct credentials_lines *l, const struct client_settings *s)
{
    if (s->credentials || !settings_renew_token(s, &l->lines[0])) {
        return false;
    }
    l->count = 1;
    return true;
}

struct tidings_str credentials_lines_authorization(const struct credentials_lines *l)
{
    static const char name[] = "Authorization:";
    for (size_t i = 0; i < l->count; i++) {
        if (strncasecmp(l->lines[i].ptr, name, sizeof(name) - 1) == 0) {
            return buf_str(&l->lines[i]);
        }
    }
    return STR_EMPTY;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void credentials_on_ready(void *user, uint32_t events)
{
    struct tidings_client *c = user;
    const struct tidings_credentials *own = c->settings.credentials;
    (void)events;
    own->step(own->user);
    uint64_t renewals = own->renewals ? own->renewals(own->user) : 0;
    if (renewals != c->renewals) {
        c->renewals = renewals;
        subscriptions_renewed(c);
    }
}

int credentials_attach(struct tidings_client *c, struct tidings_error *err)
{
    const struct tidings_credentials *own = c->settings.credentials;
    c->credentials = (struct poller_fd){.fd = -1, .fn = credentials_on_ready, .user = c};
    if (!own || !own->fd) {
        return 0;
    }
    int rc = poller_add(&c->poller, &c->credentials, own->fd(own->user), EPOLLIN);
    return rc < 0 ? tidings_fail(err, rc, "wait for credentials: %s", tidings_code_text(rc)) : 0;
}

void credentials_detach(struct tidings_client *c)
{
    if (c->settings.credentials && c->settings.credentials->fd) {
        poller_remove(&c->poller, &c->credentials);
    }
}
