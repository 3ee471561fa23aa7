/* SPDX-License-Identifier: MIT
 *
 * Entities when resources run out: memory, in every step of tools and of HTTP writes; and disk
 * space, as clients see it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/resource_io.h"
#include "server/server_internal.h"
#include "server/tools_entity.h"
#include "store/entities.h"
#include "store/memory_store.h"
#include "store/sqlite_store.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"
#include "support/served.h"

/* ---- a job of the test ----------------------------------------------------------------------- */

struct barrier_job {
    struct store_job job;
    int64_t limit; /* maximum size of the file in bytes; 0: no job */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
};

static int barrier_run(struct store_job *job, struct entities *e)
{
    const struct barrier_job *x = list_entry(job, struct barrier_job, job);
    return x->limit ? sqlite_store_limit(e->store, x->limit, &job->err) : 0;
}

static void barrier_over(struct store_job *job, int code)
{
    struct barrier_job *x = list_entry(job, struct barrier_job, job);
    assert_int_equal(code, 0);
    pthread_mutex_lock(&x->lock);
    x->over = true;
    pthread_cond_signal(&x->cond);
    pthread_mutex_unlock(&x->lock);
}

/* Done and removed after everything before it. */
static void await_commit_thread(struct tidings_provider *p, int64_t limit)
{
    struct barrier_job x = {.job.run = barrier_run, .job.done = barrier_over, .limit = limit};
    list_init(&x.job.message.link);
    pthread_mutex_init(&x.lock, NULL);
    pthread_cond_init(&x.cond, NULL);
    commit_thread_submit(entity_commit_thread(p), &x.job);
    pthread_mutex_lock(&x.lock);
    while (!x.over) {
        pthread_cond_wait(&x.cond, &x.lock);
    }
    pthread_mutex_unlock(&x.lock);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct harness b;
static struct tidings_provider *mount;
static struct commit_thread *commit_thread;

static void begin(void)
{
    struct tidings_error err = {0};
    fail_alloc_start(0);
    harness_init(&b);
    harness_start(&b);
    if (hub_mount(b.hub, &provider_entity_ops, STR(ENTITY_URI_PREFIX), STR_EMPTY, &mount, &err) <
            0 ||
        commit_thread_open(memory_store_create(NULL), &commit_thread, &err) < 0) {
        fail_msg("%s", err.text);
    }
    entity_bind(mount, commit_thread);
    entity_set_writer(mount, entity_http_write);
    const struct {
        const char *name;
        tidings_call_fn handler;
    } tools[] = {{"type", entity_call_add_type},
                 {"upsert", entity_call_upsert},
                 {"transact", entity_call_transact},
                 {"history", entity_call_history}};
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        harness_add_tool(&b, &(struct harness_tool){.name = tools[i].name,
                                                    .handler = tools[i].handler,
                                                    .user = mount});
    }
    harness_run_until_idle(&b);
}

static void finish(void)
{
    commit_thread_close(commit_thread);
    harness_stop(&b);
}

static bool is_answered(void *user)
{
    return !((struct client *)user)->is_waiting;
}

/* The text of the answer, in the client's memory. */
static const char *called(struct client *c, const char *tool, const char *arguments)
{
    char params[512];
    snprintf(params, sizeof(params), "\"arguments\":{%s}", arguments);
    client_call(c, "1", tool, params, NULL);
    harness_until(&b, is_answered, c);
    const char *text = client_nth_kind(c, SAID_ANSWER, c->count - 1)->text;
    return text ? text : "";
}

static void check_call(const char *tool, const char *arguments, const char *says)
{
    struct client *c = client_http(&b);
    const char *answer = called(c, tool, arguments);
    if (!strstr(answer, says)) {
        fail_msg("%s does not say '%s'", answer, says);
    }
    client_free(c);
    harness_run_until_idle(&b);
}

#define VALUE "\"uri\":\"/entity/T@1/a\",\"value\":{\"n\":1},\"changedBy\":[{\"userId\":\"u\"}]"

struct fault {
    const char *tool, *arguments;
    const char *done; /* the answer to a successful call */
};

/* Type T@1 and its entity "old" exist. */
static void begin_with_one(void)
{
    begin();
    check_call("type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{\"type\":\"object\"}",
               "\\\"success\\\":true");
    check_call("upsert", "\"uri\":\"/entity/T@1/old\",\"value\":{}", "\\\"changed\\\":true");
    await_commit_thread(mount, 0);
}

