/* SPDX-License-Identifier: MIT
 *
 * `tidings read`: prints the content of resources. Bytes are printed unchanged, except on a
 * terminal: there text is escaped, and binary content is not shown.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/range.h"
#include "cli/remote.h"

struct reading {
    struct cli cli;
    const char *file; /* --output */
    bool raw, meta, all;
    const char *bytes, *lines; /* --range, --lines */
    uint64_t last;             /* --last */
    const char *at_least;      /* --at-least */
    struct range_spec range;
    bool is_ranged;
    FILE *out;
    bool is_guarded;          /* a terminal, and not --raw */
    size_t index;             /* of the current content */
    struct tidings_error why; /* the file cannot be written */
};

/* The server's metadata of a content, on standard error. */
static void put_meta(struct tidings_str content)
{
    char *about = tidings_json_merge(content, TIDINGS_STR("{\"text\":null,\"blob\":null}"), NULL);
    put_json(stderr, about ? tidings_str(about) : content);
    tidings_free(about);
}

/* Opens the file when there is data to write: a failed read leaves the file unchanged. */
static bool open_output(struct reading *r)
{
    if (!r->out && !r->why.code) {
        r->out = fopen(r->file, "wbe");
        if (!r->out) {
            tidings_fail(&r->why, TIDINGS_E_IO, "%.160s: %s", r->file, strerror(errno));
        }
    }
    return r->out != NULL;
}

static void read_put_range(const struct reading *r, const struct range *p)
{
    char size[SIZE_TEXT_MAX];
    if (!r->is_guarded) {
        fwrite(p->bytes, 1, p->len, r->out);
    } else if (p->is_blob) {
        fprintf(stderr,
                "tidings read: %s that are not text; --output FILE saves them, --raw shows them\n",
                size_text(p->len, size));
    } else {
        put_lines(r->out, tidings_strn(p->bytes, p->len));
        fputs(p->len > 0 && p->bytes[p->len - 1] != '\n' ? "\n" : "", r->out);
    }
}

static int read_put_content(void *user, struct tidings_str key, struct tidings_str content)
{
    struct reading *r = user;
    (void)key;
    if (r->index++ > 0 && !r->all) {
        return 0;
    }
    if (!open_output(r)) {
        return 1;
    }
    if (r->meta) {
        put_meta(content);
    }
    struct range p;
    struct tidings_error err = {0};
    if (range_parse(&p, content, &err) < 0) {
        fprintf(stderr, "tidings read: a content has neither 'text' nor a good 'blob'\n");
    } else {
        read_put_range(r, &p);
    }
    range_release(&p);
    return ferror(r->out) ? 1 : 0;
}

/* The result with the requested URI beside it. */
static void put_result(struct tidings_str result, const char *uri)
{
    char *quoted = tidings_json_quote(tidings_str(uri));
    struct json_text t;
    if (quoted && json_text_begin(&t)) {
        fprintf(t.out, "{\"uri\":%s}", quoted);
        char *also = json_text_take(&t);
        char *both = also ? tidings_json_merge(tidings_str(also), result, NULL) : NULL;
        put_json(stdout, both ? tidings_str(both) : result);
        tidings_free(both);
        free(also);
    }
    tidings_free(quoted);
}

/* ---- parts ----------------------------------------------------------------------------------- */

struct cutting {
    const struct range_spec *range;
    FILE *out; /* the contents as JSON */
    size_t count;
    struct tidings_error *err;
};

/* Cuts a content that is not a range yet; drops contents that end before the range. */
static int cut_content(void *user, struct tidings_str key, struct tidings_str content)
{
    struct cutting *c = user;
    struct range p;
    struct tidings_error why = {0};
    (void)key;
    int rc = range_parse(&p, content, &why);
    char *cut = NULL;
    if (rc == 0 && !p.is_range && (rc = range_cut(&p, c->range, &why)) == 0) {
        struct tidings_str bytes = tidings_strn(p.bytes, p.len);
        char *value = p.is_blob ? tidings_json_quote_bytes(bytes) : tidings_json_quote(bytes);
        struct json_text t;
        if (value && json_text_begin(&t)) {
            fprintf(t.out, "{\"%s\":%s}", p.is_blob ? "blob" : "text", value);
            char *patch = json_text_take(&t);
            cut = patch ? tidings_json_merge(content, tidings_str(patch), &why) : NULL;
            free(patch);
        }
        tidings_free(value);
        rc = cut ? 0 : tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        struct tidings_str text = cut ? tidings_str(cut) : content;
        fprintf(c->out, "%s%.*s", c->count++ > 0 ? "," : "", (int)text.len, text.ptr);
    } else {
        *c->err = why;
    }
    tidings_free(cut);
    range_release(&p);
    return 0;
}

