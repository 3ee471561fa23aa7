/* SPDX-License-Identifier: MIT
 *
 * Writes and removes files below a directory, one openat(2) for each part of a path.
 */
#include "cli/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------------
 * Converts URIs to file paths, and rejects URIs that have no valid path.
 */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Append one decoded segment to the `*len` bytes in `out`. */
static const char *add_segment(struct tidings_str s, char out[LOCAL_NAME_MAX], size_t *len)
{
    size_t begin = *len;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = s.len - i > 2 ? digit(s.ptr[i + 1]) : -1;
            int low = s.len - i > 2 ? digit(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return "a '%' in it encodes nothing";
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '?' || c == '#') {
            return "it has a query or a fragment";
        }
        if (c == '\0' || c == '/') {
            return "a name in it holds a slash or a NUL";
        }
        if (*len - begin >= LOCAL_SEGMENT_MAX || *len + 2 >= LOCAL_NAME_MAX) {
            return "it is too long for a file's name";
        }
        out[(*len)++] = c;
    }
    size_t n = *len - begin;
    if (n == 0 || (n <= 2 && memcmp(out + begin, "..", n) == 0)) {
        return "a name in it is empty, '.' or '..'";
    }
    return NULL;
}

const char *local_name(struct tidings_str base, struct tidings_str uri, char out[LOCAL_NAME_MAX])
{
    size_t len = 0, depth = 0;
    if (uri.len <= base.len || base.len == 0 || memcmp(uri.ptr, base.ptr, base.len) != 0) {
        return "it is not below what is mirrored";
    }
    struct tidings_str rest = tidings_strn(uri.ptr + base.len, uri.len - base.len);
    if (rest.ptr[rest.len - 1] == '/') {
        rest.len--;
    }
    do {
        const char *slash = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
        size_t n = slash ? (size_t)(slash - rest.ptr) : rest.len;
        const char *why = add_segment(tidings_strn(rest.ptr, n), out, &len);
        if (why) {
            return why;
        }
        if (++depth > LOCAL_DEPTH_MAX) {
            return "it is too deep";
        }
        n += slash ? 1 : 0;
        rest = tidings_strn(rest.ptr + n, rest.len - n);
        if (slash) {
            out[len++] = '/';
        }
        if (slash && rest.len == 0) {
            return "a name in it is empty, '.' or '..'";
        }
    } while (rest.len > 0);
    out[len] = '\0';
    return strncmp(out, LOCAL_RESERVED, sizeof(LOCAL_RESERVED) - 1) == 0
               ? "the mirror itself uses such names"
               : NULL;
}

/* -------------------------------------------------------------------------------------------------
 * The names that other tools follow automatically, listed by tool. A mirror may be on a file system
 * that treats several spellings as one name, or may be copied to one later, so names are compared
 * in the form of the laxest file system.
 */

#define FOLDED_MAX 64u /* longer than every name of the list */

#define FOLLOW(who) who " follow files of that name unasked; --control-files writes them too"

/* In lower case, a blank between names. A trailing '*' matches any rest. "head": a directory with
 * that file, objects and refs is a repository, which has a config. */
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

/* ---- normalized names ------------------------------------------------------------------------ */

/* The next character; a byte that is not valid UTF-8 is returned unchanged. */
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

/* Characters that file systems ignore when they compare names (HFS+, ext4 with casefold). */
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

/* Characters that case folding maps to ASCII (Unicode, CaseFolding.txt, status C and F). */
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

/* Fold to lower case. Drop ignorable characters, everything from a colon on (an NTFS stream), and
 * trailing dots and blanks (which Windows drops). Truncate beyond the longest name of the list. */
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

/* ---------------------------------------------------------------------------------------------- */

#define TEMPORARY LOCAL_RESERVED "tmp" /* one is enough, because the directory is locked */

int folder_open(const char *dir, int *ret_fd)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
        return errno;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
        }
        return errnum;
    }
    *ret_fd = fd;
    return 0;
}

int folder_open_existing(const char *dir, int *ret_fd)
{
    char empty[] = "/tmp/tidings-sync-XXXXXX";
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkdtemp(empty)) {
        fd = open(empty, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rmdir(empty);
    }
    *ret_fd = fd;
    return fd < 0 ? errno : 0;
}