static void fail_each_allocation(const struct fault *f)
{
    bool reached = true;
    for (long n = 1; reached; n++) {
        long before = fail_alloc_live();
        begin_with_one();
        struct client *c = client_http(&b);
        fail_alloc_start(n);
        const char *answer = called(c, f->tool, f->arguments);
        bool is_done = strstr(answer, f->done) != NULL;
        await_commit_thread(mount, 0);
        reached = fail_alloc_stop();
        if (!is_done && answer[0] && !strstr(answer, "out of memory")) {
            fail_msg("%s", answer);
        }
        assert_true(is_done || reached);
        client_free(c);
        harness_run_until_idle(&b);
        /* Calls work again and no partial state remains: repeating the call gives the same
         * result. */
        check_call("upsert", VALUE, "\\\"newValidFrom\\\"");
        check_call("history", "\"entityId\":\"a\"", "\\\"n\\\":1");
        assert_int_equal(b.worker[0]->jobs, 0);
        finish();
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 10000);
    }
}

static void tools_survive_any_failed_allocation(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {"upsert", VALUE, "\\\"changed\\\":true"},
        {"transact",
         "\"operations\":[{\"op\":\"upsert\"," VALUE "},{\"op\":\"delete\","
         "\"entityId\":\"old\"}],\"idempotencyKey\":\"k\"",
         "\\\"deleted\\\":true"},
        {"history", "\"entityId\":\"old\"", "\\\"versions\\\":[{"},
        {"type", "\"name\":\"U\",\"version\":\"2\",\"jsonSchema\":{\"type\":\"object\"}",
         "\\\"success\\\":true"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        fail_each_allocation(&faults[i]);
    }
}

static struct {
    struct resource_io plain;
    bool over;
    int code;
    char answer[512];
} http;

static void on_http(struct resource_io *p)
{
    http.over = true;
    http.code = p->code;
    snprintf(http.answer, sizeof(http.answer), "%s", p->err.text);
    resource_io_deinit(p);
}

static bool is_over(void *user)
{
    (void)user;
    return http.over;
}

static int over_http(enum resource_io_op op, const char *uri, const char *body,
                     const char *if_match)
{
    http.over = false;
    resource_io_init(&http.plain, b.worker[0], on_http, NULL);
    http.plain.as_requested = tidings_str(uri);
    http.plain.bytes = tidings_str(body);
    http.plain.query = STR("changedBy=%5B%7B%22userId%22%3A%22u%22%7D%5D&origin=me");
    http.plain.if_match = tidings_str(if_match);
    resource_io_start(&http.plain, op);
    harness_until(&b, is_over, NULL);
    return http.code;
}

static void writes_over_http_survive_any_failed_allocation(void **state)
{
    (void)state;
    static const struct {
        enum resource_io_op op;
        const char *uri, *body, *if_match;
        int code;
    } rows[] = {
        {RESOURCE_IO_WRITE, "/entity/T@1/a", "{\"n\":1}", "", 1},
        {RESOURCE_IO_PATCH, "/entity/T@1/old", "{\"n\":1}", "*", 0},
        {RESOURCE_IO_REMOVE, "/entity/T@1/old", "", "*", 0},
        {RESOURCE_IO_WRITE, "/entity/T@1/old", "{}", "\"x\"", TIDINGS_E_CONFLICT},
        {RESOURCE_IO_READ, "/entity/T@1/old", "", "", 0},
        {RESOURCE_IO_READ, "/entity/", "", "", 0},
        {RESOURCE_IO_READ, "/entity/T@2/old", "", "", TIDINGS_E_NOTFOUND},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool reached = true;
        for (long n = 1; reached; n++) {
            long before = fail_alloc_live();
            begin_with_one();
            fail_alloc_start(n);
            int code = over_http(rows[i].op, rows[i].uri, rows[i].body, rows[i].if_match);
            await_commit_thread(mount, 0);
            reached = fail_alloc_stop();
            if (code != rows[i].code && !(reached && code == TIDINGS_E_NOMEM)) {
                fail_msg("row %zu, allocation %ld: %s (%s)", i, n, tidings_code_name(code),
                         http.answer);
            }
            harness_run_until_idle(&b);
            assert_int_equal(b.worker[0]->jobs, 0);
            finish();
            assert_int_equal(fail_alloc_live(), before);
            assert_true(n < 10000);
        }
    }
}

static int tell(void *user, const struct tidings_change *change, uint64_t position)
{
    if (!change) {
        hub_overflow(user);
        return 0;
    }
    return hub_announce_durable(user, change, position, NULL);
}

/* Returns true if there is a message with this text. */
static bool has_heard(const struct client *c, const char *text)
{
    for (size_t i = 0; i < client_count(c, SAID_UPDATED); i++) {
        if (strstr(client_nth(c, SAID_UPDATED, i), text)) {
            return true;
        }
    }
    return false;
}

static bool is_acknowledged(void *user)
{
    return client_count(user, SAID_ACK) == 1;
}