/* The result with its contents cut to the range, if the server sent the whole resource. */
static char *cut_result(struct reading *r, struct tidings_str result, struct tidings_error *err)
{
    struct json_text t;
    char *cut = NULL;
    if (!json_text_begin(&t)) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    struct tidings_error why = {0};
    struct cutting c = {.range = &r->range, .out = t.out, .err = &why};
    fputs("{\"contents\":[", t.out);
    tidings_json_each(result, "/contents", cut_content, &c);
    fputs("]}", t.out);
    char *contents = json_text_take(&t);
    if (c.count == 0 && why.code) {
        *err = why;
    } else if (contents) {
        cut = tidings_json_merge(result, tidings_str(contents), err);
    } else {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    free(contents);
    return cut;
}

static char *read_range(struct reading *r, struct tidings_client *client, const char *uri,
                        struct tidings_error *err)
{
    char *result = range_ask(client, uri, &r->range, r->at_least, err);
    char *range = result ? tidings_json_get(tidings_str(result), "/contents/0" RANGE_MEMBER) : NULL;
    if (!result || range) {
        tidings_free(range);
        return result;
    }
    char *cut = cut_result(r, tidings_str(result), err);
    tidings_free(result);
    return cut;
}

/* The range from the options; more than one is an error. */
static int take_range(struct reading *r)
{
    const struct {
        const char *text;
        bool is_lines;
        const char *wrong;
    } asked[] = {
        {r->bytes, false, "--range takes bytes, counted from 0, as 0-99, 100- or -100, not"},
        {r->lines, true, "--lines takes lines, counted from 1, as 1-10, 100- or -100, not"},
    };
    int count = (r->bytes ? 1 : 0) + (r->lines ? 1 : 0) + (r->last > 0 ? 1 : 0);
    if (count > 1) {
        return command_misuse("read", "one of --range, --lines and --last, not several", NULL);
    }
    r->is_ranged = count > 0;
    r->range = (struct range_spec){.is_lines = true, .last = (int64_t)r->last};
    for (size_t i = 0; i < 2; i++) {
        if (asked[i].text && !range_spec_parse(asked[i].text, asked[i].is_lines, &r->range)) {
            return command_misuse("read", asked[i].wrong, asked[i].text);
        }
    }
    return 0;
}

/* ---- resources ------------------------------------------------------------------------------- */

static int read_resource(struct reading *r, struct tidings_client *client, const char *argument,
                         struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    char *result = !uri           ? NULL
                   : r->is_ranged ? read_range(r, client, uri, err)
                   : r->at_least  ? range_ask(client, uri, NULL, r->at_least, err)
                                  : tidings_client_read(client, uri, err);
    if (result && r->cli.json) {
        put_result(tidings_str(result), uri);
    } else if (result) {
        r->index = 0;
        tidings_json_each(tidings_str(result), "/contents", read_put_content, r);
        if (r->index > 1 && !r->all && !r->cli.quiet) {
            fprintf(stderr, "tidings read: %.200s has %zu more contents; --all prints them too\n",
                    argument, r->index - 1);
        }
    }
    int rc = result ? 0 : uri && r->is_ranged ? remote_about(client, uri, err) : err->code;
    tidings_free(result);
    free(uri);
    return rc;
}

/* Requests nothing more after a write error. */
static int read_next(struct cli *cli, struct tidings_client *client, size_t index,
                     struct tidings_error *err)
{
    struct reading *r = (struct reading *)cli;
    bool is_over = r->out && ferror(r->out);
    return is_over ? 0 : read_resource(r, client, cli->args[index], err);
}

static int read_resources(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return remote_each(cli, client, read_next, err);
}

static int read_command(struct cli *cli)
{
    struct reading *r = (struct reading *)cli;
    bool has_file = r->file && strcmp(r->file, "-") != 0 && !cli->json;
    int wrong = take_range(r);
    if (wrong != 0) {
        return wrong;
    }
    r->out = has_file ? NULL : stdout;
    r->is_guarded = !has_file && !r->raw && is_terminal(stdout);
    int status = remote_run(cli, read_resources);
    if (has_file && r->out && (ferror(r->out) | (fclose(r->out) != 0))) {
        tidings_fail(&r->why, TIDINGS_E_IO, "%.160s: cannot be written", r->file);
    }
    return status == 0 && r->why.code ? command_fail("read", &r->why, NULL) : status;
}

#define AT(member) offsetof(struct reading, member)

static const struct option options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_FILE,
     .offset = AT(file),
     .metavar = "FILE",
     .help = "write the content there"},
    {.name = "raw",
     .kind = OPTION_FLAG,
     .offset = AT(raw),
     .help = "unchanged, to a terminal too: control characters may do anything to it"},
    {.name = "all",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .offset = AT(all),
     .help = "all contents of a resource, not only the first"},
    {.name = "range",
     .kind = OPTION_TEXT,
     .offset = AT(bytes),
     .metavar = "A-B",
     .help = "only these bytes, counted from 0; A-: from there on, -N: the last N"},
    {.name = "lines",
     .kind = OPTION_TEXT,
     .offset = AT(lines),
     .metavar = "A-B",
     .help = "only these lines, counted from 1; A-: from there on, -N: the last N"},
    {.name = "last",
     .kind = OPTION_NUMBER,
     .offset = AT(last),
     .metavar = "N",
     .help = "only the last N lines",
     .min = 1,
     .max = INT64_MAX},
    {.name = "at-least",
     .kind = OPTION_TEXT,
     .offset = AT(at_least),
     .metavar = "CURSOR",
     .help = "read at least what the message with this cursor reported"},
    {.name = "meta",
     .kind = OPTION_FLAG,
     .offset = AT(meta),
     .help = "print what the server says of each content on standard error, as JSON"},
    {0},
};

const struct command command_read = {
    .name = "read",
    .args = "URI…",
    .help = "print the content of resources",
    .beyond = "--range, --lines or --last ask for a part of it, if the server supports ranges",
    .about = "Print the content of each resource, one after the other; base64 on the wire is "
             "decoded.\nA URI can be the path of a file. On a "
             "terminal control\ncharacters are shown as escapes.\n\n"
             "--range, --lines and --last print a part. A tidings server reads and sends only that "
             "part;\nother servers send the whole resource.\n\n"
             "--json prints an object per resource and line: uri, and contents as the server sent "
             "them.\n",
    .options = options,
    .size = sizeof(struct reading),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .run = read_command,
};
