/* SPDX-License-Identifier: MIT
 *
 * resources/read: the elements that the client receives, their range and format, and errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/job_read.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define META "dev.tidings/"

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

/* ---- a resource with given content ----------------------------------------------------------- */

struct piece {
    const char *uri, *mime_type, *text, *etag;
    bool is_blob, is_listable;
    int64_t size; /* the claimed range */
};

struct script {
    const char *uri, *mime_type;
    bool is_template, is_listable;
    struct piece pieces[20];
    size_t count;
    unsigned reads;
    bool ignores_failures;
};

static void play(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    struct script *s = user;
    struct tidings_error err = {0};
    int rc = 0;
    s->reads++;
    for (size_t i = 0; i < s->count && (rc == 0 || s->ignores_failures); i++) {
        const struct piece *p = &s->pieces[i];
        struct tidings_resource about = {0};
        about.uri = tidings_str(p->uri);
        about.mime_type = tidings_str(p->mime_type);
        about.etag = tidings_str(p->etag);
        about.size = p->size;
        about.has_size = p->size >= 0;
        about.listable = p->is_listable;
        rc = p->is_blob ? tidings_read_blob(read, &about, tidings_str(p->text), &err)
                        : tidings_read_text(read, &about, tidings_str(p->text), &err);
    }
    tidings_read_done(read, s->ignores_failures ? 0 : rc, &err);
}

static int add(struct script *s, const struct tidings_resource *more, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    if (more) {
        about = *more;
    }
    about.uri = tidings_str(s->uri);
    about.name = STR("the name");
    about.mime_type = tidings_str(s->mime_type);
    about.listable = s->is_listable;
    struct catalog_entry *entry = catalog_entry_create(&about, s->is_template, play, s, err);
    return entry ? hub_add_entry(b.hub, entry, err) : TIDINGS_E_INVALID;
}

static void must_add(struct script *s)
{
    assert_int_equal(add(s, NULL, NULL), 0);
    harness_run_until_idle(&b);
}

/* The answer to a read with `options` (members of _meta, NULL: none). */
static const char *read_with(const char *uri, const char *options)
{
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-11-25");
    client_legacy(c, NULL, "9", "resources/read",
                  options ? text_of("\"uri\":\"%s\",\"_meta\":{%s}", uri, options)
                          : text_of("\"uri\":\"%s\"", uri));
    harness_run_until_idle(&b);
    static char answer[4096];
    snprintf(answer, sizeof(answer), "%s", client_nth_kind(c, SAID_ANSWER, 1)->text);
    client_free(c);
    return answer;
}

/* ---- one element ----------------------------------------------------------------------------- */

static void reads_have_an_age_and_an_etag(void **state)
{
    (void)state;
    struct script s = {.uri = "app:a", .pieces = {{.text = "abc"}}, .count = 1};
    must_add(&s);
    const char *text = read_with("app:a", NULL);
    char version[48];
    snprintf(version, sizeof(version), "%llx.%llu", (unsigned long long)b.worker[0]->epoch,
             (unsigned long long)b.worker[0]->last_seq);
    assert_json(text, "result|_meta|" META "version", version);
    const char *etag = json_at(text, "result|contents|0|_meta|" META "etag");
    assert_int_equal(strlen(etag), 32);
    char held[64];
    snprintf(held, sizeof(held), "%s", etag);
    harness_update(&b, "app:a");
    harness_run_until_idle(&b);
    text = read_with("app:a", NULL);
    assert_string_not_equal(json_at(text, "result|_meta|" META "version"), version);
    assert_json(text, "result|contents|0|_meta|" META "etag", held);
    s.pieces[0].text = "abd";
    text = read_with("app:a", NULL);
    assert_string_not_equal(json_at(text, "result|contents|0|_meta|" META "etag"), held);
}

