/* SPDX-License-Identifier: MIT
 *
 * The lines of YAML: block mappings and sequences, and where a value begins and ends. The parser
 * goes forward only; what it has read is written as JSON at once, and that is parsed at the end,
 * which also finds keys that come twice.
 */
#include "json/yaml.h"

#include "base/str.h"
#include "json/yaml_private.h"

#define JSON_MAX (YAML_MAX_BYTES * 8u)

/* A line that has content. */
struct yaml_line {
    size_t begin, end; /* of its content: no indentation, no line break */
    size_t next;
    int indent;
};

size_t yaml_line_end(const struct yaml *y, size_t from, size_t *next)
{
    const char *feed =
        from < y->text.len ? memchr(y->text.ptr + from, '\n', y->text.len - from) : NULL;
    size_t end = feed ? (size_t)(feed - y->text.ptr) : y->text.len;
    *next = feed ? end + 1 : end;
    return end > from && y->text.ptr[end - 1] == '\r' ? end - 1 : end;
}

unsigned yaml_line_number(const struct yaml *y, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset && i < y->text.len; i++) {
        line += y->text.ptr[i] == '\n';
    }
    return line;
}

size_t yaml_skip_blanks(const struct yaml *y, size_t from, size_t end)
{
    while (from < end && yaml_is_blank(y->text.ptr[from])) {
        from++;
    }
    return from;
}

bool yaml_is_rest_empty(const struct yaml *y, size_t from, size_t end)
{
    size_t at = yaml_skip_blanks(y, from, end);
    return at == end || (at > from && y->text.ptr[at] == '#');
}

int yaml_fail(struct yaml *y, size_t offset, const char *what)
{
    return tidings_fail(y->err, TIDINGS_E_PARSE, "line %u: %s", yaml_line_number(y, offset), what);
}

int yaml_count(struct yaml *y, size_t offset)
{
    if (++y->values > YAML_MAX_VALUES) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: more than %u values",
                            yaml_line_number(y, offset), YAML_MAX_VALUES);
    }
    return 0;
}

/* The next line with content, which y->at stands at then. 1, 0 at the end, or a failure. */
static int yaml_peek(struct yaml *y, struct yaml_line *line)
{
    while (y->at < y->text.len) {
        line->end = yaml_line_end(y, y->at, &line->next);
        line->begin = y->at;
        while (line->begin < line->end && y->text.ptr[line->begin] == ' ') {
            line->begin++;
        }
        line->indent = (int)(line->begin - y->at);
        size_t content = yaml_skip_blanks(y, line->begin, line->end);
        if (content == line->end || y->text.ptr[content] == '#') {
            y->at = line->next;
            continue;
        }
        if (content > line->begin) {
            return yaml_fail(y, y->at, "a tab in the indentation; use spaces");
        }
        struct tidings_str text = tidings_strn(y->text.ptr + line->begin, line->end - line->begin);
        bool is_mark = str_starts(text, STR("---")) || str_starts(text, STR("..."));
        if (line->indent == 0 && is_mark && (text.len == 3 || yaml_is_blank(text.ptr[3]))) {
            return yaml_fail(y, y->at, "a second document; only one is read");
        }
        return 1;
    }
    return 0;
}

static bool yaml_is_dash(const struct yaml *y, size_t at)
{
    return yaml_char(y, at) == '-' && yaml_is_space(yaml_char(y, at + 1));
}

/* Is there "key:" at `from`? *ret_colon is where its ':' is. */
static bool yaml_is_key(const struct yaml *y, size_t from, size_t end, size_t *ret_colon)
{
    size_t at = from;
    char quote = y->text.ptr[from];
    if (quote == '"' || quote == '\'') {
        for (at++; at < end && y->text.ptr[at] != quote; at++) {
            at += quote == '"' && y->text.ptr[at] == '\\';
        }
        while (at < end && quote == '\'' && yaml_char(y, at + 1) == '\'') { /* '' is one of them */
            for (at += 2; at < end && y->text.ptr[at] != quote; at++) {
            }
        }
        at = yaml_skip_blanks(y, at + 1, end);
        *ret_colon = at;
        return at < end && y->text.ptr[at] == ':' && yaml_is_space(yaml_char(y, at + 1));
    }
    if (quote == '[' || quote == '{') {
        return false;
    }
    for (; at < end; at++) {
        char c = y->text.ptr[at];
        if (c == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1])) {
            return false;
        }
        if (c == ':' && yaml_is_space(yaml_char(y, at + 1))) {
            *ret_colon = at;
            return true;
        }
    }
    return false;
}

/* ---- values in a line ------------------------------------------------------------------------ */

