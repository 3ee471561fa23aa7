/* SPDX-License-Identifier: MIT
 *
 * Writes one change as a line of text or of JSON.
 */
#include "bin/watch/change.h"

#include <tidings/json.h>

#include "bin/cli/command.h"
#include "bin/cli/output.h"
#include "bin/watch/subscribe_options.h"

static void change_put_member(FILE *out, const char *name, struct tidings_str value)
{
    if (value.len > 0) {
        fprintf(out, ",\"%s\":", name);
        put_quoted(out, value);
    }
}

const char *change_word(const struct tidings_update *u)
{
    return u->initial ? "initial" : tidings_change_name(u->kind);
}

void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c)
{
    fputs("{\"time\":\"", out);
    put_time(out, u->received_ms);
    fputs("\",\"change\":", out);
    put_quoted(out, tidings_str(change_word(u)));
    fputs(",\"uri\":", out);
    put_quoted(out, u->uri);
    change_put_member(out, "subscribedUri", u->subscribed_uri);
    change_put_member(out, "version", u->version);
    change_put_member(out, "cursor", u->cursor);
    fputs(u->synthetic ? ",\"synthetic\":true" : "", out);
    fputs(u->caught_up ? ",\"caughtUp\":true" : "", out);
    fputs(u->truncated ? ",\"truncated\":true" : "", out);
    fputs(",\"params\":", out);
    put_json_text(out, u->params);
    if (c->has_before) {
        fprintf(out, ",\"before\":%llu", (unsigned long long)c->before);
    }
    if (c->has_after) {
        fprintf(out, ",\"after\":%llu", (unsigned long long)c->after);
    }
    change_put_member(out, "diff", tidings_str(c->difference ? c->difference : ""));
    if (c->contents) {
        fputs(",\"contents\":", out);
        put_json_text(out, tidings_str(c->contents));
    }
    change_put_member(out, "error", tidings_str(c->err.code ? c->err.text : ""));
    fputs("}\n", out);
}

static enum style style_of(enum tidings_change_kind kind)
{
    return kind == TIDINGS_CHANGE_DELETED   ? STYLE_BAD
           : kind == TIDINGS_CHANGE_CREATED ? STYLE_GOOD
                                            : STYLE_NAME;
}

/* Each line behind `indent`, so that none can be taken for one of ours. */
static void put_indented(const struct cli *cli, const char *text, const char *indent, bool is_diff)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        enum style style = *text == '+'   ? STYLE_GOOD
                           : *text == '-' ? STYLE_BAD
                           : *text == '@' ? STYLE_NAME
                                          : STYLE_PLAIN;
        bool is_marked = is_diff && style != STYLE_PLAIN;
        fputs(indent, stdout);
        if (is_marked) {
            put_style(cli, stdout, style);
        }
        put_lines(stdout, tidings_strn(text, len));
        if (is_marked) {
            put_style(cli, stdout, STYLE_PLAIN);
        }
        fputc('\n', stdout);
        text += len + (text[len] == '\n');
    }
}

static void change_put_content(const struct cli *cli, const struct content *c)
{
    char before[SIZE_TEXT_MAX], after[SIZE_TEXT_MAX];
    if (c->err.code) {
        fputs("    cannot be read: ", stdout);
        put_text(stdout, tidings_str(c->err.text));
        fputc('\n', stdout);
    } else if (c->difference) {
        put_indented(cli, c->difference, "    ", true);
    } else if (c->has_after && c->has_before) {
        printf("    %s \xe2\x86\x92 %s\n", size_text(c->before, before),
               size_text(c->after, after));
    } else if (c->has_after) {
        printf("    %s, seen for the first time\n", size_text(c->after, after));
    }
}

/* All of it, on lines of its own. */
static void change_put_contents(const struct cli *cli, struct tidings_str contents)
{
    char size[SIZE_TEXT_MAX];
    size_t len = 0;
    char *text = tidings_json_string(contents, "/0/text");
    char *bytes = text ? NULL : tidings_json_bytes(contents, "/0/blob", &len);
    if (text) {
        put_indented(cli, text, "    ", false);
    } else if (bytes) {
        printf("    %s that are no text\n", size_text(len, size));
    }
    tidings_free(text);
    tidings_free(bytes);
}

/* ---- one line each --------------------------------------------------------------------------- */

/* "    name: text", cut where it is long, not within a character. */
static void change_put_part(const char *name, struct tidings_str text)
{
    size_t len = text.len;
    if (len > CHANGE_CUT) {
        len = CHANGE_CUT;
        while (len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    printf("    %s: ", name);
    put_text(stdout, tidings_strn(text.ptr, len));
    if (len < text.len) {
        printf("\xe2\x80\xa6 (%zu of %zu bytes)", len, text.len);
    }
    fputc('\n', stdout);
}

/* The contents that came with it, or were read. */
static void change_put_value(struct tidings_str contents)
{
    char size[SIZE_TEXT_MAX];
    size_t len = 0;
    char *text = tidings_json_text(contents, "/0/text", &len);
    if (text) {
        change_put_part("value", tidings_strn(text, len));
        tidings_free(text);
        return;
    }
    char *bytes = tidings_json_bytes(contents, "/0/blob", &len);
    if (bytes) {
        printf("    value: %s that are no text\n", size_text(len, size));
    } else {
        change_put_part("value", contents);
    }
    tidings_free(bytes);
}

static void change_put_included(unsigned include, const struct tidings_update *u,
                                const struct content *c)
{
    struct tidings_str contents = tidings_str(c->contents ? c->contents : "");
    if (include != INCLUDE_NONE && u->metadata.len > 0) {
        change_put_part("metadata", u->metadata);
    }
    if (include == INCLUDE_PATCH && u->value.len > 0) {
        change_put_part("patch", u->value);
    } else if (include == INCLUDE_VALUE && u->value.len + contents.len > 0) {
        change_put_value(u->value.len > 0 ? u->value : contents);
    } else if (include >= INCLUDE_VALUE && u->kind != TIDINGS_CHANGE_DELETED && !c->err.code) {
        fputs("    value: did not come with it; --read asks for it\n", stdout);
    }
}

void change_put_lines(const struct cli *cli, const struct change_view *view,
                      const struct tidings_update *u, const struct content *c)
{
    put_time(stdout, u->received_ms);
    fputc(' ', stdout);
    put_style(cli, stdout, style_of(u->kind));
    fputs(change_word(u), stdout);
    put_style(cli, stdout, STYLE_PLAIN);
    fputc(' ', stdout);
    put_text(stdout, u->uri);
    fputs(u->truncated ? " (and perhaps more: not everything could be told)" : "", stdout);
    fputc('\n', stdout);
    if (view->cursor && u->cursor.len > 0) {
        fputs("    cursor: ", stdout);
        put_text(stdout, u->cursor);
        fputc('\n', stdout);
    }
    change_put_included(view->include, u, c);
    change_put_content(cli, c);
    if (c->contents && view->contents) {
        change_put_contents(cli, tidings_str(c->contents));
    }
}