static void content_with_the_client_etag_is_not_sent_again(void **state)
{
    (void)state;
    struct script s = {
        .uri = "app:a",
        .pieces = {{.mime_type = "text/a", .text = "abc", .etag = "one"},
                   {.mime_type = "text/b", .text = "cba", .etag = "two"}},
        .count = 1,
    };
    must_add(&s);
    const char *text = read_with("app:a", "\"" META "ifNoneMatch\":\"one\"");
    assert_json(text, "result|contents", "[]");
    assert_json(text, "result|_meta|" META "unchanged", "true");
    assert_json(text, "result|_meta|" META "etag", "one");
    text = read_with("app:a", "\"" META "ifNoneMatch\":[\"zero\",\"one\"]");
    assert_json(text, "result|_meta|" META "unchanged", "true");
    text = read_with("app:a", "\"" META "ifNoneMatch\":\"two\"");
    assert_json(text, "result|contents|0|text", "abc");
    assert_no_json(text, "result|_meta|" META "unchanged");
    s.count = 2; /* all of it must be in memory */
    text = read_with("app:a", "\"" META "ifNoneMatch\":\"one\"");
    assert_json(text, "result|contents|1|text", "cba");
    text = read_with("app:a", "\"" META "ifNoneMatch\":\"two\"");
    assert_json(text, "result|contents|0|text", "abc");
    text = read_with("app:a", "\"" META "ifNoneMatch\":[\"one\",\"two\"]");
    assert_json(text, "result|contents", "[]");
    text = read_with("app:a", "\"" META "ifNoneMatch\":\"two\",\"" META "accept\":\"text/b\"");
    assert_json(text, "result|_meta|" META "unchanged", "true");
    s.pieces[0].etag = "W/one";
    s.count = 1;
    text = read_with("app:a", "\"" META "ifNoneMatch\":\"W/one\"");
    assert_json(text, "result|contents|0|text", "abc");
}

