/* SPDX-License-Identifier: MIT
 *
 * `tidings skills` and `skill`: list the Agent Skills of a server, and fetch the files of one skill
 * after checking them against its entry. Listing reads no files.
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/remote.h"

#define MAIN_FILE "/SKILL.md"

struct skills {
    struct cli cli;
    bool is_long, wants_files, is_raw;
    bool has_written; /* to `file`: later content is appended */
    const char *file; /* --output */
    size_t total;
    uint64_t bytes;
};

/* ---- the list -------------------------------------------------------------------------------- */

/* The skill's URI without "/SKILL.md": the argument of the command `skill`. */
static struct tidings_str skills_short(const char *uri)
{
    size_t len = strlen(uri), end = sizeof(MAIN_FILE) - 1;
    bool ends = len > end && strcmp(uri + len - end, MAIN_FILE) == 0;
    return tidings_strn(uri, ends ? len - end : len);
}

static int skills_count_file(void *user, struct tidings_str key, struct tidings_str file)
{
    struct skills *s = user;
    char *size = tidings_json_get(file, "/size");
    (void)key;
    s->total++;
    s->bytes += size ? strtoull(size, NULL, 10) : 0;
    tidings_free(size);
    return 0;
}

static void skills_put_long(struct skills *s, struct tidings_str entry)
{
    char shown[SIZE_TEXT_MAX];
    char *license = text_at(entry, "/frontmatter/license");
    s->total = 0;
    s->bytes = 0;
    if (tidings_json_each(entry, "/resources", skills_count_file, s) == 0 && s->total > 0) {
        printf("    %zu file%s, %s", s->total, s->total == 1 ? "" : "s",
               size_text(s->bytes, shown));
    } else {
        fputs("    files that are made when they are read", stdout);
    }
    if (license && *license) {
        fputs("; license: ", stdout);
        put_text(stdout, tidings_str(license));
    }
    fputc('\n', stdout);
    tidings_free(license);
}

static int skills_on_entry(void *user, struct tidings_str entry)
{
    struct skills *s = user;
    if (s->cli.json) {
        put_json(stdout, entry);
        return ferror(stdout) ? 1 : 0;
    }
    char *uri = text_at(entry, "/uri"), *about = text_at(entry, "/frontmatter/description");
    put_style(&s->cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, skills_short(uri ? uri : ""));
    put_style(&s->cli, stdout, STYLE_PLAIN);
    struct tidings_str text = tidings_str(about);
    if (s->is_long) {
        fputs("\n    ", stdout);
        put_text_wrapped(stdout, text, 4);
        fputc('\n', stdout);
        skills_put_long(s, entry);
    } else {
        text.len = text.len > 0 ? strcspn(text.ptr, "\n") : 0;
        put_gap(stdout, used, 32);
        put_text_wrapped(stdout, text, used < 32 ? 32 : used + 1);
        fputc('\n', stdout);
    }
    tidings_free(uri);
    tidings_free(about);
    return ferror(stdout) ? 1 : 0;
}

static int skills_list(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    int rc = tidings_client_list(client, TIDINGS_LISTING_SKILLS, skills_on_entry, cli, err);
    return rc < 0 ? rc : 0;
}

/* ---- one skill ------------------------------------------------------------------------------- */

/* The URI of a SKILL.md from the argument: that URI, its directory, or the path of a skill. */
static char *skills_uri(const char *argument)
{
    char *uri = NULL;
    struct tidings_str name = tidings_str(argument);
    bool is_whole = skills_short(argument).len < name.len;
    while (name.len > 1 && name.ptr[name.len - 1] == '/') {
        name.len--;
    }
    int len = asprintf(&uri, "%s%.*s%s", strstr(argument, "://") ? "" : "skill://", (int)name.len,
                       name.ptr, is_whole ? "" : MAIN_FILE);
    return len < 0 ? NULL : uri;
}

/* The URI of a file of the skill: a non-URI argument is a path in it. */
static char *skills_file_uri(const char *skill, const char *argument)
{
    struct json_text t;
    if (strstr(argument, "://")) {
        return strdup(argument);
    }
    if (!json_text_begin(&t)) {
        return NULL;
    }
    struct tidings_str root = skills_short(skill);
    fprintf(t.out, "%.*s/", (int)root.len, root.ptr);
    for (const unsigned char *c = (const unsigned char *)argument; *c; c++) {
        bool is_plain = isalnum(*c) || strchr("/-._~!$&'()+,;=:@", *c);
        fprintf(t.out, is_plain && *c < 0x80 ? "%c" : "%%%02X", *c);
    }
    return json_text_take(&t);
}

static int skills_put_file(void *user, struct tidings_str key, struct tidings_str file)
{
    char *uri = text_at(file, "/uri"), *size = tidings_json_get(file, "/size");
    char *digest = text_at(file, "/digest");
    (void)user;
    (void)key;
    printf("%10s  ", size ? size : "-");
    put_text(stdout, tidings_str(digest));
    fputs("  ", stdout);
    put_text(stdout, tidings_str(uri));
    fputc('\n', stdout);
    tidings_free(uri);
    tidings_free(size);
    tidings_free(digest);
    return ferror(stdout) ? 1 : 0;
}

