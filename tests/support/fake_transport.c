/* SPDX-License-Identifier: MIT
 *
 * See fake_transport.h.
 */
#include "support/fake_transport.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "support/parse_json.h"

#define EXTENSIONS "\"extensions\":{\"dev.tidings/resource-metadata\":{}}"

static struct fake *fake_of(struct transport *l)
{
    return (struct fake *)(void *)l;
}

void fake_say(struct fake *f, const char *text)
{
    struct fake_said *s = calloc(1, sizeof(*s));
    if (!s || (text && !(s->text = strdup(text)))) {
        abort();
    }
    list_append(&f->said, &s->link);
    loop_timer_start(&f->turn, 0, 0);
}

void fake_sayf(struct fake *f, const char *fmt, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0) {
        abort();
    }
    va_end(args);
    fake_say(f, text);
    free(text);
}

void fake_result(struct fake *f, int64_t id, const char *result)
{
    fake_sayf(f, "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"result\":%s}", id, result);
}

void fake_error(struct fake *f, int64_t id, int code, const char *message)
{
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64 ",\"error\":{\"code\":%d,\"message\":\"%s\"}}",
              id, code, message);
}

void fake_acknowledge(struct fake *f, int64_t id, struct json *m, const char *more)
{
    char *asked = json_text_of(f->base.client, jv_get(jv_get(m, "params"), "notifications"), NULL);
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
              "\"params\":{\"notifications\":%s,\"_meta\":"
              "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "%s}}}",
              asked, id, more);
    mem_free(asked);
}

bool fake_modern(struct fake *f, const char *method, int64_t id)
{
    if (strcmp(method, "server/discover") != 0) {
        return false;
    }
    fake_result(f, id,
                "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"resources\":"
                "{\"subscribe\":true}," EXTENSIONS "},\"instructions\":\"be kind\",\"_meta\":"
                "{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"fake\",\"version\":\"7\"}}}");
    return true;
}

bool fake_legacy(struct fake *f, const char *method, int64_t id)
{
    if (strcmp(method, "server/discover") == 0) {
        fake_error(f, id, -32601, "what?");
    } else if (strcmp(method, "initialize") == 0) {
        fake_result(f, id,
                    "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"resources\":"
                    "{\"subscribe\":true}},\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}");
    } else {
        return strcmp(method, "notifications/initialized") == 0;
    }
    return true;
}

/* ---- the transport --------------------------------------------------------------------------- */

/* One message; its reply follows all earlier ones. */
static void on_turn(struct loop_timer *timer, void *user)
{
    struct fake *f = user;
    struct fake_said *s = list_entry(f->said.next, struct fake_said, link);
    struct tidings_error why;
    (void)timer;
    list_remove(&s->link);
    if (!list_empty(&f->said)) {
        loop_timer_start(&f->turn, 0, 0);
    }
    if (s->text) {
        transport_received(&f->base, tidings_str(s->text), 0, 0);
    } else {
        tidings_fail(&why, TIDINGS_E_CLOSED, "it ended");
        transport_lost(&f->base, &why);
    }
    free(s->text);
    free(s);
}

static int fake_open(struct transport *l, struct tidings_error *err)
{
    (void)err;
    fake_of(l)->opened++;
    transport_opened(l);
    return 0;
}

static int fake_send(struct transport *l, const struct transport_message *m,
                     struct tidings_error *err)
{
    struct fake *f = fake_of(l);
    struct json *root = NULL;
    char method[128];
    size_t len = strlen(f->log);
    if (parse_json(m->text, &root, err) < 0) {
        abort(); /* the client writes JSON, whatever happens */
    }
    snprintf(method, sizeof(method), "%s", m->method ? m->method : "");
    snprintf(f->log + len, sizeof(f->log) - len, "%s %" PRId64 "\n", method, m->id);
    f->fn(f, method, m->id, root);
    jv_unref(root);
    if (m->is_tracked) {
        struct tidings_error none = {0};
        transport_delivered(l, &none);
    }
    return 0;
}

static void fake_forget(struct transport *l, int64_t id, bool is_answered)
{
    (void)l;
    (void)id;
    (void)is_answered;
}

static void fake_close(struct transport *l)
{
    struct fake *f = fake_of(l);
    loop_timer_stop(&f->turn);
    list_each (it, next, &f->said) {
        struct fake_said *s = list_entry(it, struct fake_said, link);
        list_remove(it);
        free(s->text);
        free(s);
    }
}

static bool fake_leave(struct transport *l)
{
    (void)l;
    return true;
}

static const struct transport_ops ops = {
    .name = "fake",
    .open = fake_open,
    .send = fake_send,
    .forget = fake_forget,
    .close = fake_close,
    .leave = fake_leave,
    .destroy = fake_close,
};

struct tidings_client *fake_client(struct fake *f, fake_fn fn, void *user,
                                   const struct tidings_client_options *options)
{
    return fake_client_on(NULL, f, fn, user, options);
}

struct tidings_client *fake_client_on(const struct client_host *host, struct fake *f, fake_fn fn,
                                      void *user, const struct tidings_client_options *options)
{
    static const char *const nothing[] = {"nothing", NULL};
    struct tidings_client *c = client_launch_on(host, nothing, options, NULL);
    if (!c) {
        return NULL;
    }
    const struct transport_events *events = c->transport->events;
    c->transport->ops->destroy(c->transport);
    *f =
        (struct fake){.base = {.ops = &ops, .events = events, .client = c}, .fn = fn, .user = user};
    list_init(&f->said);
    loop_timer_init(&f->turn, c->loop, on_turn, f);
    c->transport = &f->base;
    return c;
}
