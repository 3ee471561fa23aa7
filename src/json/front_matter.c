/* SPDX-License-Identifier: MIT
 *
 * Finding front matter, and comparing two.
 */
#include "json/front_matter.h"

#include "base/error.h"
#include "base/str.h"
#include "json/yaml.h"

/* The next line of *rest, without its line break and blanks at its end. */
static struct tidings_str front_matter_line(struct tidings_str *rest)
{
    struct tidings_str line = str_cut(*rest, '\n', rest, NULL);
    while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1])) {
        line.len--;
    }
    return line;
}

int front_matter_parse(struct tidings_str file, struct json **ret_root, struct tidings_error *err)
{
    struct tidings_str rest = str_starts(file, STR("\xef\xbb\xbf")) ? str_skip(file, 3) : file;
    rest.len = rest.len < FRONT_MATTER_MAX ? rest.len : FRONT_MATTER_MAX;
    bool is_cut = file.len > FRONT_MATTER_MAX;
    /* Its first line is a blank one to the parser, so that lines have the numbers they have in the
     * file. */
    const char *begin = memchr(rest.ptr, '\n', rest.len);
    if (!str_eq(front_matter_line(&rest), STR("---")) || !begin) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "line 1: there is no front matter; it begins "
                            "with a line '---'");
    }
    for (const char *at = begin; rest.len > 0;) {
        const char *line_begin = rest.ptr;
        if (str_eq(front_matter_line(&rest), STR("---"))) {
            int rc = yaml_parse(tidings_strn(at, (size_t)(line_begin - at)), ret_root, err);
            if (rc == 0 && !jv_is(*ret_root, JV_OBJECT)) {
                jv_unref(*ret_root);
                *ret_root = NULL;
                rc = tidings_fail(err, TIDINGS_E_PARSE, "the front matter has no 'key: value'");
            }
            return rc;
        }
    }
    return is_cut ? tidings_fail(err, TIDINGS_E_LIMIT, "the front matter has more than %u KiB",
                                 YAML_MAX_BYTES / 1024)
                  : tidings_fail(err, TIDINGS_E_PARSE,
                                 "the front matter has no end; it is a line "
                                 "'---'");
}

static bool front_matter_same_members(const struct json *a, const struct json *b)
{
    struct tidings_str key;
    struct json *value;
    struct json *object = (struct json *)(uintptr_t)a;
    for (void *at = NULL; (at = jv_next(object, at, &key, &value)) != NULL;) {
        struct json *other = jv_get_str(b, key);
        if (!other || !front_matter_equal(value, other)) {
            return false;
        }
    }
    return jv_count(a) == jv_count(b);
}

bool front_matter_equal(const struct json *a, const struct json *b)
{
    if (jv_is_number(a) && jv_is_number(b)) {
        bool are_integers = jv_is(a, JV_INT) && jv_is(b, JV_INT);
        double difference = jv_real(a) - jv_real(b);
        return are_integers ? jv_int(a) == jv_int(b) : difference >= 0 && difference <= 0;
    }
    if (jv_is(a, JV_OBJECT) && jv_is(b, JV_OBJECT)) {
        return front_matter_same_members(a, b);
    }
    if (!jv_is(a, JV_ARRAY) || !jv_is(b, JV_ARRAY)) {
        return jv_equal(a, b);
    }
    bool same = jv_count(a) == jv_count(b);
    for (size_t i = 0; same && i < jv_count(a); i++) {
        same = front_matter_equal(jv_at(a, i), jv_at(b, i));
    }
    return same;
}
