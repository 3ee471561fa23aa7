/* SPDX-License-Identifier: MIT
 *
 * skills/list and skills/get on a worker: files that arrive at once, later or never, many bytes,
 * clients that disconnect early, and failed allocations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

#define LARGE_BYTES (700u * 1024u)

static struct harness b;

/* A mount of skills: `a`, with one more large file for each of `large`, and `b`. */
static struct {
    unsigned large, reads;
    bool has_etags, holds, is_busy;
    bool is_nested; /* `b` is inside `a` */
    struct tidings_read *held;
} skills;
static char large_text[LARGE_BYTES];

static int skills_open(struct tidings_provider *p, struct tidings_str config,
                       struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void skills_close(struct tidings_provider *p)
{
    (void)p;
}

static void give(struct tidings_read *read, struct tidings_str text)
{
    struct tidings_error err = {0};
    int rc = tidings_read_text(read, NULL, text, &err);
    tidings_read_done(read, rc, &err);
}

static void skills_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    (void)p;
    skills.reads++;
    if (skills.holds) {
        skills.held = read;
    } else if (skills.is_busy && skills.reads == 2) {
        tidings_read_done(read, TIDINGS_E_BUSY, NULL);
    } else if (str_eq(uri, STR("skill://a/SKILL.md"))) {
        give(read, STR("---\nname: a\ndescription: first\n---\n"));
    } else if (str_eq(uri, STR("skill://b/SKILL.md")) || str_eq(uri, STR("skill://a/b/SKILL.md"))) {
        give(read, STR("---\nname: b\ndescription: second\n---\n"));
    } else {
        give(read, tidings_strn(large_text, LARGE_BYTES));
    }
}