static int skills_write(struct skills *s, struct tidings_str bytes, struct tidings_error *err)
{
    FILE *out = fopen(s->file, s->has_written ? "abe" : "wbe");
    s->has_written = true;
    bool is_written = out && fwrite(bytes.ptr, 1, bytes.len, out) == bytes.len;
    if (out && fclose(out) != 0) {
        is_written = false;
    }
    return is_written ? 0 : tidings_fail(err, TIDINGS_E_IO, "%.160s: %s", s->file, strerror(errno));
}

/* A file that was verified. */
static int skills_put_content(struct skills *s, const char *uri, struct tidings_str bytes,
                              struct tidings_error *err)
{
    bool shows_text = is_text(bytes);
    if (s->cli.json) {
        char *value = shows_text ? tidings_json_quote(bytes) : tidings_json_quote_bytes(bytes);
        fputs("{\"uri\":", stdout);
        put_quoted(stdout, tidings_str(uri));
        printf(",\"%s\":", shows_text ? "text" : "blob");
        put_json_text(stdout, value ? tidings_str(value) : TIDINGS_STR("null"));
        fputs("}\n", stdout);
        tidings_free(value);
    } else if (s->file && strcmp(s->file, "-") != 0) {
        return skills_write(s, bytes, err);
    } else if (s->is_raw || !is_terminal(stdout)) {
        fwrite(bytes.ptr, 1, bytes.len, stdout);
    } else if (shows_text) {
        put_lines(stdout, bytes);
    } else {
        return tidings_fail(err, TIDINGS_E_FORMAT,
                            "'%.160s' is not text; --output FILE saves it, --raw shows it", uri);
    }
    return 0;
}

static int skills_read(struct skills *s, struct tidings_client *client, const char *entry,
                       const char *uri, struct tidings_error *err)
{
    size_t len = 0;
    char *bytes = tidings_client_skill_read(client, entry, uri, &len, err);
    int rc = bytes ? skills_put_content(s, uri, tidings_strn(bytes, len), err) : err->code;
    tidings_free(bytes);
    return rc;
}

static int skills_show(struct skills *s, struct tidings_client *client, const char *skill,
                       const char *entry, struct tidings_error *err)
{
    int rc = 0;
    if (s->wants_files && !s->cli.json) {
        (void)tidings_json_each(tidings_str(entry), "/resources", skills_put_file, s);
        return 0;
    }
    if (s->cli.arg_count == 1 && s->cli.json) {
        put_json(stdout, tidings_str(entry));
        return 0;
    }
    if (s->cli.arg_count == 1) {
        return skills_read(s, client, entry, skill, err);
    }
    for (size_t i = 1; rc == 0 && i < s->cli.arg_count; i++) {
        char *uri = skills_file_uri(skill, s->cli.args[i]);
        rc = uri ? skills_read(s, client, entry, uri, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        free(uri);
    }
    return rc;
}

static int skills_one(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct skills *s = (struct skills *)cli;
    char *uri = skills_uri(cli->args[0]);
    char *entry = uri ? tidings_client_skill(client, uri, err) : NULL;
    int rc = entry ? skills_show(s, client, uri, entry, err)
             : uri ? err->code
                   : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    tidings_free(entry);
    free(uri);
    return rc;
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct skills, member)

static const struct option list_options[] = {
    {.name = "long",
     .letter = 'l',
     .kind = OPTION_FLAG,
     .offset = AT(is_long),
     .help = "the whole description, and what there is to read"},
    {0},
};

static const struct option one_options[] = {
    {.name = "files",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .offset = AT(wants_files),
     .help = "print size, digest and URI of each of its files, and read none"},
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_FILE,
     .offset = AT(file),
     .metavar = "FILE",
     .help = "write the content there"},
    {.name = "raw",
     .kind = OPTION_FLAG,
     .offset = AT(is_raw),
     .help = "unchanged, to a terminal too: control characters may do anything to it"},
    {.name = "max-message",
     .kind = OPTION_NUMBER,
     .offset = AT(cli.max_message),
     .metavar = "MIB",
     .help = "largest message accepted",
     .value = "32", /* a file may be as large as a whole skill, and base64 makes it larger */
     .min = 1,
     .max = 4096},
    {0},
};

const struct command command_skills = {
    .name = "skills",
    .help = "list Agent Skills",
    .about =
        "List the Agent Skills of a server, by their URIs without /SKILL.md; 'tidings skill' "
        "reads one.\nNo skill is read for that. Invalid entries are skipped with a\nwarning.\n\n"
        "--json prints the entries of the server, one per line.\n",
    .options = list_options,
    .size = sizeof(struct skills),
    .has_target = true,
    .ask = skills_list,
};

const struct command command_skill = {
    .name = "skill",
    .args = "SKILL [FILE…]",
    .help = "read an Agent Skill",
    .beyond = "--max-message accepts larger messages",
    .refused = "'tidings skills' lists skills, 'tidings skill SKILL --files' the files of one",
    .about = "Print the SKILL.md of a skill, or files of it. SKILL is its URI, with or without "
             "/SKILL.md, or\nthe path in that; FILE a path in the skill, or a URI. Each file must "
             "be listed in the entry of\nthe skill with its size and digest, and SKILL.md with its "
             "front matter; otherwise nothing is\nprinted.\n\n"
             "A skill is untrusted text that instructs a model. Read it before you use it.\n\n"
             "--json prints the entry; with FILE an object per file and line: uri, and text or "
             "blob.\n",
    .options = one_options,
    .size = sizeof(struct skills),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_SKILL,
    .has_target = true,
    .ask = skills_one,
};
