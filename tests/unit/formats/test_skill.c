/* SPDX-License-Identifier: MIT
 *
 * Names and roots of skills, and the untrusted entries that are accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/uri.h"

static void names_follow_the_rules_of_agent_skills(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_valid;
    } rows[] = {
        {"pdf", true}, {"pdf-2", true}, {"2", true},     {"", false},         {"-a", false},
        {"a-", false}, {"a--b", false}, {"A", false},    {"a_b", false},      {"a b", false},
        {"..", false}, {"a/b", false},  {"$(x)", false}, {"\xc3\xa9", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(skill_name_is_valid(tidings_str(rows[i].name)), rows[i].is_valid);
    }
    char name[66];
    memset(name, 'a', sizeof(name));
    assert_true(skill_name_is_valid(tidings_strn(name, 64)));
    assert_false(skill_name_is_valid(tidings_strn(name, 65)));
}

static void root_and_name_come_from_the_uri_of_the_skill_file(void **state)
{
    (void)state;
    assert_true(str_eq(skill_root(STR("skill://a/b/SKILL.md")), STR("skill://a/b/")));
    assert_true(str_eq(skill_name(STR("skill://a/b/SKILL.md")), STR("b")));
    assert_true(str_eq(skill_root(STR("skill://a/SKILL.md")), STR("skill://a/")));
    static const char *const none[] = {"skill://SKILL.md",   "skill://a/skill.md", "SKILL.md",
                                       "skill:///SKILL.md",  "/SKILL.md",          "",
                                       "skill://a/SKILL.md/"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(skill_root(tidings_str(none[i])).len, 0);
    }
}

static void digest_is_sha_256(void **state)
{
    (void)state;
    char digest[SKILL_DIGEST_SIZE];
    skill_digest(STR("abc"), digest);
    assert_string_equal(digest,
                        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void files_belong_to_their_skill_in_any_spelling(void **state)
{
    (void)state;
    struct tidings_str root = STR("skill://a/b/");
    static const char *const in[] = {"skill://a/b/c", "skill://a/b/c/d.md", "skill://a/b/c%2Bd",
                                     "SKILL://A/b/c"};
    static const char *const out[] = {
        "skill://a/b/",
        "skill://a/b",
        "skill://a/b/../c",
        "skill://a/b/%2e%2e/c",
        "skill://a/bc/d",
        "skill://a/b/c/",
        "skill://a/b/c?d",
        "skill://a/b/c\\d",
        "skill://a/b/c%2Fd",
        "skill://a/b/c%00",
        "skill://a/b/c#d",
        "file:///etc/passwd",
        "",
        "skill://a/b/\x1b[2Jc",
    };
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
        assert_true(skill_holds(root, tidings_str(in[i])));
    }
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
        if (skill_holds(root, tidings_str(out[i]))) {
            fail_msg("%s", out[i]);
        }
    }
}

#define DIGEST "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define FRONT "\"frontmatter\":{\"name\":\"b\",\"description\":\"d\"}"
#define FILE_AT(uri, size) "{\"uri\":\"" uri "\",\"digest\":\"" DIGEST "\",\"size\":" size "}"
#define ENTRY(files) "{\"uri\":\"skill://a/b/SKILL.md\"," FRONT ",\"resources\":" files "}"
#define OWN FILE_AT("skill://a/b/SKILL.md", "3")

static int checked(const char *text)
{
    struct json *entry = NULL;
    struct tidings_error err = {0};
    assert_int_equal(jv_parse(tidings_str(text), 16, &entry, NULL), 0);
    int rc = skill_check_entry(entry, &err);
    assert_true(rc == 0 || err.text[0] != '\0');
    jv_unref(entry);
    return rc;
}

static void entries_are_accepted_completely_or_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        int code;
    } rows[] = {
        {ENTRY("[" OWN "]"), 0},
        {ENTRY("[" OWN "," FILE_AT("skill://a/b/c", "16777213") "]"), 0},
        {ENTRY("\"dynamic\""), 0},
        {ENTRY("[" OWN "," FILE_AT("skill://a/b/c", "16777214") "]"), TIDINGS_E_LIMIT},
        {ENTRY("[" OWN "," FILE_AT("skill://a/b/c", "-1") "]"), TIDINGS_E_PARSE},
        {ENTRY("[" OWN "," FILE_AT("skill://a/b/c", "1.5") "]"), TIDINGS_E_PARSE},
        {ENTRY("[" OWN "," FILE_AT("skill://a/b/c", "9223372036854775807") "]"), TIDINGS_E_LIMIT},
        {ENTRY("[" OWN "," FILE_AT("skill://a/x", "1") "]"), TIDINGS_E_PARSE},
        {ENTRY("[" OWN "," OWN "]"), TIDINGS_E_PARSE},
        {ENTRY("[" FILE_AT("skill://a/b/c", "1") "]"), TIDINGS_E_PARSE},
        {ENTRY("[" OWN ",{\"uri\":\"skill://a/b/c\",\"size\":1}]"), TIDINGS_E_PARSE},
        {ENTRY("[" OWN ",7]"), TIDINGS_E_PARSE},
        {ENTRY("[]"), TIDINGS_E_PARSE},
        {ENTRY("\"static\""), TIDINGS_E_PARSE},
        {ENTRY("null"), TIDINGS_E_PARSE},
        {"{\"uri\":\"skill://a/c/SKILL.md\"," FRONT ",\"resources\":\"dynamic\"}", TIDINGS_E_PARSE},
        {"{" FRONT ",\"resources\":\"dynamic\"}", TIDINGS_E_PARSE},
        {"{\"uri\":\"skill://a/b/SKILL.md\",\"resources\":\"dynamic\"}", TIDINGS_E_PARSE},
        {"7", TIDINGS_E_PARSE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (checked(rows[i].entry) != rows[i].code) {
            fail_msg("%s", rows[i].entry);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_rules_of_agent_skills),
        cmocka_unit_test(root_and_name_come_from_the_uri_of_the_skill_file),
        cmocka_unit_test(digest_is_sha_256),
        cmocka_unit_test(files_belong_to_their_skill_in_any_spelling),
        cmocka_unit_test(entries_are_accepted_completely_or_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
