/* SPDX-License-Identifier: MIT */
#include "sources/system.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/json.h"
#include "support/provider_host.h"
#include "support/remove_tree.h"

#define URI "system://metrics"

struct machine {
    char proc[64];
    struct host *host;
};

/* Replaced as a whole, so that a sampler never reads half of it. */
static void put(const struct machine *m, const char *name, const char *text)
{
    char path[128], fresh[140];
    (void)snprintf(path, sizeof path, "%s/%s", m->proc, name);
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(rename(fresh, path), 0);
}

static int set_up(void **state)
{
    struct machine *m = test_calloc(1, sizeof *m);
    char path[128], config[160];
    struct tidings_error err = {0};
    (void)snprintf(m->proc, sizeof m->proc, "/tmp/tidings-system-XXXXXX");
    assert_non_null(mkdtemp(m->proc));
    (void)snprintf(path, sizeof path, "%s/self", m->proc);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/self/net", m->proc);
    assert_int_equal(mkdir(path, 0755), 0);
    put(m, "loadavg", "0.01 0.02 0.03 1/100 1\n");
    put(m, "meminfo", "MemTotal: 1000 kB\nMemFree: 500 kB\n");
    put(m, "self/net/dev", "lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    put(m, "self/mounts", "overlay / overlay rw 0 0\noverlay / overlay rw 0 0\n");
    (void)snprintf(config, sizeof config, "{\"proc\": \"%s\", \"interval\": \"100ms\"}", m->proc);
    m->host = host_open(&provider_system_ops, URI "/", config, &err);
    if (!m->host) {
        fail_msg("%s", err.text);
    }
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct machine *m = *state;
    host_close(m->host);
    assert_int_equal(remove_tree(m->proc), 0);
    test_free(m);
    return 0;
}

static struct json *read_json(struct machine *m, const char *uri)
{
    struct json *doc = NULL;
    struct host_answer *a = host_read(m->host, uri);
    assert_string_equal(a->error, "");
    assert_int_equal(a->count, 1);
    assert_true(a->rows[0].is_text);
    assert_string_equal(a->rows[0].mime_type, "application/json");
    assert_int_equal(jv_parse(tidings_str(a->rows[0].bytes), 16, &doc, NULL), 0);
    host_answer_free(a);
    return doc;
}

static void metrics_are_read_as_json(void **state)
{
    struct json *doc = read_json(*state, URI "/load");
    assert_true(jv_real(jv_get(doc, "load5")) == 0.02);
    assert_int_equal(jv_int(jv_get(doc, "threads")), 100);
    jv_unref(doc);
    doc = read_json(*state, URI "/memory");
    assert_int_equal(jv_int(jv_get(doc, "totalBytes")), 1000 * 1024);
    jv_unref(doc);
    doc = read_json(*state, URI "/network");
    struct json *lo = jv_at(jv_get(doc, "interfaces"), 0);
    assert_int_equal(jv_int(jv_get(jv_get(lo, "sent"), "bytes")), 9);
    jv_unref(doc);
    doc = read_json(*state, URI "/disk");
    assert_int_equal(jv_count(jv_get(doc, "fileSystems")), 1);
    assert_true(jv_int(jv_get(jv_at(jv_get(doc, "fileSystems"), 0), "totalBytes")) > 0);
    jv_unref(doc);
}

static void container_has_all_metrics_and_null_for_missing_ones(void **state)
{
    struct machine *m = *state;
    put(m, "meminfo", "nonsense\n");
    struct json *doc = read_json(m, URI);
    assert_true(jv_real(jv_get(jv_get(doc, "load"), "load1")) == 0.01);
    assert_true(jv_is(jv_get(doc, "memory"), JV_NULL));
    jv_unref(doc);
    struct host_answer *a = host_read(m->host, URI "/memory");
    assert_int_equal(a->code, TIDINGS_E_PARSE);
    assert_non_null(strstr(a->error, "meminfo"));
    host_answer_free(a);
}

static void container_lists_its_children_in_order(void **state)
{
    static const char *const names[] = {URI "/disk", URI "/load", URI "/memory", URI "/network"};
    struct machine *m = *state;
    struct host_answer *a = host_children(m->host, URI, "", 10);
    assert_int_equal(a->count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(a->rows[i].uri, names[i]);
        assert_false(a->rows[i].listable);
    }
    host_answer_free(a);
    a = host_list(m->host, "", 2);
    assert_string_equal(a->rows[0].uri, URI);
    assert_true(a->rows[0].listable);
    assert_true(a->is_full);
    host_answer_free(a);
    a = host_list(m->host, URI "/disk", 10);
    assert_int_equal(a->count, 3);
    host_answer_free(a);
    a = host_stat(m->host, URI "/");
    assert_string_equal(a->rows[0].uri, URI);
    host_answer_free(a);
    a = host_stat(m->host, URI "/cpu");
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void differences_are_announced_only_while_watched(void **state)
{
    struct machine *m = *state;
    assert_int_equal(host_watch(m->host, URI "/load"), 0);
    assert_int_equal(host_watch(m->host, URI "/network"), 0);
    struct json *doc = read_json(m, URI "/load"); /* the baseline exists */
    jv_unref(doc);
    put(m, "meminfo", "MemTotal: 2000 kB\n");
    put(m, "loadavg", "7.00 0.02 0.03 1/100 1\n");
    const struct host_change *c = host_await(m->host, TIDINGS_CHANGE_UPDATED, URI "/load");
    struct host_answer *a = host_read(m->host, URI "/load");
    assert_string_equal(c->etag, a->rows[0].etag);
    host_answer_free(a);
    host_unwatch(m->host, URI "/load");
    put(m, "loadavg", "8.00 0.02 0.03 1/100 1\n");
    put(m, "self/net/dev", "lo: 2 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    host_await(m->host, TIDINGS_CHANGE_UPDATED, URI "/network");
    assert_int_equal(host_untaken(m->host, NULL), 0);
}

static void watcher_is_notified_of_changes_since_the_last_read(void **state)
{
    struct machine *m = *state;
    struct json *doc = read_json(m, URI);
    jv_unref(doc);
    put(m, "meminfo", "MemTotal: 2000 kB\n");
    assert_int_equal(host_watch(m->host, URI), 0);
    host_await(m->host, TIDINGS_CHANGE_UPDATED, URI "/memory");
    host_unwatch(m->host, URI);
}

static void invalid_configuration_is_rejected_with_the_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *config, *part;
    } cases[] = {
        {"{\"interval\": \"1ms\"}", "interval: not a duration from 100ms to 1h"},
        {"{\"interval\": true}", "interval: not a duration"},
        {"{\"every\": 1}", "unknown key 'every' (accepted: interval, proc)"},
        {"[]", "must be a JSON object"},
        {"{\"proc\": \"\"}", "proc: not a string"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0};
        assert_null(host_open(&provider_system_ops, URI "/", cases[i].config, &err));
        if (!strstr(err.text, cases[i].part)) {
            fail_msg("'%s' lacks '%s'", err.text, cases[i].part);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(metrics_are_read_as_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(container_has_all_metrics_and_null_for_missing_ones, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(container_lists_its_children_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(differences_are_announced_only_while_watched, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(watcher_is_notified_of_changes_since_the_last_read, set_up,
                                        tear_down),
        cmocka_unit_test(invalid_configuration_is_rejected_with_the_accepted_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