/* What of a plain scalar stands from `from` on, up to a comment. */
static int yaml_plain_piece(struct yaml *y, size_t from, size_t end, bool *ret_comment)
{
    size_t at = from;
    *ret_comment = false;
    for (; at < end && !*ret_comment; at++) {
        char c = y->text.ptr[at];
        if (c == ':' && yaml_is_space(yaml_char(y, at + 1))) {
            return yaml_fail(y, at, "': ' inside a plain text; put it in quotes");
        }
        *ret_comment = c == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1]);
    }
    at -= *ret_comment;
    while (at > from && yaml_is_blank(y->text.ptr[at - 1])) {
        at--;
    }
    return buf_put(&y->scalar, y->text.ptr + from, at - from);
}

/* A plain scalar and the lines that it goes on in. y->at is behind its first line. */
static int yaml_plain(struct yaml *y, size_t from, size_t end, int indent)
{
    bool has_comment = false;
    int rc = yaml_check_plain(y, from, false);
    buf_clear(&y->scalar);
    rc = rc < 0 ? rc : yaml_plain_piece(y, from, end, &has_comment);
    while (rc == 0 && !has_comment) {
        struct yaml_line line;
        size_t before = y->at;
        rc = yaml_peek(y, &line);
        unsigned breaks = 0;
        bool is_comment = false; /* one ends the scalar, too */
        for (size_t at = before, next; rc > 0 && at < y->at; at = next, breaks++) {
            size_t blank_end = yaml_line_end(y, at, &next);
            is_comment = is_comment || yaml_skip_blanks(y, at, blank_end) < blank_end;
        }
        if (rc <= 0 || line.indent <= indent || is_comment) {
            break;
        }
        y->at = line.next;
        rc = breaks == 0 ? buf_putc(&y->scalar, ' ') : 0;
        for (unsigned i = 0; i < breaks; i++) {
            rc = buf_putc(&y->scalar, '\n');
        }
        rc = rc < 0 ? rc : yaml_plain_piece(y, line.begin, line.end, &has_comment);
    }
    return rc < 0 ? rc : yaml_put_plain(y, from);
}

/* The value that begins at `from` in the line that ends at `end`; y->at is behind that line. The
 * node it belongs to is indented by `indent`. */
static int yaml_inline(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t behind = 0, next;
    int rc = 0;
    switch (y->text.ptr[from]) {
    case '|':
    case '>':
        return yaml_block_scalar(y, from, indent);
    case '"':
    case '\'':
        rc = yaml_quoted(y, from, indent, &behind);
        if (rc == 0) {
            jw_string(y->w, buf_str(&y->scalar));
        }
        break;
    case '[':
    case '{':
        rc = yaml_flow(y, from, indent, &behind);
        break;
    default:
        return yaml_plain(y, from, end, indent);
    }
    if (rc < 0) {
        return rc;
    }
    end = yaml_line_end(y, behind, &next);
    y->at = next;
    return yaml_is_rest_empty(y, behind, end)
               ? 0
               : yaml_fail(y, behind, "something behind the end of a value");
}

/* ---- collections ----------------------------------------------------------------------------- */

static int yaml_block(struct yaml *y, size_t from, size_t end, int indent);

/* A value on lines of its own, indented by more than `indent`; a sequence in a mapping may be
 * indented as its key is. None: null. */
static int yaml_nested(struct yaml *y, int indent, bool in_mapping)
{
    struct yaml_line line;
    int rc = yaml_peek(y, &line);
    if (rc < 0) {
        return rc;
    }
    bool is_flush = rc > 0 && in_mapping && line.indent == indent && yaml_is_dash(y, line.begin);
    if (rc == 0 || (line.indent <= indent && !is_flush)) {
        jw_null(y->w);
        return 0;
    }
    size_t colon;
    if (yaml_is_dash(y, line.begin) || yaml_is_key(y, line.begin, line.end, &colon)) {
        return yaml_block(y, line.begin, line.end, line.indent);
    }
    y->at = line.next;
    return yaml_inline(y, line.begin, line.end, indent);
}

static int yaml_put_key(struct yaml *y, size_t from, size_t colon)
{
    char first = y->text.ptr[from];
    size_t behind = colon;
    buf_clear(&y->scalar);
    if (first == '"' || first == '\'') {
        int rc = yaml_quoted(y, from, -1, &behind);
        if (rc < 0) {
            return rc;
        }
    } else {
        int rc = yaml_check_plain(y, from, false);
        while (behind > from && yaml_is_blank(y->text.ptr[behind - 1])) {
            behind--;
        }
        rc = rc < 0 ? rc : buf_put(&y->scalar, y->text.ptr + from, behind - from);
        if (rc < 0) {
            return rc;
        }
        if (!yaml_is_string(buf_str(&y->scalar)) || str_eq(buf_str(&y->scalar), STR("<<"))) {
            return yaml_fail(y, from, "a key that is no text; put it in quotes");
        }
    }
    jw_key(y->w, buf_str(&y->scalar));
    return 0;
}

