/* SPDX-License-Identifier: MIT
 *
 * resources/read: find, ask, and say in the result's `_meta` how new the answer is and whether the
 * client held it already. What may be asked is in catalog/read_options.h, what happens to the
 * contents in catalog/job_read.h.
 */
#include <stdio.h>

#include "access/access.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "protocol/method.h"
#include "uri/uri.h"

struct reading {
    struct tidings_read read;
    struct read_options options;
    struct catalog_hit hit;
};

static void write_meta(struct call *call, const struct tidings_read *read)
{
    char version[64];
    if (access_is_full(call->who)) { /* it counts everything */
        snprintf(version, sizeof(version), "%llx.%llu", (unsigned long long)call->core->epoch,
                 (unsigned long long)read->version);
        jw_put_string(&call->w, STR("dev.tidings/version"), tidings_str(version));
    }
    if (read->unchanged) {
        jw_put_bool(&call->w, STR("dev.tidings/unchanged"), true);
        jw_put_string(&call->w, STR("dev.tidings/etag"), read->held);
    }
}

static void read_done(struct request *request)
{
    struct call *call = request->user;
    struct tidings_read *read = list_entry(request, struct tidings_read, base);
    call_asked(call);
    if (request->code < 0) {
        call_fail_request(call, request, read->spelled, read->reason);
        return;
    }
    jw_end_array(&call->w);
    call_begin_meta(call, read->is_final ? CACHE_HOUR : CACHE_NOW);
    write_meta(call, read);
    call_end_meta(call);
}

void method_resources_read(struct call *call)
{
    struct json *param = jv_get(call->msg.params, "uri");
    if (!jv_is(param, JV_STRING)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.uri must be a string");
        return;
    }
    struct tidings_str spelled = jv_str(param);
    struct buf canonical;
    struct tidings_error err;
    buf_init(&canonical, URI_MAX * 3);
    int rc = catalog_canonical(call->core->catalog, spelled, false, &canonical, &err);
    struct tidings_str uri = rc < 0 ? STR_EMPTY : arena_dup(&call->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    struct reading *r = arena_alloc(&call->arena, sizeof(*r));
    if (rc == 0 && (!uri.ptr || !r)) {
        rc = tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = read_options_parse(&r->options, jv_get(call->msg.params, "_meta"), &err);
    }
    if (rc < 0) {
        call_fail_err(call, &err, spelled);
        return;
    }
    if (!access_allows(call->who, ACCESS_READ, uri) ||
        !catalog_find(call->core->catalog, uri, &call->arena, &r->hit)) {
        call_fail(call, TIDINGS_E_NOTFOUND, spelled, "resource not found");
        return;
    }
    struct tidings_read *read = &r->read;
    request_init(&read->base, call->core, read_done, call, uri);
    read->w = &call->w;
    read->options = &r->options;
    read->who = call->who;
    read->spelled = spelled;
    read->max_bytes = call->core->limits->max_read_bytes;
    call_asks(call, &read->base);
    call_begin(call);
    jw_key(&call->w, STR("contents"));
    jw_begin_array(&call->w);
    request_read(read, &r->hit);
}
