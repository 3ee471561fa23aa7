/* SPDX-License-Identifier: MIT
 *
 * The tools `publish` and `unpublish` for a resource of a provider that clients may write:
 * entities, a provider of the program. It is written as by PUT and DELETE over HTTP.
 */
#include <tidings/tool.h>

#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/provider.h"
#include "catalog/resource_io.h"
#include "handler/call.h"
#include "server/server_private.h"

struct publish_write {
    struct tidings_call *call;
    struct resource_io io;
    struct buf uri, content, metadata; /* copies: what the caller has goes when it returns */
    published_done_fn done;
};

bool server_publish_is_writable(struct tidings_server *s, const struct tidings_call *call,
                                struct tidings_str uri)
{
    struct arena arena;
    struct catalog_hit hit = {0};
    struct buf canonical;
    struct catalog *catalog = call->base.worker->catalog;
    buf_init(&canonical, URI_MAX * 3);
    arena_init(&arena, URI_MAX * 4);
    bool is_it = catalog_canonical(catalog, uri, false, &canonical, NULL) == 0 &&
                 !server_publish_has(s, buf_str(&canonical)) &&
                 catalog_find(catalog, buf_str(&canonical), &arena, &hit) && hit.provider &&
                 hit.provider->ops->write;
    arena_deinit(&arena);
    buf_deinit(&canonical);
    return is_it;
}

static void publish_write_on_done(struct resource_io *io)
{
    struct publish_write *w = io->user;
    struct tidings_call *call = w->call;
    published_done_fn done = w->done;
    struct tidings_error err = io->err;
    char etag[256] = "";
    int rc = io->code < 0 ? io->code : io->code == 1;
    if (io->etag.len < sizeof(etag)) {
        memcpy(etag, io->etag.ptr ? io->etag.ptr : "", io->etag.len);
        etag[io->etag.len] = '\0';
    }
    resource_io_deinit(io);
    buf_deinit(&w->uri);
    buf_deinit(&w->content);
    buf_deinit(&w->metadata);
    mem_free(w);
    done(call, rc, etag, &err);
}

static void publish_write_on_cancel(void *user, struct tidings_call *call)
{
    struct publish_write *w = user;
    (void)call;
    resource_io_cancel(&w->io);
}

void server_publish_write_then(struct tidings_call *call, const struct publication *p,
                               bool is_removal, published_done_fn done)
{
    struct tidings_error err;
    struct publish_write *w = mem_zalloc(sizeof(*w));
    if (!w) {
        done(call, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), "", &err);
        return;
    }
    w->call = call;
    w->done = done;
    buf_init(&w->uri, p->about.uri.len + 1);
    buf_init(&w->content, p->content.len + 1);
    buf_init(&w->metadata, p->metadata.len + 1);
    buf_puts(&w->uri, p->about.uri);
    buf_puts(&w->content, p->content);
    buf_puts(&w->metadata, p->metadata);
    resource_io_init(&w->io, call->base.worker, publish_write_on_done, w);
    w->io.principal = call->principal;
    w->io.spelled = buf_str(&w->uri);
    w->io.bytes = buf_str(&w->content);
    w->io.mime_type = p->about.mime_type;
    w->io.metadata = buf_str(&w->metadata);
    w->io.traceparent = p->traceparent;
    w->io.if_match = p->if_match;
    w->io.if_absent = p->if_absent;
    w->io.allowance = call->allowance ? allowance_ref(call->allowance) : NULL;
    tidings_call_on_cancel(call, publish_write_on_cancel, w);
    resource_io_start(&w->io, is_removal ? RESOURCE_IO_REMOVE : RESOURCE_IO_WRITE);
}
