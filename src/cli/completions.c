/* SPDX-License-Identifier: MIT
 *
 * `tidings completions`: shell scripts, generated from the tables. They complete commands, options,
 * their values, names of servers, files, and names that a server offers.
 *
 * Some names of servers come from untrusted files (target.h), and other names come from the server.
 * Because a shell runs what it expands, `tidings servers --quiet` and `tidings completions --names`
 * print only plain names, and the scripts check them again.
 */
#include "cli/completions.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <tidings/client.h>
#include <tidings/json.h>
#include <tidings/server.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings completions --names`: the names of a server that may complete the line the user is
 * typing: URIs of resources, names of tools or prompts.
 *
 * The user has not submitted a command yet. Therefore:
 *
 * - No server is launched, and the user is not asked anything.
 * - A project's server is contacted only if the user approved it before (trust.h).
 * - TIDINGS_TOKEN is sent to a named server and to the one in TIDINGS_SERVER, but not to an address
 *   in the line.
 * - No message is printed. The command ends with status 0 after at most 200 ms, with the names
 *   received by then.
 * - Names are untrusted, and a shell runs the completed line: only names of plain characters are
 *   printed.
 */

/* -------------------------------------------------------------------------------------------------
 * The files with cached names of servers. Each is written to a temporary file and renamed, so
 * readers never see a partial file.
 */

#define HEAD "tidings-names 1 "
#define HEAD_MAX 128u
#define LOOKED_AT_MAX 1000u /* entries of the directory */

bool name_is_offered(struct tidings_str name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./"
                                "-~:%@+,=";
    const size_t first = sizeof(plain) - sizeof("-~:%@+,=");
    if (name.len == 0 || name.len > NAME_MAX_BYTES || !memchr(plain, name.ptr[0], first)) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!memchr(plain, name.ptr[i], sizeof(plain) - 1)) {
            return false;
        }
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Each line of the text, if every line is a valid name. */
static bool names_cache_each(struct tidings_str text, names_fn fn, void *user)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct tidings_str name = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        if (!end || !name_is_offered(name)) {
            return false;
        }
        if (fn) {
            fn(user, name);
        }
        text = tidings_strn(end + 1, text.len - name.len - 1);
    }
    return true;
}

bool names_cache_parse(struct tidings_str text, const char key[TIDINGS_DIGEST_MAX], int64_t now_s,
                       names_fn fn, void *user)
{
    char line[HEAD_MAX], again[HEAD_MAX];
    const char *end = memchr(text.ptr, '\n', text.len < HEAD_MAX ? text.len : HEAD_MAX - 1);
    if (!end || (size_t)(end - text.ptr) < sizeof(HEAD) - 1) {
        return false;
    }
    size_t len = (size_t)(end - text.ptr);
    memcpy(line, text.ptr, len);
    line[len] = '\0';
    int64_t then = strtoll(line + sizeof(HEAD) - 1, NULL, 10);
    snprintf(again, sizeof(again), HEAD "%" PRId64 " %s", then, key);
    bool is_good = strlen(line) == len && strcmp(line, again) == 0 && then <= now_s &&
                   then >= now_s - (int64_t)NAMES_CACHE_S;
    struct tidings_str names = {end + 1, text.len - len - 1};
    return is_good && names_cache_each(names, NULL, NULL) && names_cache_each(names, fn, user);
}

static int names_cache_path(const char *key, char path[PATH_MAX])
{
    struct tidings_error err = {0};
    char name[sizeof("names-") + TIDINGS_DIGEST_MAX];
    snprintf(name, sizeof(name), "names-%s", key);
    return user_file_path(path, "XDG_CACHE_HOME", "/.cache", name, &err);
}