static void range_is_cut_out_of_handler_content(void **state)
{
    (void)state;
    struct script s = {
        .uri = "app:a", .pieces = {{.text = "\xc3\xa4\nzwei\n\xe2\x82\xac"}}, .count = 1};
    must_add(&s);
    static const struct {
        const char *range, *text, *from, *to;
    } rows[] = {
        {"{\"unit\":\"bytes\",\"from\":0,\"to\":3}", "\xc3\xa4\n", "0", "3"},
        {"{\"unit\":\"bytes\",\"from\":1,\"to\":4}", "\xc3\xa4\nz", "0", "4"},
        {"{\"unit\":\"bytes\",\"from\":3,\"to\":10}", "zwei\n", "3", "8"},
        {"{\"unit\":\"bytes\",\"last\":1}", "\xe2\x82\xac", "8", "11"},
        {"{\"unit\":\"bytes\",\"from\":11}", "", "11", "11"},
        {"{\"unit\":\"lines\",\"from\":1,\"to\":2}", "zwei\n", "3", "8"},
        {"{\"unit\":\"lines\",\"last\":2}", "zwei\n\xe2\x82\xac", "3", "11"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *text = read_with("app:a", text_of("\"" META "range\":%s", rows[i].range));
        assert_json(text, "result|contents|0|text", rows[i].text);
        assert_json(text, "result|contents|0|size", "11");
        assert_json(text, "result|contents|0|_meta|" META "range|unit", "bytes");
        assert_json(text, "result|contents|0|_meta|" META "range|from", rows[i].from);
        assert_json(text, "result|contents|0|_meta|" META "range|to", rows[i].to);
        assert_json(text, "result|contents|0|_meta|" META "range|total", "11");
    }
    static const char *const refused[] = {"{\"from\":12}", "{\"unit\":\"lines\",\"from\":4}"};
    for (size_t i = 0; i < COUNT(refused); i++) {
        const char *text = read_with("app:a", text_of("\"" META "range\":%s", refused[i]));
        assert_json(text, "error|code", "-32602");
        assert_json(text, "error|data|reason", "out_of_range");
        assert_json(text, "error|data|uri", "app:a");
        assert_non_null(strstr(text, "there are"));
    }
    s.pieces[0].is_blob = true; /* bytes are cut at the requested offset */
    const char *text = read_with("app:a", "\"" META "range\":{\"from\":1,\"to\":2}");
    assert_json(text, "result|contents|0|blob", "pA==");
    assert_json(text, "result|contents|0|_meta|" META "range|from", "1");
}

static void range_lets_a_read_exceed_the_size_limit(void **state)
{
    (void)state;
    size_t size = b.limits.max_read_bytes * 2;
    char *big = malloc(size + 1);
    assert_non_null(big);
    memset(big, 'x', size);
    big[size] = '\0';
    struct script s = {.uri = "app:a", .pieces = {{.text = big}}, .count = 1};
    must_add(&s);
    const char *text = read_with("app:a", NULL);
    assert_json(text, "error|code", "-32602");
    assert_non_null(strstr(text, "ask for a range"));
    text = read_with("app:a", "\"" META "range\":{\"last\":4}");
    assert_json(text, "result|contents|0|text", "xxxx");
    s.ignores_failures = true; /* no partial answer */
    assert_json(read_with("app:a", NULL), "error|code", "-32602");
    free(big);
}

/* ---- several --------------------------------------------------------------------------------- */

static void alternatives_are_completed_and_selectable(void **state)
{
    (void)state;
    struct script s = {
        .uri = "app:a",
        .mime_type = "text/csv",
        .pieces = {{.text = "a,b\n1,2\n"},
                   {.mime_type = "application/json", .text = "[{\"a\":1,\"b\":2}]"},
                   {.mime_type = "image/png", .text = "\x89PNG", .is_blob = true}},
        .count = 3,
    };
    struct tidings_resource more = {0};
    more.title = STR("The title");
    more.description = STR("What it is");
    more.audience = STR("[\"user\"]");
    more.icons = STR("[{\"src\":\"data:,\"}]");
    more.formats = STR("[\"text/csv\",\"application/json\",\"image/png\"]");
    more.not_subscribable = true;
    more.has_size = true;
    more.size = 8; /* etag of the preferred format */
    assert_int_equal(add(&s, &more, NULL), 0);
    harness_run_until_idle(&b);
    const char *text = read_with("app:a", NULL);
    static const char *const types[] = {"text/csv", "application/json", "image/png"};
    static const char *const sizes[] = {"8", "15", "4"};
    for (size_t i = 0; i < 3; i++) {
        assert_json(text, text_of("result|contents|%zu|uri", i), "app:a");
        assert_json(text, text_of("result|contents|%zu|name", i), "the name");
        assert_json(text, text_of("result|contents|%zu|title", i), "The title");
        assert_json(text, text_of("result|contents|%zu|description", i), "What it is");
        assert_json(text, text_of("result|contents|%zu|annotations|audience|0", i), "user");
        assert_json(text, text_of("result|contents|%zu|icons|0|src", i), "data:,");
        assert_json(text, text_of("result|contents|%zu|mimeType", i), types[i]);
        assert_json(text, text_of("result|contents|%zu|size", i), sizes[i]);
        /* The registration bounds the handler's default. */
        assert_json(text, text_of("result|contents|%zu|capabilities|subscribe", i), "false");
    }
    static const struct {
        const char *accept, *type;
    } rows[] = {
        {"\"application/json\"", "application/json"},
        {"[\"image/*\",\"text/csv\"]", "image/png"},
        {"\"text/*\"", "text/csv"},
        {"[\"text/html\",\"*/*\"]", "text/csv"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        text = read_with("app:a", text_of("\"" META "accept\":%s", rows[i].accept));
        assert_json(text, "result|contents|0|mimeType", rows[i].type);
        assert_no_json(text, "result|contents|1");
    }
    text = read_with("app:a", "\"" META "accept\":\"text/html\"");
    assert_json(text, "error|data|reason", "not_acceptable");
    assert_non_null(strstr(text, "text/csv"));
    /* A range applies to one element; elements before it are omitted. */
    text = read_with("app:a", "\"" META "range\":{\"from\":9,\"to\":11}");
    assert_json(text, "result|contents|0|mimeType", "application/json");
    assert_json(text, "result|contents|0|text", "b\"");
    assert_no_json(text, "result|contents|1");
}

static void content_rules_are_enforced_and_named(void **state)
{
    (void)state;
    struct script rows[] = {
        {.uri = "app:nothing"},
        {.uri = "app:other", .pieces = {{.text = "a"}, {.uri = "app:b", .text = "b"}}, .count = 2},
        {.uri = "app:twice",
         .pieces = {{.mime_type = "text/a", .text = "a"}, {.mime_type = "text/a", .text = "b"}},
         .count = 2},
        {.uri = "app:untyped", .pieces = {{.text = "a"}, {.text = "b"}}, .count = 2},
    };
    static const char *const parts[] = {"at least one element", "under another URI",
                                        "all different", "a mimeType each"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        must_add(&rows[i]);
        const char *text = read_with(rows[i].uri, NULL);
        assert_json(text, "error|code", "-32603");
        assert_json(text, "error|data|reason", "contents_rule");
        assert_non_null(strstr(text, parts[i]));
    }
}

static void listable_resource_returns_its_children_or_nothing(void **state)
{
    (void)state;
    struct script full = {
        .uri = "app:///d/",
        .is_listable = true,
        .pieces = {{.uri = "app:///d/a", .mime_type = "text/plain", .text = "A"},
                   {.uri = "app:///d/b", .mime_type = "text/plain", .text = "B"}},
        .count = 2,
    };
    struct script empty = {.uri = "app:///e/", .is_listable = true};
    must_add(&full);
    must_add(&empty);
    const char *text = read_with("app:///d/", NULL);
    assert_json(text, "result|contents|0|uri", "app:///d/a");
    assert_json(text, "result|contents|1|text", "B");
    assert_json(text, "result|contents|1|size", "1");
    assert_json(read_with("app:///e/", NULL), "result|contents", "[]");
}

static void invalid_utf8_text_is_returned_as_a_blob(void **state)
{
    (void)state;
    struct script s = {.uri = "app:a", .pieces = {{.text = "a\xff"}}, .count = 1};
    must_add(&s);
    const char *text = read_with("app:a", NULL);
    assert_json(text, "result|contents|0|blob", "Yf8=");
    assert_no_json(text, "result|contents|0|text");
    /* … and so is every part of it. */
    text = read_with("app:a", "\"" META "range\":{\"to\":1}");
    assert_json(text, "result|contents|0|blob", "YQ==");
}

struct partial {
    int64_t offset, size;
    bool is_known;
};

static void play_part(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    const struct partial *p = user;
    struct tidings_resource about = {0};
    about.size = p->size;
    about.has_size = p->size >= 0;
    char *bytes = tidings_alloc(8);
    memcpy(bytes, "abcdefgh", 8);
    (void)tidings_read_part(read, p->is_known ? &about : NULL, p->offset, bytes, 8, NULL);
    tidings_read_done(read, 0, NULL);
}

static void range_is_returned_only_on_request_with_offset(void **state)
{
    (void)state;
    struct partial p = {.offset = 100, .size = 200, .is_known = true};
    struct tidings_resource about = {0};
    about.uri = STR("app:a");
    about.name = STR("a");
    struct catalog_entry *entry = catalog_entry_create(&about, false, play_part, &p, NULL);
    assert_int_equal(hub_add_entry(b.hub, entry, NULL), 0);
    harness_run_until_idle(&b);
    const char *part = "\"" META "range\":{\"from\":103,\"to\":105}";
    const char *text = read_with("app:a", part);
    assert_json(text, "result|contents|0|text", "de");
    assert_json(text, "result|contents|0|_meta|" META "range|from", "103");
    assert_json(text, "result|contents|0|_meta|" META "range|total", "200");
    assert_json(read_with("app:a", NULL), "error|code", "-32603");
    text = read_with("app:a", "\"" META "range\":{\"from\":201}");
    assert_json(text, "error|data|reason", "out_of_range");
    p.size = -1;
    assert_json(read_with("app:a", part), "error|code", "-32603");
    p = (struct partial){.offset = -1, .size = 9, .is_known = true};
    assert_json(read_with("app:a", part), "error|code", "-32603");
    p = (struct partial){.offset = 0, .size = 9};
    assert_json(read_with("app:a", part), "error|code", "-32603");
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static struct script mounted;

static int mount_open(struct tidings_provider *p, struct tidings_str config,
                      struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void mount_close(struct tidings_provider *p)
{
    (void)p;
}

static void mount_read(struct tidings_provider *p, struct tidings_read *read,
                       struct tidings_str uri)
{
    (void)p;
    play(&mounted, read, uri);
}

static const struct tidings_provider_ops mount_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "script",
    .open = mount_open,
    .read = mount_read,
    .close = mount_close,
};

static void provider_content_follows_the_rules_too(void **state)
{
    (void)state;
    assert_int_equal(hub_mount(b.hub, &mount_ops, STR("m://x/"), STR_EMPTY, NULL, NULL), 0);
    harness_run_until_idle(&b);
    /* A container: its URI ends in '/', or its element marks it, whichever comes first. */
    mounted = (struct script){.pieces = {{.uri = "m://x/d/a", .text = "A"}}, .count = 1};
    assert_json(read_with("m://x/d/", NULL), "result|contents|0|uri", "m://x/d/a");
    const char *text = read_with("m://x/d", NULL);
    assert_json(text, "error|code", "-32603");
    assert_non_null(strstr(text, "under another URI ('m://x/d/a')"));
    mounted.pieces[1] = (struct piece){.uri = "m://x/d/", .text = "d", .is_listable = true};
    mounted.count = 2;
    text = read_with("m://x/d", NULL);
    assert_json(text, "result|contents|1|uri", "m://x/d/");
    assert_json(text, "result|contents|1|capabilities|list", "true");
    /* A container with a range returns only its own element. */
    text = read_with("m://x/d/", "\"" META "range\":{\"to\":1}");
    assert_json(text, "result|contents|0|uri", "m://x/d/");
    assert_no_json(text, "result|contents|1");
    /* Only a container may have no children. */
    mounted = (struct script){.count = 0};
    assert_json(read_with("m://x/d/", NULL), "result|contents", "[]");
    assert_json(read_with("m://x/d", NULL), "error|data|reason", "contents_rule");
}

/* ---- registering ----------------------------------------------------------------------------- */

static void registration_with_invalid_json_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *icons, *audience, *formats, *part;
    } rows[] = {
        {"[", "", "", "icons"},
        {"[1]", "", "", "icons must be a JSON array of objects"},
        {"", "{}", "", "audience must be a JSON array of strings"},
        {"", "", "[null]", "formats must be a JSON array of strings"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct script s = {.uri = "app:a"};
        struct tidings_resource more = {0};
        struct tidings_error err = {0};
        more.icons = tidings_str(rows[i].icons);
        more.audience = tidings_str(rows[i].audience);
        more.formats = tidings_str(rows[i].formats);
        assert_true(add(&s, &more, &err) < 0);
        assert_non_null(strstr(err.text, rows[i].part));
    }
}

/* ---- without memory -------------------------------------------------------------------------- */

static void failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    static struct script s = {
        .uri = "app:a",
        .pieces = {{.mime_type = "text/a", .text = "abc"}, {.mime_type = "text/b", .text = "cba"}},
        .count = 2,
    };
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        long before = fail_alloc_live();
        setup(NULL);
        must_add(&s);
        struct client *c = client_pipe(&b);
        client_handshake(c, "2025-11-25");
        fail_alloc_start(n);
        client_legacy(c, NULL, "1", "resources/read",
                      "\"uri\":\"app:a\",\"_meta\":{\"" META "range\":{\"last\":2},\"" META
                      "accept\":[\"text/b\",\"text/a\"]}");
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        if (!reached) {
            assert_json(client_nth_kind(c, SAID_ANSWER, 1)->text, "result|contents|0|text", "ba");
        }
        client_free(c);
        teardown(NULL);
        assert_int_equal(fail_alloc_live(), before);
    }
    fail_alloc_end();
}

int main(void)
{
#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        READ_TEST(reads_have_an_age_and_an_etag),
        READ_TEST(content_with_the_client_etag_is_not_sent_again),
        READ_TEST(range_is_cut_out_of_handler_content),
        READ_TEST(range_lets_a_read_exceed_the_size_limit),
        READ_TEST(alternatives_are_completed_and_selectable),
        READ_TEST(content_rules_are_enforced_and_named),
        READ_TEST(listable_resource_returns_its_children_or_nothing),
        READ_TEST(invalid_utf8_text_is_returned_as_a_blob),
        READ_TEST(range_is_returned_only_on_request_with_offset),
        READ_TEST(provider_content_follows_the_rules_too),
        READ_TEST(registration_with_invalid_json_is_refused),
        cmocka_unit_test(failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