static void committed_change_is_delivered_or_owed_after_failed_allocation(void **state)
{
    (void)state;
    bool reached = true;
    fail_alloc_start(0); /* before there are threads */
    for (long n = 2; reached; n++) {
        long before = fail_alloc_live();
        begin_with_one();
        commit_thread_on_change(commit_thread, tell, b.hub);
        struct client *listener = client_http(&b);
        client_modern(listener, "9", "subscriptions/listen",
                      "\"notifications\":{\"resourceSubscriptions\":[\"entity:///T@1/\"]}");
        harness_until(&b, is_acknowledged, listener);
        (n % 2 == 0 ? fail_alloc_start : fail_alloc_start_lasting)(n / 2);
        int code = over_http(RESOURCE_IO_WRITE, "/entity/T@1/a", "{\"n\":1}", "");
        await_commit_thread(mount, 0);
        reached = fail_alloc_stop();
        harness_run_until_idle(&b);
        bool is_there = over_http(RESOURCE_IO_READ, "/entity/T@1/a", "", "") == 0;
        assert_true(is_there || code < 0);
        bool is_named = has_heard(listener, "T@1/a\"");
        /* A server without memory sends `truncated`, even if nothing was written in the end. */
        bool is_told =
            is_named || has_heard(listener, "dev.tidings/truncated") || listener->is_gone;
        if (is_there ? !is_told : is_named) {
            fail_msg("allocation %ld: it is%s there, which was%s told", n / 2,
                     is_there ? "" : " not", is_told ? "" : " not");
        }
        client_free(listener);
        harness_run_until_idle(&b);
        assert_int_equal(b.worker[0]->jobs, 0);
        finish();
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 10000);
    }
}

/* ---- the disk -------------------------------------------------------------------------------- */

static char directory[] = "/tmp/tidings-full-XXXXXX";

static const char *request(const char *method, const char *path, const char *fields,
                           const char *body)
{
    char head[512];
    snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nContent-Type: application/json%s", method, path,
             fields);
    return served_http(head, body);
}

static const char *upsert(const char *value)
{
    static char body[4096];
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"upsert-entity\",\"arguments\":{\"uri\":\"/entity/T@1/a\",\"value\":%s},\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
             value);
    return request("POST", "/mcp",
                   "\r\nAccept: application/json, text/event-stream\r\n"
                   "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
                   "Mcp-Name: upsert-entity",
                   body);
}

static void add_type(void)
{
    const char *answer =
        served_call("add-entity-type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{}");
    assert_non_null(strstr(answer, "\"success\":true"));
}

static void full_disk_rejects_writes_until_space_is_free(void **state)
{
    (void)state;
    char file[64], value[2048];
    assert_non_null(mkdtemp(directory));
    snprintf(file, sizeof(file), "%s/e.db", directory);
    served_set("entities", file);
    served_set("allow-write", "true");
    served_run();
    add_type();
    assert_non_null(strstr(request("PUT", "/entity/T@1/b", "", "\"here\""), " 201 "));
    await_commit_thread(served()->publishing.entities, 40 * 4096);
    bool is_full = false;
    for (int i = 0; i < 1000 && !is_full; i++) {
        snprintf(value, sizeof(value), "\"%d%1500s\"", i, "x");
        is_full = strstr(upsert(value), "\\\"reason\\\":\\\"storage\\\"") != NULL;
    }
    assert_true(is_full);
    assert_non_null(strstr(upsert(value), "disk is full"));
    const char *answer = request("PUT", "/entity/T@1/a", "\r\nIf-Match: *", value);
    assert_non_null(strstr(answer, " 507 "));
    assert_non_null(strstr(answer, "\"reason\":\"storage\""));
    assert_non_null(strstr(request("GET", "/entity/T@1/b", "", ""), "\"here\""));
    assert_non_null(strstr(request("GET", "/entity/T@1/a", "", ""), " 200 "));
    await_commit_thread(served()->publishing.entities, INT64_C(4000) * 4096);
    assert_non_null(strstr(request("PUT", "/entity/T@1/a", "\r\nIf-Match: *", value), " 200 "));
    assert_non_null(strstr(upsert("\"small\""), "\"changed\":true"));
}

static int end_disk(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    int rc = served_end(state);
    for (size_t i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof(name), "%s/e.db%s", directory, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(directory);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_survive_any_failed_allocation),
        cmocka_unit_test(writes_over_http_survive_any_failed_allocation),
        cmocka_unit_test(committed_change_is_delivered_or_owed_after_failed_allocation),
        cmocka_unit_test_setup_teardown(full_disk_rejects_writes_until_space_is_free, served_begin,
                                        end_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
