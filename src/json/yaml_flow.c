/* SPDX-License-Identifier: MIT
 *
 * Flow collections of YAML: [a, "b"] and {a: b}, over one line or several.
 */
#include "base/str.h"
#include "json/yaml_private.h"

/* From `at` over blanks, line breaks and comments to the next token. */
static int yaml_flow_skip(struct yaml *y, size_t at, int indent, size_t *ret)
{
    size_t next, end = yaml_line_end(y, at, &next);
    for (;;) {
        size_t begin = at;
        at = yaml_skip_blanks(y, at, end);
        bool is_comment = at < end && y->text.ptr[at] == '#' &&
                          (at > begin || at == 0 || yaml_is_space(y->text.ptr[at - 1]));
        if (at < end && !is_comment) {
            *ret = at;
            return 0;
        }
        if (next >= y->text.len) {
            return yaml_fail(y, begin, "a bracket that is not closed");
        }
        at = next;
        end = yaml_line_end(y, at, &next);
        size_t spaces = at;
        while (spaces < end && y->text.ptr[spaces] == ' ') {
            spaces++;
        }
        size_t content = yaml_skip_blanks(y, spaces, end);
        if (content < end && y->text.ptr[content] != '#' && (int)(spaces - at) <= indent) {
            return yaml_fail(y, content, "what is in brackets goes on without being indented");
        }
    }
}

static bool yaml_flow_ends_plain(const struct yaml *y, size_t at)
{
    char c = yaml_char(y, at), next = yaml_char(y, at + 1);
    return c == '\n' || c == '\r' || strchr(",[]{}", c) ||
           (c == ':' && (yaml_is_space(next) || strchr(",[]{}", next)));
}

/* A plain scalar inside brackets into y->scalar; it ends with its line. */
static int yaml_flow_plain(struct yaml *y, size_t from, size_t *ret_end)
{
    size_t at = from;
    int rc = yaml_check_plain(y, from, true);
    if (rc < 0) {
        return rc;
    }
    while (!yaml_flow_ends_plain(y, at) &&
           !(y->text.ptr[at] == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1]))) {
        at++;
    }
    *ret_end = at;
    while (at > from && yaml_is_blank(y->text.ptr[at - 1])) {
        at--;
    }
    buf_clear(&y->scalar);
    return buf_put(&y->scalar, y->text.ptr + from, at - from);
}

/* The value at `from`: *ret_end is behind it. */
static int yaml_flow_value(struct yaml *y, size_t from, int indent, size_t *ret_end)
{
    char c = y->text.ptr[from];
    int rc = yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    if (c == '[' || c == '{') {
        return yaml_flow(y, from, indent, ret_end);
    }
    if (c == '"' || c == '\'') {
        rc = yaml_quoted(y, from, indent, ret_end);
        if (rc == 0) {
            jw_string(y->w, buf_str(&y->scalar));
        }
        return rc;
    }
    rc = yaml_flow_plain(y, from, ret_end);
    return rc < 0 ? rc : yaml_put_plain(y, from);
}

/* "key: value" at *at, which is moved behind it. */
static int yaml_flow_pair(struct yaml *y, size_t *at, int indent)
{
    char first = y->text.ptr[*at];
    bool is_quoted = first == '"' || first == '\'';
    size_t from = *at;
    int rc = is_quoted ? yaml_quoted(y, from, -1, at) : yaml_flow_plain(y, from, at);
    if (rc < 0) {
        return rc;
    }
    if (!is_quoted &&
        (!yaml_is_string(buf_str(&y->scalar)) || str_eq(buf_str(&y->scalar), STR("<<")))) {
        return yaml_fail(y, from, "a key that is no text; put it in quotes");
    }
    jw_key(y->w, buf_str(&y->scalar));
    rc = yaml_flow_skip(y, *at, indent, at);
    if (rc < 0) {
        return rc;
    }
    if (y->text.ptr[*at] != ':') {
        return yaml_fail(y, from, "in {} each key has a ': ' and a value");
    }
    rc = yaml_flow_skip(y, *at + 1, indent, at);
    if (rc == 0 && (y->text.ptr[*at] == ',' || y->text.ptr[*at] == '}')) {
        jw_null(y->w);
        return yaml_count(y, from);
    }
    return rc < 0 ? rc : yaml_flow_value(y, *at, indent, at);
}

static int yaml_flow_entries(struct yaml *y, size_t *at, int indent, bool is_mapping)
{
    const char close = is_mapping ? '}' : ']';
    int rc = yaml_flow_skip(y, *at, indent, at);
    while (rc == 0 && y->text.ptr[*at] != close) {
        rc = is_mapping ? yaml_flow_pair(y, at, indent) : yaml_flow_value(y, *at, indent, at);
        rc = rc < 0 ? rc : yaml_flow_skip(y, *at, indent, at);
        if (rc == 0 && y->text.ptr[*at] == ',') {
            rc = yaml_flow_skip(y, *at + 1, indent, at);
        } else if (rc == 0 && y->text.ptr[*at] != close) {
            rc = yaml_fail(y, *at, "in brackets a ',' comes between two values");
        }
    }
    return rc;
}

int yaml_flow(struct yaml *y, size_t from, int indent, size_t *ret_end)
{
    bool is_mapping = y->text.ptr[from] == '{';
    size_t at = from + 1;
    if (++y->depth > YAML_MAX_DEPTH) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: nested more than %u deep",
                            yaml_line_number(y, from), YAML_MAX_DEPTH);
    }
    if (is_mapping) {
        jw_begin_object(y->w);
    } else {
        jw_begin_array(y->w);
    }
    int rc = yaml_flow_entries(y, &at, indent, is_mapping);
    if (rc == 0 && is_mapping) {
        jw_end_object(y->w);
    } else if (rc == 0) {
        jw_end_array(y->w);
    }
    y->depth--;
    *ret_end = at + 1;
    return rc;
}
