/* SPDX-License-Identifier: MIT
 *
 * The list of names that other tools follow without being asked, by who follows them. A mirror may
 * lie on a file system that takes several spellings for one name, or be copied to one later, so a
 * name is compared in the form that the laxest of them gives it.
 */
#include "bin/sync/control_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FOLDED_MAX 64u /* longer than every name of the list */

#define FOLLOW(who) who " follow files of that name unasked; --control-files writes them too"

/* In lower case, a blank between names. A '*' at the end stands for any text. "head": with objects
 * and refs beside it a directory is a repository, which has a config. */
static const struct {
    const char *who, *names;
} lists[] = {
    {FOLLOW("version control systems"),
     ".git git~1 .gitmodules .gitattributes .gitconfig .git-credentials head .hg .hgrc .svn .bzr "
     ".jj .sl _darcs"},
    {FOLLOW("hooks and build services"),
     ".husky .githooks .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.* lefthook-local.* "
     ".lefthook* .overcommit.yml .github .gitlab-ci.yml .gitea .forgejo .circleci .travis.yml "
     ".buildkite .woodpecker* .drone.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml"},
    {FOLLOW("agents and MCP clients"),
     ".mcp.json mcp.json tidings.json .tidings-* .claude* claude.md claude.local.md agents.md "
     "agents.override.md gemini.md .codex .gemini .aider* .cursor* .windsurf* .cline* .roo* "
     ".continue* .kiro .junie .amazonq .goosehints .opencode opencode.json*"},
    {FOLLOW("editors"),
     ".vscode .idea .fleet .zed .vs .helix .devcontainer* .vimrc _vimrc .gvimrc .vim .exrc .nvimrc "
     ".nvim.lua .lvimrc .dir-locals* .emacs* .projectile .sublime* .eslintrc* eslint.config.* "
     ".pylintrc"},
    {FOLLOW("shells"),
     ".env* .direnv* .autoenv* .mise* mise.toml mise.local.toml .tool-versions .venv .bash* .zsh* "
     ".zprofile .zlogin .zlogout .profile .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc "
     ".xinitrc .xprofile .xsession* .xresources .pam_environment .config .local .tmux.conf "
     ".screenrc"},
    {FOLLOW("programs that keep their settings there"),
     ".ssh .shosts .rhosts .gnupg .netrc .aws .azure .kube .docker .curlrc .wgetrc .gdbinit "
     ".gdbearlyinit .lldbinit* .psqlrc .sqliterc .my.cnf .mailcap .forward .procmailrc "
     ".terraformrc .ansible.cfg ansible.cfg"},
    {FOLLOW("package managers and interpreters"),
     ".npmrc .yarn* .pnp.* .pnpm* bunfig.toml .pypirc .pip .pydistutils.cfg .condarc .bundle "
     ".gemrc .irbrc .pryrc .rspec .cargo .mvn .m2 .gradle .nuget nuget.config .sbtopts .jvmopts "
     ".rprofile .renviron .iex.exs .ghci .ocamlinit .swiftpm"},
    {FOLLOW("web servers and desktops"),
     ".htaccess .user.ini web.config desktop.ini autorun.inf .directory"},
};

/* ---- one form of a name ---------------------------------------------------------------------- */

/* The next character; bytes that are no UTF-8 stand for themselves. */
static uint32_t next_character(const unsigned char **at, const unsigned char *end)
{
    const unsigned char *p = *at;
    size_t more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : p[0] >= 0xc2 ? 1 : 0;
    uint32_t c = more > 0 ? p[0] & (0x3fu >> more) : p[0];
    if (more > (size_t)(end - p) - 1) {
        more = 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            *at = p + 1;
            return p[0];
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    *at = p + 1 + more;
    return more > 0 ? c : p[0];
}

/* Characters that file systems leave out when they compare (HFS+, ext4 with casefold). */
static bool is_ignored(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},
                  {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f},   {0x202a, 0x202e},
                  {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
                  {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (c >= ranges[i].first && c <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

/* What becomes ASCII when case is folded (Unicode, CaseFolding.txt, status C and F). */
static const char *folded(uint32_t c)
{
    static const struct {
        uint32_t c;
        const char *text;
    } rows[] = {{0xdf, "ss"},    {0x17f, "s"},   {0x1e9e, "ss"}, {0x212a, "k"},
                {0xfb00, "ff"},  {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"},
                {0xfb04, "ffl"}, {0xfb05, "st"}, {0xfb06, "st"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].c == c) {
            return rows[i].text;
        }
    }
    return NULL;
}

/* Lower case, without what is not seen, what is behind a colon (a stream of NTFS), and dots and
 * blanks at the end (which Windows leaves off). Cut when it is longer than all of the list. */
static void control_file_fold(const char *name, size_t len, char out[FOLDED_MAX])
{
    const unsigned char *at = (const unsigned char *)name, *end = at + len;
    size_t n = 0;
    while (at < end && n + 4 < FOLDED_MAX) {
        uint32_t c = next_character(&at, end);
        const char *text = folded(c);
        if (c == ':') {
            break;
        }
        if (text) {
            memcpy(out + n, text, strlen(text));
            n += strlen(text);
        } else if (!is_ignored(c)) {
            out[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c < 128 ? c : '?');
        }
    }
    while (n > 0 && (out[n - 1] == '.' || out[n - 1] == ' ')) {
        n--;
    }
    out[n] = '\0';
}

static bool is_listed(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (size_t n; *names; names += n + (names[n] == ' ' ? 1 : 0)) {
        n = strcspn(names, " ");
        bool is_begin = names[n - 1] == '*';
        size_t same = is_begin ? n - 1 : n;
        if (len >= same && (is_begin || len == same) && memcmp(name, names, same) == 0) {
            return true;
        }
    }
    return false;
}

const char *control_file(const char *path)
{
    char name[FOLDED_MAX];
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        control_file_fold(at, len, name);
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            if (is_listed(lists[i].names, name)) {
                return lists[i].who;
            }
        }
        at += len + (at[len] == '/' ? 1 : 0);
    }
    return NULL;
}
