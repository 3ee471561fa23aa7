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
#include "protocol/own_subscriptions.h"
#include "uri/uri.h"

struct reading {
    struct tidings_read read;
    struct read_options options;
    struct catalog_hit hit;
};

static void method_read_write_meta(struct request *request, const struct tidings_read *read)
{
    char version[64];
    if (access_is_full(request->principal)) { /* it counts everything */
        snprintf(version, sizeof(version), "%llx.%llu", (unsigned long long)request->worker->epoch,
                 (unsigned long long)read->version);
        jw_put_string(&request->w, STR("dev.tidings/version"), tidings_str(version));
    }
    if (read->is_stale) {
        jw_put_bool(&request->w, STR("dev.tidings/stale"), true);
    }
    if (read->unchanged) {
        jw_put_bool(&request->w, STR("dev.tidings/unchanged"), true);
        jw_put_string(&request->w, STR("dev.tidings/etag"), read->held);
    }
}

static void read_done(struct job *job)
{
    struct request *request = job->user;
    struct tidings_read *read = list_entry(job, struct tidings_read, base);
    request_end_job(request);
    if (job->code < 0 && read->refused.retry_ms > 0) {
        request_fail_limit(request, &read->refused, read->spelled);
        return;
    }
    if (job->code < 0) {
        request_fail_job(request, job, read->spelled, read->reason);
        return;
    }
    jw_end_array(&request->w);
    request_begin_meta(request, read->is_final ? CACHE_HOUR : CACHE_NOW);
    method_read_write_meta(request, read);
    request_end_meta(request);
}

void method_resources_read(struct request *request)
{
    struct json *param = jv_get(request->msg.params, "uri");
    if (!jv_is(param, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.uri must be a string");
        return;
    }
    struct tidings_str spelled = jv_str(param);
    struct buf canonical;
    struct tidings_error err;
    buf_init(&canonical, URI_MAX * 3);
    int rc = catalog_canonical(request->worker->catalog, spelled, false, &canonical, &err);
    struct tidings_str uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    struct reading *r = arena_alloc(&request->arena, sizeof(*r));
    if (rc == 0 && (!uri.ptr || !r)) {
        rc = tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = read_options_parse(&r->options, jv_get(request->msg.params, "_meta"), &err);
    }
    if (rc < 0) {
        request_fail_err(request, &err, spelled);
        return;
    }
    if (!catalog_may_ask(request->worker->catalog, request->principal, ACCESS_READ, uri) ||
        !catalog_find(request->worker->catalog, uri, &request->arena, &r->hit)) {
        request_fail(request, TIDINGS_E_NOTFOUND, spelled, "resource not found");
        return;
    }
    struct tidings_read *read = &r->read;
    job_init(&read->base, request->worker, read_done, request, uri);
    read->w = &request->w;
    read->options = &r->options;
    read->principal = request->principal;
    read->reader = own_subscriber(request);
    read->spelled = spelled;
    read->max_bytes = request->worker->limits->max_read_bytes;
    read->takes_pieces = true;
    read->output = &request->output;
    read->payloads = &request->payloads;
    request_begin_job(request, &read->base);
    request_begin(request);
    jw_key(&request->w, STR("contents"));
    jw_begin_array(&request->w);
    job_read(read, &r->hit);
}