/* The directory of the last name, a descriptor to close; -1 with errno. */
static int open_parent(int root, const char *path, const char **ret_last)
{
    int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[LOCAL_SEGMENT_MAX + 1];
        size_t len = (size_t)(slash - path);
        int next = -1;
        errno = ENAMETOOLONG;
        if (len < sizeof(name)) {
            memcpy(name, path, len);
            name[len] = '\0';
            next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        int errnum = errno;
        close(at);
        errno = errnum;
        at = next;
    }
    *ret_last = path;
    return at;
}

int folder_stat(int root, const char *path, struct stat *ret)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = fstatat(at, last, ret, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
    close(at);
    return errnum;
}

/* ---- atomic files ---------------------------------------------------------------------------- */

int folder_begin(int root, int *ret_fd)
{
    unlinkat(root, TEMPORARY, 0); /* left by a killed process */
    *ret_fd = openat(root, TEMPORARY, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return *ret_fd < 0 ? errno : 0;
}

int folder_add(int fd, struct tidings_str bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        n = n > 0 ? n : 0;
        bytes = tidings_strn(bytes.ptr + n, bytes.len - (size_t)n);
    }
    return 0;
}

/* Reads up to `len` bytes at offset `at`; returns fewer at the end of the file or on an error. */
static size_t read_at(int fd, char *range, size_t len, off_t at)
{
    size_t done = 0;
    for (ssize_t n = 1; n > 0 && done<len; done += n> 0 ? (size_t)n : 0) {
        n = pread(fd, range + done, len - done, at + (off_t)done);
    }
    return done;
}

static bool same_bytes(int one, int other, off_t size)
{
    char a[32768], b[32768];
    for (off_t at = 0; at < size;) {
        size_t n = read_at(one, a, sizeof(a), at);
        if (n == 0 || read_at(other, b, sizeof(b), at) != n || memcmp(a, b, n) != 0) {
            return false;
        }
        at += (off_t)n;
    }
    return true;
}

bool folder_holds(int root, const char *path, int fd)
{
    const char *last;
    struct stat here, there;
    int at = open_parent(root, path, &last);
    int own = at < 0 ? -1 : openat(at, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool holds = own >= 0 && fstat(own, &here) == 0 && S_ISREG(here.st_mode) &&
                 fstat(fd, &there) == 0 && here.st_size == there.st_size &&
                 same_bytes(own, fd, here.st_size);
    if (own >= 0) {
        close(own);
    }
    if (at >= 0) {
        close(at);
    }
    return holds;
}

/* Returns true if the file is still the one in `seen`. */
static bool is_still(int at, const char *name, const struct stat *seen)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == seen->st_ino &&
           st.st_size == seen->st_size && st.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec;
}

/* Renames, but never replaces a file. musl before 1.2.5 has no function for it. */
static int folder_rename_new(int root, int at, const char *name)
{
#ifdef RENAME_NOREPLACE
    return renameat2(root, TEMPORARY, at, name, RENAME_NOREPLACE);
#else
    return (int)syscall(SYS_renameat2, root, TEMPORARY, at, name, 1);
#endif
}

/* Put the file at an unused path; 0 or an errno. */
static int put_new(int root, int at, const char *name)
{
    struct stat st;
    if (folder_rename_new(root, at, name) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
    /* The file system does not support it. */
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? EEXIST
           : renameat(root, TEMPORARY, at, name) < 0        ? errno
                                                            : 0;
}

int folder_put(int root, const char *path, int fd, const struct stat *seen)
{
    const char *last;
    int at = open_parent(root, path, &last);
    int errnum = at < 0 ? errno : 0;
    if (errnum == 0 && !seen) {
        errnum = put_new(root, at, last);
    } else if (errnum == 0) {
        errnum = !is_still(at, last, seen)                 ? EEXIST
                 : renameat(root, TEMPORARY, at, last) < 0 ? errno
                                                           : 0;
    }
    if (errnum) {
        unlinkat(root, TEMPORARY, 0);
    }
    close(fd);
    if (at >= 0) {
        close(at);
    }
    return errnum;
}

void folder_drop(int root, int fd)
{
    unlinkat(root, TEMPORARY, 0);
    close(fd);
}

/* ---- directories and removal ----------------------------------------------------------------- */

int folder_make(int root, const char *path)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = mkdirat(at, last, 0777) < 0 ? errno : 0;
    close(at);
    return errnum;
}

int folder_remove(int root, const char *path, bool is_directory)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = unlinkat(at, last, is_directory ? AT_REMOVEDIR : 0) < 0 ? errno : 0;
    close(at);
    return errnum;
}
