/* SPDX-License-Identifier: MIT
 *
 * Any lines as the output of a server to a client that calls and watches, in both eras: no message
 * makes it write invalid JSON (support/fake_transport.c), answer a question twice, or exceed its
 * memory limits. Server requests are answered in every possible way. The first byte selects the
 * responder during connection: '0' only the lines, '1' a modern server, '2' a legacy one. The line
 * "end" breaks the connection.
 */
#include <stdlib.h>

#include <tidings/question.h>

#include "client/client_internal.h"
#include "support/fake_transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define QUESTIONS 3u

static unsigned answered[QUESTIONS];
static char mode;

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void hear(struct fake *f, const char *method, int64_t id, struct json *message)
{
    (void)message;
    f->log[0] = '\0';
    if (mode == '1') {
        (void)fake_modern(f, method, id);
    } else if (mode == '2') {
        (void)fake_legacy(f, method, id);
    }
}

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                      struct tidings_str error)
{
    unsigned *count = user;
    require(++*count == 1 && (result.len > 0) == !err && (err || error.len == 0));
}

static void on_progress(void *user, double progress, double total, struct tidings_str message)
{
    (void)progress;
    (void)total;
    require(*(unsigned *)user == 0 && str_is_utf8(message));
}

static void on_update(void *user, const struct tidings_update *u)
{
    (void)user;
    require(u->uri.len > 0 && u->kind <= TIDINGS_CHANGE_MOVED && u->params.ptr[0] == '{' &&
            u->subscription);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    (void)user;
    require(e->state <= TIDINGS_STATE_GAP);
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    (void)user;
    require(method.len > 0 && params.len > 0);
}

static struct tidings_question *kept; /* answered after the next one */

/* In every way there is, one after the other. */
static void on_question(void *user, struct tidings_question *q)
{
    static unsigned turn;
    (void)user;
    require(tidings_question_params(q).ptr[0] != '\0' && kept != q);
    switch (turn++ % 4) {
    case 0:
        if (tidings_question_accept(q, TIDINGS_STR("{}"), NULL) < 0) {
            tidings_question_refuse(q, NULL);
        }
        break;
    case 1:
        tidings_question_decline(q);
        break;
    case 2:
        if (tidings_question_answer(q, TIDINGS_STR("{\"roots\":[]}"), NULL) < 0) {
            tidings_question_cancel(q);
        }
        break;
    default:
        if (kept) {
            tidings_question_cancel(kept);
        }
        kept = q;
    }
}

static void on_withdrawn(void *user, struct tidings_question *q)
{
    (void)user;
    require(q == kept);
    kept = NULL;
}

/* Until nothing more happens by itself. */
static void run_until_idle(struct tidings_client *c, struct fake *f)
{
    for (int i = 0; i < 8; i++) {
        int rc = tidings_client_step(c, 0, NULL);
        require(rc <= 1 && c->event_count <= CLIENT_MAX_EVENTS);
        if (list_empty(&f->said) && list_empty(&c->events) && i > 1) {
            break;
        }
    }
}

static struct tidings_client *begin(struct fake *f)
{
    struct tidings_client_options o = {.max_bytes = 4096, .retry_min_ms = 1, .retry_max_ms = 1};
    struct tidings_subscribe_options on = {.fn = on_update};
    struct tidings_client *c = fake_client(f, hear, NULL, &o);
    struct tidings_question_handlers handlers = {.on_form = on_question,
                                                 .on_url = on_question,
                                                 .on_sampling = on_question,
                                                 .on_roots = on_question,
                                                 .on_withdrawn = on_withdrawn};
    kept = NULL;
    require(tidings_client_on_question(c, &handlers, NULL) == 0);
    tidings_client_on_state(c, on_state, NULL);
    tidings_client_on_notification(c, on_notification, NULL);
    require(tidings_client_subscribe(c, "x:/a/", &on, NULL) &&
            tidings_client_subscribe(c, "x:/{b}", &on, NULL) &&
            tidings_client_subscribe(c, "x:/*.c", &on, NULL));
    for (unsigned i = 0; i < QUESTIONS; i++) {
        struct tidings_client_asking a = {.method = i == 0 ? "tools/call" : "q",
                                          .on_answer = on_answer,
                                          .on_progress = on_progress,
                                          .user = &answered[i]};
        answered[i] = 0;
        require(tidings_client_ask(c, &a, NULL) > 0);
    }
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake f;
    if (size == 0 || size > 8192) {
        return 0;
    }
    mode = (char)data[0];
    struct tidings_str rest = tidings_strn((const char *)data + 1, size - 1);
    struct tidings_client *c = begin(&f);
    run_until_idle(c, &f);
    while (rest.len > 0) {
        struct tidings_str line = str_cut(rest, '\n', &rest, NULL);
        char *text = str_eq(line, STR("end")) ? NULL : str_dup(line);
        if (c->is_open) {
            fake_say(&f, text);
        }
        tidings_free(text);
        run_until_idle(c, &f);
    }
    tidings_client_destroy(c);
    return 0;
}
