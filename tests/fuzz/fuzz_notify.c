/* SPDX-License-Identifier: MIT
 *
 * Any JSON as a list of changes, sent by an untrusted client to a worker without rules: it is
 * rejected entirely with an error message, or each change has its outcome, and resources that
 * clients cannot write are never announced.
 */
#include <stdlib.h>

#include "base/loop.h"
#include "base/str.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/notify.h"
#include "engine/shared.h"
#include "engine/worker.h"
#include "security/principal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* ---- a hub with two providers, to one of which clients write --------------------------------- */

static int stub_open(struct tidings_provider *p, struct tidings_str config,
                     struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void stub_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void stub_write(struct tidings_provider *p, struct tidings_write *write,
                       struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_write_done(write, 0, STR_EMPTY, NULL);
}

static void stub_close(struct tidings_provider *p)
{
    (void)p;
}

static struct worker *started(void)
{
    static const struct tidings_provider_ops fixed = {.abi = TIDINGS_PROVIDER_ABI,
                                                      .name = "fixed",
                                                      .open = stub_open,
                                                      .read = stub_read,
                                                      .close = stub_close};
    static const struct tidings_provider_ops written = {.abi = TIDINGS_PROVIDER_ABI,
                                                        .name = "written",
                                                        .open = stub_open,
                                                        .read = stub_read,
                                                        .write = stub_write,
                                                        .close = stub_close};
    static const struct hub_options options = {.log = {.max_entries = 8, .max_bytes = 1u << 20}};
    static struct limit_counters counters;
    static const struct worker_limits limits = {.max_read_bytes = SIZE_MAX / 2};
    static struct worker worker;
    if (!worker.hub) {
        worker.limits = &limits;
        limit_counters_init(&counters);
        worker.limit_counters = &counters;
        worker.loop = loop_create(NULL);
        worker.hub = hub_create(worker.loop, shared_create(NULL), NULL);
        require(hub_start(worker.hub, &options, NULL) == 0);
        hub_set_running(worker.hub, true);
        require(hub_mount(worker.hub, &fixed, STR("mem://x/"), STR_EMPTY, NULL, NULL) == 0);
        require(hub_mount(worker.hub, &written, STR("api:///"), STR_EMPTY, NULL, NULL) == 0);
        worker.catalog = hub_catalog(worker.hub);
    }
    return &worker;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void check_rows(struct json *root, const struct notify_outcome *o)
{
    struct json *rows = jv_get(root, "results");
    size_t told = 0;
    require(jv_count(rows) == o->notified + o->refused && jv_count(rows) <= NOTIFY_MAX);
    for (size_t i = 0; i < jv_count(rows); i++) {
        struct json *row = jv_at(rows, i);
        bool is_told = jv_is_true(jv_get(row, "told"));
        struct tidings_str uri = jv_str(jv_get(row, "uri"));
        told += is_told;
        require(is_told == (jv_str(jv_get(row, "error")).len == 0));
        require(!is_told ||
                str_eq_nocase(tidings_strn(uri.ptr, uri.len < 4 ? uri.len : 4), STR("api:")));
    }
    require(told == o->notified && (told > 0 || jv_str(jv_get(root, "error")).len > 0));
}

static void answered(void *user, const struct notify_outcome *o, struct buf *answer)
{
    struct json *root = NULL;
    require(jv_parse(buf_str(answer), JSON_MAX_DEPTH, &root, NULL) == 0);
    check_rows(root, o);
    jv_unref(root);
    *(bool *)user = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct principal stranger = {.kind = PRINCIPAL_ANONYMOUS};
    struct worker *worker = started();
    const struct notify n = {.worker = worker, .principal = &stranger};
    struct tidings_error err = {0, ""};
    struct json *said = NULL;
    bool is_answered = false;
    if (jv_parse(tidings_strn((const char *)data, size), JSON_MAX_DEPTH, &said, NULL) < 0) {
        return 0;
    }
    int rc = notify_begin(&n, said, answered, &is_answered, &err);
    require(is_answered == (rc == 0) && (rc == 0) == (err.text[0] == '\0'));
    loop_turn(worker->loop);
    jv_unref(said);
    return 0;
}
