/* SPDX-License-Identifier: MIT
 *
 * File names that other tools obey on their own are recognized in every spelling that a file system
 * may treat as equal, anywhere in a path; ordinary names are accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/folder.h"

static void control_files_of_tools_are_recognized(void **state)
{
    (void)state;
    static const char *const bad[] = {
        ".git",          ".git/config",    "a/b/.git",        ".git/hooks/post-checkout",
        ".GIT/config",   ".Git",           ".gitmodules",     "sub/HEAD",
        ".envrc",        ".env",           ".env.local",      ".mcp.json",
        "tidings.json",  "x/tidings.json", ".vscode/a",       ".idea/workspace.xml",
        ".husky/_/x",    ".github/x",      ".npmrc",          ".yarnrc.yml",
        ".yarn/x.cjs",   ".bashrc",        ".bash_profile",   ".ssh/authorized_keys",
        ".config/x",     ".cargo/config",  ".gdbinit",        ".pre-commit-config.yaml",
        "CLAUDE.md",     "AGENTS.md",      ".cursorrules",    ".cursor/mcp.json",
        ".htaccess",     "desktop.ini",    "a/.tidings-sync", ".devcontainer/x",
        ".dir-locals.el"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!control_file(bad[i])) {
            fail_msg("'%s' passes for ordinary", bad[i]);
        }
    }
    assert_string_equal(control_file("a/.git/x"),
                        "version control systems follow files of that name unasked; "
                        "--control-files writes them too");
}

static void control_files_are_recognized_in_every_spelling(void **state)
{
    (void)state;
    static const char *const bad[] = {
        ".git.",
        ".git ",
        ".git. . .",
        ".git::$INDEX_ALLOCATION",
        ".git:x/config",
        "GIT~1/config",
        ".g\xe2\x80\x8cit",          /* U+200C, not seen */
        "\xef\xbb\xbf.git",          /* U+FEFF */
        ".git\xf3\xa0\x84\x80",      /* U+E0100 */
        ".\xc5\xbf\xc5\xbfh/config", /* long s: .ssh on a case-folding file system */
        ".\xc3\x9fh/config",         /* sharp s */
        ".hus\xe2\x84\xaay",         /* the sign of kelvin */
        ".pro\xef\xac\x81le",        /* fi in one character: .profile */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!control_file(bad[i])) {
            fail_msg("spelling %zu, '%s', passes for ordinary", i, bad[i]);
        }
    }
}

static void ordinary_files_are_accepted(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a.txt",          "git",        "git/config",  "a.git/x",      "Makefile",
        "package.json",   ".gitignore", ".gitkeep",    ".hidden",      ".editorconfig",
        "config",         "src/main.c", "headers/x.h", "head.S",       "README.md",
        "agents-of-x.md", "..git",      ".gi",         ".github.txt",  "\xc3\xa9t\xc3\xa9",
        "\xff\xfe",       "\xe2",       "\xf0\x9f",    ".mcp.json.md", "env",
        "x/y/z",          ".",          "..."};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (control_file(good[i])) {
            fail_msg("'%s' is refused: %s", good[i], control_file(good[i]));
        }
    }
    char name[300];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_null(control_file(name));
    memcpy(name, ".bash", 5);
    assert_non_null(control_file(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_files_of_tools_are_recognized),
        cmocka_unit_test(control_files_are_recognized_in_every_spelling),
        cmocka_unit_test(ordinary_files_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