bool names_cache_find(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, names_fn fn, void *user)
{
    struct tidings_error err = {0};
    char path[PATH_MAX];
    size_t len = 0;
    if (names_cache_path(key, path) < 0) {
        return false;
    }
    char *text = tidings_file_read(path, TIDINGS_FILE_FOUND, NAMES_CACHE_MAX, &len, &err);
    bool is_found = text && names_cache_parse(tidings_strn(text, len), key, now_s, fn, user);
    tidings_free(text);
    return is_found;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Remove expired files; returns true if there is room for one more. */
static bool names_cache_make_room(const char *directory, int64_t now_s)
{
    DIR *dir = opendir(directory);
    unsigned kept = 0, looked_at = 0;
    for (struct dirent *e; dir && looked_at < LOOKED_AT_MAX && (e = readdir(dir)) != NULL;) {
        struct stat st;
        looked_at++;
        if (strncmp(e->d_name, "names-", 6) != 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        bool is_old = st.st_mtime > now_s + (int64_t)NAMES_CACHE_S ||
                      st.st_mtime < now_s - (int64_t)NAMES_CACHE_S;
        if (!is_old || unlinkat(dirfd(dir), e->d_name, 0) < 0) {
            kept++;
        }
    }
    bool is_room = dir && kept < NAMES_CACHE_FILES && looked_at < LOOKED_AT_MAX;
    if (dir) {
        closedir(dir);
    }
    return is_room;
}

static bool names_cache_write(const char *path, const char *head, struct tidings_str lines)
{
    size_t len = strlen(head);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_done = fd >= 0 && write(fd, head, len) == (ssize_t)len &&
                   write(fd, lines.ptr, lines.len) == (ssize_t)lines.len;
    if (fd >= 0 && close(fd) < 0) {
        is_done = false;
    }
    return is_done;
}

void names_cache_save(const char key[TIDINGS_DIGEST_MAX], int64_t now_s, struct tidings_str lines)
{
    struct tidings_error err = {0};
    char path[PATH_MAX], aside[PATH_MAX + 32], head[HEAD_MAX];
    int n = snprintf(head, sizeof(head), HEAD "%" PRId64 " %s\n", now_s, key);
    if (names_cache_path(key, path) < 0 || (size_t)n + lines.len > NAMES_CACHE_MAX ||
        user_file_make_directories(path, &err) < 0) {
        return;
    }
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool is_room = names_cache_make_room(path, now_s);
    *slash = '/';
    snprintf(aside, sizeof(aside), "%s.%ld", path, (long)getpid());
    if (is_room && (!names_cache_write(aside, head, lines) || rename(aside, path) < 0)) {
        unlink(aside);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Queries the server of the line being typed for names, within an imperceptible time.
 */

#define TIME_MS 200u
#define TIME_MS_MAX 10000u
#define OFFERED_MAX 200u
#define MESSAGE_MIB 4u

/* ---- output ---------------------------------------------------------------------------------- */

/* The output: whole lines, fewer bytes than a pipe accepts without blocking. */
static char offered[OFFERED_MAX * (NAME_MAX_BYTES + 1)];
static atomic_size_t offered_len;

/* Prints the names once, from the program or when the time limit expires. */
static void print_offered(void)
{
    size_t len = atomic_exchange(&offered_len, 0);
    ssize_t n = len > 0 ? write(STDOUT_FILENO, offered, len) : 0;
    (void)n;
}

static void on_time_over(int number)
{
    (void)number;
    print_offered();
    _exit(0);
}

/* TIDINGS_COMPLETE: the time limit in ms; 0: no query. */
static uint64_t time_limit(void)
{
    const char *text = getenv("TIDINGS_COMPLETE");
    char *end = NULL;
    if (text && strcmp(text, "off") == 0) {
        return 0;
    }
    unsigned long ms = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return end && *end == '\0' && ms > 0 && ms <= TIME_MS_MAX ? ms : TIME_MS;
}

static void end_after(uint64_t ms)
{
    struct sigaction act = {.sa_handler = on_time_over};
    const struct itimerval timer = {
        .it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)},
    };
    sigset_t alarm;
    sigemptyset(&act.sa_mask);
    sigaction(SIGALRM, &act, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL); /* the parent may have blocked it */
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* From now on the reader of that stream receives nothing. */
static bool discard_stream(int fd)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool is_done = null >= 0 && dup2(null, fd) >= 0;
    if (null >= 0) {
        close(null);
    }
    return is_done;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct offering {
    const char *prefix, *pointer;
    size_t count;
    char *all; /* all names to cache: NAMES_CACHE_MAX bytes */
    size_t all_len;
    bool is_too_much; /* more than the cache takes */
};

static void offer(void *user, struct tidings_str name)
{
    struct offering *o = user;
    size_t len = strlen(o->prefix), at = atomic_load(&offered_len);
    if (o->count < OFFERED_MAX && name.len >= len && memcmp(name.ptr, o->prefix, len) == 0) {
        memcpy(offered + at, name.ptr, name.len);
        offered[at + name.len] = '\n';
        atomic_store(&offered_len, at + name.len + 1);
        o->count++;
    }
}

static int completion_on_item(void *user, struct tidings_str item)
{
    struct offering *o = user;
    char *text = tidings_json_string(item, o->pointer);
    struct tidings_str name = tidings_str(text);
    if (text && name_is_offered(name)) {
        offer(o, name);
        o->is_too_much = o->is_too_much || name.len + 1 > NAMES_CACHE_MAX - o->all_len;
        if (!o->is_too_much) {
            memcpy(o->all + o->all_len, name.ptr, name.len);
            o->all[o->all_len + name.len] = '\n';
            o->all_len += name.len + 1;
        }
    }
    tidings_free(text);
    return o->is_too_much && o->count == OFFERED_MAX;
}

static void ask_server(const struct cli *cli, enum tidings_listing list, const char *key,
                       int64_t now_s, struct offering *o)
{
    struct tidings_error err = {0};
    o->all = malloc(NAMES_CACHE_MAX);
    struct tidings_client *client = o->all ? target_open(cli, &err) : NULL;
    if (client) {
        int rc = tidings_client_list(client, list, completion_on_item, o, &err);
        print_offered();
        discard_stream(STDOUT_FILENO); /* the shell need not wait for the rest */
        if (rc == 0 && !o->is_too_much) {
            names_cache_save(key, now_s, tidings_strn(o->all, o->all_len));
        }
    }
    tidings_client_destroy(client);
    free(o->all);
}

/* ---- the line -------------------------------------------------------------------------------- */

static bool completion_asks(const struct command *command)
{
    return command->arg_kind >= ARG_RESOURCE;
}

static enum tidings_listing listing_of(const struct command *c)
{
    return c->arg_kind == ARG_TOOL     ? TIDINGS_LISTING_TOOLS
           : c->arg_kind == ARG_PROMPT ? TIDINGS_LISTING_PROMPTS
           : c->arg_kind == ARG_SKILL  ? TIDINGS_LISTING_SKILLS
                                       : TIDINGS_LISTING_RESOURCES;
}

/* The words come exactly as typed, perhaps cut at blanks. If a shell would expand a word, it may
 * name another server than the user means. */
static bool is_as_typed(const char *word)
{
    return strpbrk(word, "\"'\\$`(){}<>|;&*!# \t\r\n") == NULL;
}

/* The cache key: the server, the kind of names, and the client's credentials. */
static bool key_of(const struct cli *cli, const char *address, char key[TIDINGS_DIGEST_MAX])
{
    const char *parts[] = {cli->target,     address,      cli->token,     getenv("TIDINGS_TOKEN"),
                           cli->token_file, cli->ca_file, cli->cert_file, cli->key_file};
    struct json_text t;
    if (!json_text_begin(&t)) {
        return false;
    }
    fprintf(t.out, "%d %u %d", (int)listing_of(cli->command), cli->era, (int)cli->origin);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        put_quoted(t.out, tidings_str(parts[i] ? parts[i] : ""));
    }
    for (size_t i = 0; i < cli->headers.count; i++) {
        put_quoted(t.out, tidings_str(cli->headers.items[i]));
    }
    char *text = json_text_take(&t);
    if (text) {
        tidings_digest(tidings_str(text), key);
        explicit_bzero(text, strlen(text));
    }
    free(text);
    return text != NULL;
}

static void offer_names(struct cli *cli, const char *prefix)
{
    static const char *const pointers[] = {[TIDINGS_LISTING_RESOURCES] = "/uri",
                                           [TIDINGS_LISTING_TOOLS] = "/name",
                                           [TIDINGS_LISTING_PROMPTS] = "/name",
                                           [TIDINGS_LISTING_SKILLS] = "/uri"};
    struct tidings_error err = {0};
    char key[TIDINGS_DIGEST_MAX];
    enum tidings_listing list = listing_of(cli->command);
    struct offering o = {.prefix = prefix, .pointer = pointers[list]};
    int64_t now_s = (int64_t)time(NULL);
    char *address = target_address(cli, &err);
    if (address && key_of(cli, address, key) && !names_cache_find(key, now_s, offer, &o)) {
        ask_server(cli, list, key, now_s, &o);
    }
    tidings_free(address);
    print_offered();
}

static void read_line(const struct command *c, const char **words, size_t count, const char *prefix,
                      uint64_t ms)
{
    struct cli *cli = calloc(1, c->size > 0 ? c->size : sizeof(*cli));
    if (!cli) {
        return;
    }
    if (options_parse(cli, c, (int)count, (char **)(uintptr_t)words) == 0 && !cli->help &&
        !cli->launch) {
        cli->is_careful = true;
        cli->timeout_ms = ms;
        cli->max_message = MESSAGE_MIB;
        target_choose(cli);
        if (cli->arg_count == 0 || (c->arg_kind == ARG_RESOURCES && cli->arg_count < c->max_args)) {
            offer_names(cli, prefix);
        }
    }
    options_release(cli);
    free(cli);
}

/* Print the names that fit the line: a command, the words typed after it, and the start of the
 * name, which may be empty. Returns the exit status, 0. */
static int completion_names(const char **line, size_t count)
{
    uint64_t ms = time_limit();
    const struct command *c = count > 1 ? command_find(line[0]) : NULL;
    bool is_asked = ms > 0 && c && completion_asks(c) && line[count - 1][0] != '-';
    for (size_t i = 1; i + 1 < count && is_asked; i++) {
        is_asked = is_as_typed(line[i]);
    }
    if (is_asked) {
        end_after(ms);
    }
    if (is_asked && discard_stream(STDERR_FILENO)) {
        read_line(c, line + 1, count - 2, line[count - 1], ms);
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------- */

static FILE *out; /* the stream of the script */

static void completions_put_line(const char *text)
{
    fputs(text, out);
    fputc('\n', out);
}

/* An option, from any table. */
struct flag {
    const char *name; /* without dashes */
    char letter;
    bool has_value, is_file;
    const char *help;
    const char *const *choices;
};
typedef void (*flag_fn)(const struct command *command, const struct flag *flag);

static bool is_path(const char *metavar)
{
    return metavar && (strcmp(metavar, "FILE") == 0 || strcmp(metavar, "PATH") == 0);
}

static void each_flag(const struct command *c, flag_fn fn)
{
    struct tidings_config_option row;
    struct option_walk walk = {.command = c};
    for (size_t i = 0; c->run_raw && tidings_config_option(i, &row); i++) {
        struct flag flag = {row.name, 0,          row.metavar != NULL, is_path(row.metavar),
                            row.help, row.choices};
        fn(c, &flag);
    }
    for (const struct option *o; (o = option_next(&walk)) != NULL;) {
        struct flag flag = {o->name, o->letter, o->kind != OPTION_FLAG, o->kind == OPTION_FILE,
                            o->help, o->choices};
        fn(c, &flag);
    }
}

/* Names of commands: all of a group, or those without a group. */
static void put_names(const struct command *group, const char *separator)
{
    for (size_t i = 0; commands[i]; i++) {
        const char *blank = strchr(commands[i]->name, ' ');
        if (group ? command_is_in(commands[i], group) : !blank) {
            fprintf(out, "%s%s", separator, group ? blank + 1 : commands[i]->name);
        }
    }
}

static void put_words(const char *const *words)
{
    for (size_t i = 0; words[i]; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", words[i]);
    }
}

/* The groups as a pattern of a case statement. */
static void put_groups(void)
{
    bool is_first = true;
    for (size_t i = 0; commands[i]; i++) {
        if (command_is_group(commands[i])) {
            fprintf(out, "%s%s", is_first ? "" : " | ", commands[i]->name);
            is_first = false;
        }
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_value(const struct command *c, const struct flag *f)
{
    if (!f->has_value) {
        return;
    }
    fprintf(out, "    '%s:--%s'", c->name, f->name);
    if (f->letter) {
        fprintf(out, " | '%s:-%c'", c->name, f->letter);
    }
    if (f->choices) {
        fputs(") _tidings_words '", out);
        put_words(f->choices);
        completions_put_line("'; return ;;");
    } else if (strcmp(f->name, "target") == 0) {
        completions_put_line(") _tidings_servers; return ;;");
    } else {
        fprintf(out, ") %s ;;\n", f->is_file ? "_tidings_files; return" : "return");
    }
}

static void bash_flag(const struct command *c, const struct flag *f)
{
    (void)c;
    fprintf(out, " --%s", f->name);
}

static void bash_arguments(const struct command *c)
{
    fprintf(out, "    '%s')\n        flags='", c->name);
    each_flag(c, bash_flag);
    fputs("'\n", out);
    if (command_is_group(c)) {
        fputs("        words='", out);
        put_names(c, " ");
        fputs("'\n", out);
    } else if (c->arg_kind == ARG_COMMAND) {
        fputs("        words='exit", out);
        put_names(NULL, " ");
        fputs("'\n", out);
    } else if (c->arg_kind == ARG_SHELL) {
        completions_put_line("        words='bash zsh fish'");
    } else if (c->has_target) {
        completions_put_line(completion_asks(c) ? "        target=yes ask=yes"
                                                : "        target=yes");
    }
    completions_put_line("        ;;");
}

static void put_bash(void)
{
    fputs("# bash completion of tidings, made by 'tidings completions bash'\n"
          "_tidings_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
          "_tidings_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "}\n"
          "# compgen -W would expand what a file of strangers calls its servers\n"
          "_tidings_servers() {\n"
          "    local name\n"
          "    while IFS= read -r name; do\n"
          "        case $name in\n"
          "        '' | -* | *[!A-Za-z0-9._-]*) ;;\n"
          "        \"$cur\"*) COMPREPLY+=(\"$name\") ;;\n"
          "        esac\n"
          "    done < <(tidings servers --quiet 2>/dev/null)\n"
          "}\n"
          "# What a server has. COMP_WORDS are cut at ':', and only what is behind it is replaced\n"
          "_tidings_names() {\n"
          "    local line=${COMP_LINE:0:COMP_POINT} name head='' IFS=$' \\t\\n'\n"
          "    local breaks=${COMP_WORDBREAKS//[!:=@]/}\n"
          "    local -a typed\n"
          "    [[ $line == *$'\\n'* ]] && return\n"
          "    read -ra typed <<<\"$line\"\n"
          "    [[ $line == *[[:blank:]] ]] && typed+=('')\n"
          "    [[ ${typed[0]} == \"${COMP_WORDS[0]}\" ]] || return\n"
          "    local begun=${typed[-1]}\n"
          "    [[ -n $breaks ]] && head=${begun%\"${begun##*[$breaks]}\"}\n"
          "    while IFS= read -r name; do\n"
          "        case $name in\n"
          "        '' | [!A-Za-z0-9_./]* | *[!A-Za-z0-9._~:/%@+,=-]*) ;;\n"
          "        \"$begun\"*) COMPREPLY+=(\"${name#\"$head\"}\") ;;\n"
          "        esac\n"
          "    done < <(tidings completions --names -- \"${typed[@]:1}\" 2>/dev/null)\n"
          "}\n\n"
          "_tidings() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command='' flags='' words='' target='' ask='' i word given=0\n"
          "    COMPREPLY=()\n"
          "    # \"--era=auto\" are three words\n"
          "    if [[ $cur == '=' ]]; then\n"
          "        cur=''\n"
          "    elif [[ $prev == '=' ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        word=${COMP_WORDS[i]}\n"
          "        if [[ $word == -- ]]; then\n"
          "            _tidings_files\n"
          "            return\n"
          "        elif [[ -z $command ]]; then\n"
          "            command=$word\n"
          "        elif [[ $word != -* ]]; then\n"
          "            case $command in\n            ",
          out);
    put_groups();
    fputs(") command+=\" $word\" ;;\n"
          "            *) given=1 ;;\n"
          "            esac\n"
          "        fi\n"
          "    done\n"
          "    case $command:$prev in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        each_flag(commands[i], bash_value);
    }
    fputs("    esac\n    case $command in\n    '')\n        flags='--help --version'\n"
          "        words='",
          out);
    put_names(NULL, " ");
    fputs("'\n        ;;\n", out);
    for (size_t i = 0; commands[i]; i++) {
        bash_arguments(commands[i]);
    }
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        _tidings_words \"$flags\"\n"
          "    elif [[ -n $words ]]; then\n"
          "        _tidings_words \"$words\"\n"
          "    elif [[ -n $target && $given == 0 && -z ${TIDINGS_SERVER:-} ]]; then\n"
          "        _tidings_servers\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "    else\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "        [[ ${#COMPREPLY[@]} == 0 ]] && _tidings_files\n"
          "    fi\n"
          "}\n"
          "complete -F _tidings tidings\n",
          out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Inside single quotes, with colons escaped for _describe. */
static void put_described(const char *name, const char *help)
{
    fprintf(out, " '%s:", name);
    for (; *help; help++) {
        if (*help == '\'') {
            fputs("'\\''", out);
        } else {
            fprintf(out, *help == ':' || *help == '\\' ? "\\%c" : "%c", *help);
        }
    }
    fputc('\'', out);
}

static void zsh_value(const struct command *c, const struct flag *f)
{
    if (!f->has_value) {
        return;
    }
    fprintf(out, "    '%s:--%s'", c->name, f->name);
    if (f->letter) {
        fprintf(out, "|'%s:-%c'", c->name, f->letter);
    }
    if (f->choices) {
        fputs(") compadd -- ", out);
        put_words(f->choices);
        completions_put_line("; return ;;");
    } else if (strcmp(f->name, "target") == 0) {
        completions_put_line(") _tidings_servers; return ;;");
    } else {
        fprintf(out, ") %s ;;\n", f->is_file ? "_files; return" : "return");
    }
}

static void zsh_flag(const struct command *c, const struct flag *f)
{
    char name[64];
    (void)c;
    snprintf(name, sizeof(name), "--%s", f->name);
    put_described(name, f->help);
}

static void zsh_commands(const struct command *group)
{
    for (size_t i = 0; commands[i]; i++) {
        const char *blank = strchr(commands[i]->name, ' ');
        if (group ? command_is_in(commands[i], group) : !blank) {
            put_described(group ? blank + 1 : commands[i]->name, commands[i]->help);
        }
    }
}

static void zsh_arguments(const struct command *c)
{
    fprintf(out, "    '%s')\n        flags=(", c->name);
    each_flag(c, zsh_flag);
    fputs(")\n", out);
    if (command_is_group(c) || c->arg_kind == ARG_COMMAND) {
        fputs("        names=(", out);
        zsh_commands(command_is_group(c) ? c : NULL);
        fputs(")\n", out);
    } else if (c->arg_kind == ARG_SHELL) {
        completions_put_line("        names=(bash zsh fish)");
    } else if (c->has_target) {
        completions_put_line(completion_asks(c) ? "        target=yes ask=yes"
                                                : "        target=yes");
    }
    completions_put_line("        ;;");
}

static void put_zsh(void)
{
    fputs("#compdef tidings\n"
          "# zsh completion of tidings, made by 'tidings completions zsh'\n"
          "# compadd would take what a file of strangers calls its servers for its options\n"
          "_tidings_servers() {\n"
          "    local -a found\n"
          "    found=(${(f)\"$(tidings servers --quiet 2>/dev/null)\"})\n"
          "    found=(${${found:#*[^A-Za-z0-9._-]*}:#-*})\n"
          "    compadd -- $found\n"
          "}\n"
          "_tidings_names() {\n"
          "    local strange='*[^A-Za-z0-9._~:/%@+,=-]*' begins='[^A-Za-z0-9_./]*'\n"
          "    local -a found\n"
          "    found=(${(f)\"$(tidings completions --names -- \"${(@)words[2,CURRENT-1]}\" "
          "\"$PREFIX\" 2>/dev/null)\"})\n"
          "    found=(${${found:#$~strange}:#$~begins})\n"
          "    (( $#found )) && compadd -- $found\n"
          "}\n"
          "_tidings() {\n"
          "    local command='' target='' ask='' word i given=0\n"
          "    local -a flags names\n"
          "    for ((i = 2; i < CURRENT; i++)); do\n"
          "        word=$words[i]\n"
          "        if [[ $word == -- ]]; then\n"
          "            _files\n"
          "            return\n"
          "        elif [[ -z $command ]]; then\n"
          "            command=$word\n"
          "        elif [[ $word != -* ]]; then\n"
          "            case $command in\n            (",
          out);
    put_groups();
    fputs(") command+=\" $word\" ;;\n"
          "            (*) given=1 ;;\n"
          "            esac\n"
          "        fi\n"
          "    done\n"
          "    case $command:$words[CURRENT-1] in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        each_flag(commands[i], zsh_value);
    }
    fputs("    esac\n    case $command in\n    '')\n        names=(", out);
    zsh_commands(NULL);
    fputs(")\n        ;;\n", out);
    for (size_t i = 0; commands[i]; i++) {
        zsh_arguments(commands[i]);
    }
    fputs("    esac\n"
          "    if [[ $PREFIX == -* ]]; then\n"
          "        _describe option flags\n"
          "    elif (( $#names )); then\n"
          "        _describe command names\n"
          "    elif [[ -n $target && $given == 0 && -z $TIDINGS_SERVER ]]; then\n"
          "        _tidings_servers\n"
          "        [[ -n $ask ]] && _tidings_names\n"
          "    else\n"
          "        [[ -n $ask ]] && _tidings_names || _files\n"
          "    fi\n"
          "}\n"
          "_tidings \"$@\"\n",
          out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void put_single_quoted(const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    fputc('\'', out);
}

/* complete … -n 'the command line has that command' */
static void fish_begin(const char *name)
{
    const char *blank = strchr(name, ' ');
    int first = blank ? (int)(blank - name) : (int)strlen(name);
    fprintf(out, "complete -c tidings -n '__fish_seen_subcommand_from %.*s%s%s'", first, name,
            blank ? "; and __fish_seen_subcommand_from " : "", blank ? blank + 1 : "");
}

static void fish_flag(const struct command *c, const struct flag *f)
{
    fish_begin(c->name);
    fprintf(out, " -l %s", f->name);
    if (f->letter) {
        fprintf(out, " -s %c", f->letter);
    }
    if (f->choices) {
        fputs(" -x -a '", out);
        put_words(f->choices);
        fputc('\'', out);
    } else if (strcmp(f->name, "target") == 0) {
        fputs(" -x -a '(__tidings_servers)'", out);
    } else if (f->has_value) {
        fputs(f->is_file ? " -r -F" : " -x", out);
    }
    fputs(" -d ", out);
    put_single_quoted(f->help);
    fputc('\n', out);
}

static void fish_command(const struct command *c)
{
    const char *blank = strchr(c->name, ' ');
    if (blank) {
        fprintf(out, "complete -c tidings -f -n '__fish_seen_subcommand_from %.*s' -a '%s' -d ",
                (int)(blank - c->name), c->name, blank + 1);
    } else {
        fprintf(out, "complete -c tidings -f -n __fish_use_subcommand -a '%s' -d ", c->name);
    }
    put_single_quoted(c->help);
    fputc('\n', out);
    if (c->arg_kind == ARG_COMMAND || c->arg_kind == ARG_SHELL) {
        fish_begin(c->name);
        fputs(" -f -a '", out);
        fputs(c->arg_kind == ARG_SHELL ? "bash zsh fish" : "exit", out);
        if (c->arg_kind == ARG_COMMAND) {
            put_names(NULL, " ");
        }
        completions_put_line("'");
    } else if (c->has_target) {
        fish_begin(c->name);
        completions_put_line(completion_asks(c) ? " -a '(__tidings_servers; __tidings_names)'"
                                                : " -a '(__tidings_servers)'");
    }
    each_flag(c, fish_flag);
}

static void put_fish(void)
{
    completions_put_line("# fish completion of tidings, made by 'tidings completions fish'\n"
                         "function __tidings_servers\n"
                         "    tidings servers --quiet 2>/dev/null | "
                         "string match -r '^[A-Za-z0-9._][A-Za-z0-9._-]*$'\n"
                         "end\n"
                         "function __tidings_names\n"
                         "    set -l typed (commandline -opc)\n"
                         "    set -l begun (commandline -ct)\n"
                         "    tidings completions --names -- $typed[2..-1] \"$begun\" "
                         "2>/dev/null | "
                         "string match -r '^[A-Za-z0-9_./][A-Za-z0-9._~:/%@+,=-]*$'\n"
                         "end");
    for (size_t i = 0; commands[i]; i++) {
        fish_command(commands[i]);
    }
}

static int completions_put_object(const char *shell, void (*put)(void))
{
    struct tidings_error err = {0};
    struct json_text t;
    char *script = NULL;
    if (json_text_begin(&t)) {
        out = t.out;
        put();
        script = json_text_take(&t);
    }
    if (!script) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        return command_fail("completions", &err, NULL);
    }
    printf("{\"shell\":\"%s\",\"script\":", shell);
    put_quoted(stdout, tidings_str(script));
    puts("}");
    free(script);
    return command_finish("completions");
}

struct completions {
    struct cli cli;
    bool is_names;
};

static int completions_run(struct cli *cli)
{
    static const struct {
        const char *shell;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    if (((struct completions *)cli)->is_names) {
        return completion_names(cli->args, cli->arg_count);
    }
    if (cli->arg_count > 1) {
        return command_misuse("completions", "do not know what to do with", cli->args[1]);
    }
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(cli->args[0], shells[i].shell) != 0) {
            continue;
        }
        if (cli->json) {
            return completions_put_object(shells[i].shell, shells[i].put);
        }
        out = stdout;
        shells[i].put();
        return command_finish("completions");
    }
    return command_misuse("completions", "there are some for bash, zsh and fish, not for",
                          cli->args[0]);
}

static const struct option options[] = {
    {.name = "names",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct completions, is_names),
     .help = "print what a server has that fits a line: for the scripts"},
    {0},
};

const struct command command_completions = {
    .name = "completions",
    .args = "bash|zsh|fish",
    .help = "print the completions of a shell",
    .about =
        "Print a script that completes commands, options, names of servers, and what a server "
        "has.\n"
        "Installing tidings puts it where the shell finds it; otherwise, for the present shell:\n\n"
        "  eval \"$(tidings completions bash)\"\n"
        "  tidings completions zsh >\"${fpath[1]}/_tidings\"\n"
        "  tidings completions fish | source\n\n"
        "What a server has is asked by --names -- COMMAND WORD… PREFIX, the line up to the "
        "cursor: it\n"
        "prints up to 200 URIs, tools or prompts that begin with PREFIX, and ends after 200 ms at "
        "most,\nwith status 0 and without a word. Only servers with a URL are asked, of a "
        "project's file only\nthose you agreed to ('tidings help servers'); nothing is launched. "
        "Names are kept for a minute\n"
        "in ~/.cache/tidings (or in $XDG_CACHE_HOME). TIDINGS_COMPLETE=off asks no server,\n"
        "TIDINGS_COMPLETE=1000 lets it take 1000 ms.\n\n"
        "--json prints an object: shell, script. Names are lines always.\n",
    .options = options,
    .size = sizeof(struct completions),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_SHELL,
    .takes_empty = true,
    .run = completions_run,
};