static void skills_list(struct tidings_provider *p, struct tidings_list *list)
{
    char uri[64];
    struct tidings_error err = {0};
    (void)p;
    int rc = 1;
    for (unsigned i = 0; rc > 0 && i < skills.large + 2; i++) {
        snprintf(uri, sizeof(uri), "skill://a/%02u", i);
        struct tidings_resource row =
            tidings_resource(i == 0                  ? "skill://a/SKILL.md"
                             : i == skills.large + 1 ? (skills.is_nested ? "skill://a/b/SKILL.md"
                                                                         : "skill://b/SKILL.md")
                                                     : uri,
                             "x", "text/plain");
        row.etag = skills.has_etags ? STR("1") : STR_EMPTY;
        /* In order: digits come before letters. */
        row.uri = i == 0 && skills.large > 0 ? STR("skill://a/00") : row.uri;
        rc = tidings_list_add(list, &row, &err);
        if (rc > 0 && i == skills.large) {
            struct tidings_resource own =
                tidings_resource("skill://a/SKILL.md", "SKILL.md", "text/markdown");
            own.etag = row.etag;
            rc = skills.large > 0 ? tidings_list_add(list, &own, &err) : rc;
        }
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static const struct tidings_provider_ops skills_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "skills",
    .open = skills_open,
    .read = skills_read,
    .list = skills_list,
    .close = skills_close,
};

static int begin(void **state)
{
    struct tidings_error err = {0};
    (void)state;
    memset(&skills, 0, sizeof(skills));
    memset(large_text, 'x', sizeof(large_text));
    harness_init(&b);
    b.limits.max_read_bytes = 1u << 20;
    harness_start(&b);
    assert_int_equal(hub_mount(b.hub, &skills_ops, STR("skill://"), STR_EMPTY, NULL, &err), 0);
    harness_run_until_idle(&b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->jobs, 0);
    harness_stop(&b);
    return 0;
}

static void skills_are_listed_with_their_resources(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    const char *answer = client_ask(c, "skills/list", NULL);
    assert_json(answer, "result|skills|0|frontmatter|description", "first");
    assert_json(answer, "result|skills|1|uri", "skill://b/SKILL.md");
    assert_json(answer, "result|skills|1|resources|0|size", "36");
    client_free(c);
}

static void skill_with_known_etag_is_not_read_again(void **state)
{
    (void)state;
    for (unsigned has_etags = 0; has_etags < 2; has_etags++) {
        skills.has_etags = has_etags;
        skills.reads = 0;
        for (unsigned i = 0; i < 3; i++) {
            struct client *c = client_http(&b);
            assert_json(client_ask(c, "skills/list", NULL), "result|skills|1|uri",
                        "skill://b/SKILL.md");
            client_free(c);
        }
        assert_int_equal(skills.reads, has_etags ? 2 : 6);
    }
}

/* A skill of many bytes is hashed in several turns of the worker; a small one in one. */
static void long_reads_yield_to_other_requests(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_modern(c, "1", "skills/get", "\"uri\":\"skill://a/SKILL.md\"");
    assert_false(c->is_waiting);
    client_free(c);
    skills.large = 9;
    c = client_http(&b);
    client_modern(c, "1", "skills/get", "\"uri\":\"skill://a/SKILL.md\"");
    assert_true(c->is_waiting);
    struct client *other = client_http(&b);
    client_modern(other, "2", "server/discover", NULL);
    assert_false(other->is_waiting);
    assert_true(c->is_waiting);
    harness_run_until_idle(&b);
    assert_false(c->is_waiting);
    assert_json(c->said[0].text, "result|skill|resources|9|size", "716800");
    client_free(other);
    client_free(c);
}

/* An excess of bytes is found during the read if the list does not show it. */
static void oversized_skill_is_omitted(void **state)
{
    (void)state;
    skills.large = 24;
    struct client *c = client_http(&b);
    const char *answer = client_ask(c, "skills/get", "\"uri\":\"skill://a/SKILL.md\"");
    assert_json(answer, "error|code", "-32602");
    assert_non_null(strstr(answer, "at most 16 MiB"));
    /* The read was long enough to end the page. */
    answer = client_ask(c, "skills/list", NULL);
    char cursor[128];
    snprintf(cursor, sizeof(cursor), "\"cursor\":\"%s\"", json_at(answer, "result|nextCursor"));
    answer = client_ask(c, "skills/list", cursor);
    assert_json(answer, "result|skills|0|uri", "skill://b/SKILL.md");
    client_free(c);
}

/* A list without a skill claims that the skill does not exist. */
static void unreadable_skill_fails_the_list(void **state)
{
    (void)state;
    skills.is_busy = true;
    struct client *c = client_http(&b);
    const char *answer = client_ask(c, "skills/list", NULL);
    assert_null(strstr(answer, "\"result\""));
    assert_non_null(strstr(answer, "\"error\""));
    assert_json(client_ask(c, "skills/list", NULL), "result|skills|1|uri", "skill://b/SKILL.md");
    client_free(c);
}

/* The cached facts of its SKILL.md may be from an earlier read as a file of the other skill. */
static void nested_skill_has_its_own_front_matter(void **state)
{
    (void)state;
    skills.has_etags = skills.is_nested = true;
    for (unsigned i = 0; i < 2; i++) {
        struct client *c = client_http(&b);
        static const char *const asked[] = {"\"uri\":\"skill://a/SKILL.md\"",
                                            "\"uri\":\"skill://a/b/SKILL.md\""};
        const char *answer = client_ask(c, "skills/get", asked[i]);
        assert_json(answer, "result|skill|frontmatter|description", i == 0 ? "first" : "second");
        answer = client_ask(c, "skills/list", NULL);
        assert_json(answer, "result|skills|0|frontmatter|description", "first");
        assert_json(answer, "result|skills|0|resources|1|uri", "skill://a/b/SKILL.md");
        assert_json(answer, "result|skills|1|frontmatter|description", "second");
        client_free(c);
    }
}

static void client_can_leave_while_files_are_read(void **state)
{
    (void)state;
    for (unsigned large = 0; large < 10; large += 9) { /* … or while other requests run */
        skills.large = large;
        skills.holds = large == 0;
        struct client *c = client_http(&b);
        client_modern(c, "1", "skills/list", NULL);
        assert_true(c->is_waiting);
        client_vanish(c);
        if (skills.holds) {
            assert_true(tidings_read_cancelled(skills.held));
            skills.holds = false;
            give(skills.held, STR("late"));
        }
        harness_run_until_idle(&b);
        assert_int_equal(b.worker[0]->jobs, 0);
        client_free(c);
    }
}

static void failed_allocation_is_answered(void **state)
{
    (void)state;
    static const char *const asked[] = {"skills/list", "skills/get"};
    for (unsigned k = 0; k < 2; k++) {
        bool reached = true;
        for (long n = 1; reached; n++) {
            fail_alloc_start(0);
            long live = fail_alloc_live();
            begin(NULL);
            skills.has_etags = true;
            struct client *c = client_http(&b);
            fail_alloc_start(n);
            client_modern(c, "1", asked[k], k == 0 ? NULL : "\"uri\":\"skill://b/SKILL.md\"");
            harness_run_until_idle(&b);
            reached = fail_alloc_stop();
            assert_false(c->is_waiting);
            client_free(c);
            end(NULL);
            assert_int_equal(fail_alloc_live(), live);
            assert_true(n < 10000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(skills_are_listed_with_their_resources, begin, end),
        cmocka_unit_test_setup_teardown(skill_with_known_etag_is_not_read_again, begin, end),
        cmocka_unit_test_setup_teardown(long_reads_yield_to_other_requests, begin, end),
        cmocka_unit_test_setup_teardown(oversized_skill_is_omitted, begin, end),
        cmocka_unit_test_setup_teardown(unreadable_skill_fails_the_list, begin, end),
        cmocka_unit_test_setup_teardown(nested_skill_has_its_own_front_matter, begin, end),
        cmocka_unit_test_setup_teardown(client_can_leave_while_files_are_read, begin, end),
        cmocka_unit_test(failed_allocation_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
