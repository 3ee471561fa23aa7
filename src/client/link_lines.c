/* SPDX-License-Identifier: MIT
 *
 * A message per line, over any carrier: TCP, TLS, Unix sockets, a launched program.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/carrier.h"
#include "wire/line.h"

struct lines_link {
    struct link base;
    struct carrier *carrier;
    struct line_reader reader;
};

static struct lines_link *lines_of(struct link *l)
{
    return (struct lines_link *)(void *)l;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void on_open(void *user)
{
    struct lines_link *l = user;
    link_opened(l->base.client);
}

static void fail(struct lines_link *l, int code, const char *text)
{
    struct tidings_error why;
    tidings_fail(&why, code, "%s", text);
    carrier_close(l->carrier);
    link_lost(l->base.client, &why);
}

static void on_bytes(void *user, struct tidings_str bytes)
{
    struct lines_link *l = user;
    struct tidings_str line;
    if (line_reader_feed(&l->reader, bytes.ptr, bytes.len) < 0) {
        fail(l, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    enum line_result result = LINE_READY;
    while (l->carrier->is_open && (result = line_reader_next(&l->reader, &line)) == LINE_READY) {
        link_message(l->base.client, line, 0, 0);
    }
    if (l->carrier->is_open && result == LINE_TOO_LONG) {
        fail(l, TIDINGS_E_LIMIT, "a message of the server is too large");
    }
    link_heard(l->base.client, 0, false);
}

static void on_end(void *user, const struct tidings_error *why)
{
    struct lines_link *l = user;
    struct tidings_str line;
    /* A last line may lack its end. */
    if (l->base.client->is_open && line_reader_finish(&l->reader, &line) == LINE_READY) {
        link_message(l->base.client, line, 0, 0);
    }
    link_lost(l->base.client, why);
}

static const struct carrier_events events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_end = on_end};

/* ---- out ------------------------------------------------------------------------------------- */

static int lines_open(struct link *base, struct tidings_error *err)
{
    struct lines_link *l = lines_of(base);
    line_reader_deinit(&l->reader);
    line_reader_init(&l->reader, base->client->settings.max_bytes);
    return carrier_open(l->carrier, err);
}

static int lines_send(struct link *base, const struct link_message *m, struct tidings_error *err)
{
    struct lines_link *l = lines_of(base);
    struct tidings_error none = {0};
    int rc = carrier_send(l->carrier, m->text, err);
    rc = rc == 0 ? carrier_send(l->carrier, STR("\n"), err) : rc;
    if (rc == 0 && m->is_tracked) {
        link_delivered(base->client, &none);
    }
    return rc;
}

static void lines_forget(struct link *base, int64_t id, bool is_answered)
{
    (void)base;
    (void)id;
    (void)is_answered;
}

static void lines_close(struct link *base)
{
    carrier_close(lines_of(base)->carrier);
}

static bool lines_leave(struct link *base)
{
    return carrier_leave(lines_of(base)->carrier);
}

static void lines_destroy(struct link *base)
{
    struct lines_link *l = lines_of(base);
    carrier_destroy(l->carrier);
    line_reader_deinit(&l->reader);
    mem_free(l);
}

#define LINES_OPS(name)                                                                            \
    {                                                                                              \
        .transport = (name), .open = lines_open, .send = lines_send, .forget = lines_forget,       \
        .close = lines_close, .leave = lines_leave, .destroy = lines_destroy,                      \
    }
static const struct link_ops lines_ops = LINES_OPS("lines");
static const struct link_ops stdio_ops = LINES_OPS("stdio");

static struct link *create(struct carrier *carrier, const struct link_ops *ops,
                           struct tidings_error *err)
{
    struct lines_link *l = carrier ? mem_zalloc(sizeof(*l)) : NULL;
    if (!l) {
        if (carrier) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        carrier_destroy(carrier);
        return NULL;
    }
    l->base = (struct link){.ops = ops, .client = carrier->client};
    l->carrier = carrier;
    carrier->events = &events;
    carrier->user = l;
    line_reader_init(&l->reader, carrier->client->settings.max_bytes);
    return &l->base;
}

struct link *link_lines_create(struct tidings_client *c, const char *url, const char *unix_path,
                               struct tidings_error *err)
{
    struct tunnel_address address = {.url = url, .unix_path = unix_path, .no_proxy = true};
    return create(tunnel_create(c, &address, err), &lines_ops, err);
}

struct link *link_child_create(struct tidings_client *c, char **argv, struct tidings_error *err)
{
    return create(child_create(c, argv, err), &stdio_ops, err);
}