/* One "key: value" that begins at `from`. */
static int yaml_pair(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t colon, next;
    if (!yaml_is_key(y, from, end, &colon)) {
        return yaml_fail(y, from, "neither 'key: value' nor '- value'");
    }
    int rc = yaml_put_key(y, from, colon);
    rc = rc < 0 ? rc : yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    yaml_line_end(y, from, &next);
    y->at = next;
    if (yaml_is_rest_empty(y, colon + 1, end)) {
        return yaml_nested(y, indent, true);
    }
    return yaml_inline(y, yaml_skip_blanks(y, colon + 1, end), end, indent);
}

/* One "- value" that begins at `from`. */
static int yaml_item(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t colon, next;
    int rc = yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    yaml_line_end(y, from, &next);
    if (yaml_is_rest_empty(y, from + 1, end)) {
        y->at = next;
        return yaml_nested(y, indent, false);
    }
    size_t begin = yaml_skip_blanks(y, from + 1, end);
    if (memchr(y->text.ptr + from, '\t', begin - from)) {
        return yaml_fail(y, from, "a tab behind '-'; use spaces");
    }
    if (yaml_is_dash(y, begin) || yaml_is_key(y, begin, end, &colon)) {
        return yaml_block(y, begin, end, indent + (int)(begin - from));
    }
    y->at = next;
    return yaml_inline(y, begin, end, indent);
}

/* The mapping or sequence whose first entry begins at `from`, indented by `indent`. */
static int yaml_block(struct yaml *y, size_t from, size_t end, int indent)
{
    bool is_sequence = yaml_is_dash(y, from);
    int rc = 1;
    if (++y->depth > YAML_MAX_DEPTH) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: nested more than %u deep",
                            yaml_line_number(y, from), YAML_MAX_DEPTH);
    }
    if (is_sequence) {
        jw_begin_array(y->w);
    } else {
        jw_begin_object(y->w);
    }
    while (rc > 0) {
        rc = is_sequence ? yaml_item(y, from, end, indent) : yaml_pair(y, from, end, indent);
        struct yaml_line line;
        rc = rc < 0 ? rc : yaml_peek(y, &line);
        if (rc > 0 && line.indent > indent) {
            rc = yaml_fail(y, line.begin, "indented further than what it belongs to");
        } else if (rc > 0 &&
                   (line.indent < indent || (is_sequence && !yaml_is_dash(y, line.begin)))) {
            rc = 0;
        } else if (rc > 0) {
            from = line.begin;
            end = line.end;
        }
    }
    if (rc == 0 && is_sequence) {
        jw_end_array(y->w);
    } else if (rc == 0) {
        jw_end_object(y->w);
    }
    y->depth--;
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

static int yaml_check_text(struct tidings_str text, struct tidings_error *err)
{
    if (text.len > YAML_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u KiB", YAML_MAX_BYTES / 1024);
    }
    bool ok = str_is_utf8(text);
    for (size_t i = 0; ok && i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        ok = (c >= ' ' && c != 0x7f) || c == '\t' || c == '\n' ||
             (c == '\r' && i + 1 < text.len && text.ptr[i + 1] == '\n');
    }
    return ok ? 0 : tidings_fail(err, TIDINGS_E_PARSE, "control characters, or not valid UTF-8");
}

static int yaml_read(struct yaml *y)
{
    struct yaml_line line;
    int rc = yaml_peek(y, &line);
    if (rc == 0) {
        jw_null(y->w);
    } else if (rc > 0) {
        rc = yaml_block(y, line.begin, line.end, line.indent);
    }
    return rc == 0 && yaml_peek(y, &line) != 0
               ? yaml_fail(y, y->at, "indented less than what it belongs to")
               : rc;
}

int yaml_parse(struct tidings_str text, struct json **ret_root, struct tidings_error *err)
{
    struct tidings_error why = {0};
    struct buf json;
    struct jw w;
    int rc = yaml_check_text(text, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&json, JSON_MAX);
    jw_init(&w, &json);
    struct yaml y = {.text = text, .w = &w, .err = &why};
    buf_init(&y.scalar, YAML_MAX_BYTES * 2u);
    rc = yaml_read(&y);
    rc = rc < 0 ? rc : json.failed ? json.failed : y.scalar.failed;
    if (rc == 0 && (rc = jv_parse(buf_str(&json), YAML_MAX_DEPTH + 1, ret_root, NULL)) < 0) {
        rc = tidings_fail(&why, rc, "a key comes twice, or a number is too large");
    }
    buf_deinit(&json);
    buf_deinit(&y.scalar);
    return rc < 0 ? tidings_fail(err, rc, "%s", why.text[0] ? why.text : tidings_code_text(rc)) : 0;
}
