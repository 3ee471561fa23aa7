/* SPDX-License-Identifier: MIT
 *
 * The configuration of nodes that share a store: their names, and the mounts they share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/config.h"

#define STORE "postgres://db.example/x"

static struct config c;
static struct tidings_error err;

static int begin(void **state)
{
    (void)state;
    err = (struct tidings_error){0};
    return config_init(&c, NULL);
}

static int end(void **state)
{
    (void)state;
    config_deinit(&c);
    return 0;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(config_set(&c, name, value, CONFIG_FLAG, NULL), 0);
}

static int load(const char *text)
{
    return config_load_text(&c, "tidings.json", tidings_str(text), &err);
}

static void refused(const char *says)
{
    assert_int_not_equal(config_check(&c, &err), 0);
    if (!strstr(err.text, says)) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
}

static enum mount_nodes of(const char *uri)
{
    return config_nodes_of(&c, tidings_str(uri));
}

static void mount_option_selects_watching_node(void **state)
{
    (void)state;
    set("store", STORE);
    assert_int_equal(load("{\"mounts\": [{\"uri\": \"file://a/\", \"path\": \"/a\"},"
                          "{\"uri\": \"file://b/\", \"path\": \"/b\", \"nodes\": \"shared\"},"
                          "{\"uri\": \"file://b/in/\", \"path\": \"/in\", \"nodes\": \"local\"},"
                          "{\"type\": \"command\", \"uri\": \"cmd:///c\", \"argv\": [\"x\"],"
                          " \"nodes\": \"owned\"}]}"),
                     0);
    assert_int_equal(config_check(&c, &err), 0);
    assert_int_equal(of("file://a/x"), MOUNT_LOCAL);
    assert_int_equal(of("file://b/"), MOUNT_SHARED);
    assert_int_equal(of("file://b/x/y"), MOUNT_SHARED);
    assert_int_equal(of("file://b/in/x"), MOUNT_LOCAL);
    assert_int_equal(of("cmd:///c/"), MOUNT_OWNED);
    assert_int_equal(of("other:///"), MOUNT_LOCAL);
}

static void prefix_setting_overrides_mount_setting(void **state)
{
    (void)state;
    set("store", STORE);
    set("owned", "file://b/");
    set("shared", "mine:///"); /* a program mounts it */
    assert_int_equal(
        load("{\"mounts\": [{\"uri\": \"file://b/\", \"path\": \"/b\", \"nodes\": \"shared\"}]}"),
        0);
    assert_int_equal(config_check(&c, &err), 0);
    assert_int_equal(of("file://b/x"), MOUNT_OWNED);
    assert_int_equal(of("mine:///x"), MOUNT_SHARED);
}

static void printed_node_settings_round_trip(void **state)
{
    (void)state;
    struct buf text;
    struct config again;
    buf_init(&text, 1u << 20);
    set("store", STORE);
    set("owned", "mine:///");
    assert_int_equal(
        load("{\"mounts\": [{\"uri\": \"file://b/\", \"path\": \"/b\", \"nodes\": \"shared\"}]}"),
        0);
    assert_int_equal(config_print(&c, &text), 0);
    assert_int_equal(config_init(&again, NULL), 0);
    assert_int_equal(config_load_text(&again, "again.json", buf_str(&text), &err), 0);
    assert_int_equal(config_nodes_of(&again, tidings_str("file://b/")), MOUNT_SHARED);
    assert_int_equal(config_nodes_of(&again, tidings_str("mine:///")), MOUNT_OWNED);
    config_deinit(&again);
    buf_deinit(&text);
}

static void invalid_value_error_lists_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{\"mounts\": [{\"path\": \"/a\",\n\"nodes\": \"mine\"}]}",
         "tidings.json:2: mounts: nodes: 'mine' (accepted: local, shared, owned)"},
        {"{\"mounts\": [{\"path\": \"/a\",\n\"nodes\": 1}]}",
         "tidings.json:2: mounts: nodes: wrong type of value (accepted: a string)"},
        {"{\"owned\": [\"file://a\"]}", "tidings.json:1: owned: 'file://a'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_not_equal(load(rows[i].text), 0);
        if (strncmp(err.text, rows[i].says, strlen(rows[i].says)) != 0) {
            fail_msg("%s", err.text);
        }
    }
}

static void node_settings_require_shared_database(void **state)
{
    (void)state;
    set("owned", "file://a/");
    refused("'file://a/' is shared or owned");
    set("store", "/tmp/file.db");
    refused("--store postgres://");
    set("store", STORE);
    assert_int_equal(config_check(&c, &err), 0);
    set("shared", "file://a/");
    refused("named by --shared and by --owned");
}

static void mount_in_file_requires_shared_database(void **state)
{
    (void)state;
    assert_int_equal(load("{\"mounts\": [{\"path\": \"/a\", \"nodes\": \"shared\"}]}"), 0);
    refused("'file:///a/' is shared or owned");
}

static void cluster_name_requires_shared_database(void **state)
{
    (void)state;
    set("cluster", "one");
    refused("--cluster: only a store that nodes share has one");
    set("entities", ":memory:");
    refused("--cluster");
    set("entities", STORE);
    assert_int_equal(config_check(&c, &err), 0);
}

static void config_rejects_more_than_64_owned_mounts(void **state)
{
    (void)state;
    char prefix[32];
    set("store", STORE);
    for (unsigned i = 0; i < CONFIG_OWNED_MAX; i++) {
        snprintf(prefix, sizeof prefix, "m:///%u/", i);
        set("owned", prefix);
    }
    assert_int_equal(config_check(&c, &err), 0);
    assert_int_equal(load("{\"mounts\": [{\"path\": \"/a\", \"nodes\": \"owned\"}]}"), 0);
    refused("more than 64 mounts are owned");
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(mount_option_selects_watching_node),    ONE(prefix_setting_overrides_mount_setting),
        ONE(printed_node_settings_round_trip),      ONE(invalid_value_error_lists_accepted_values),
        ONE(node_settings_require_shared_database), ONE(mount_in_file_requires_shared_database),
        ONE(cluster_name_requires_shared_database), ONE(config_rejects_more_than_64_owned_mounts),
    };
    return cmocka_run_group_tests_name("nodes of the configuration", tests, NULL, NULL);
}
