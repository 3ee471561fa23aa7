/* SPDX-License-Identifier: MIT
 *
 * The first line as a template, the second as a URI to match and as the value of every variable. A
 * full match and a mere test must agree; expansion never crashes.
 */
#include <stdlib.h>

#include "formats/uri.h"
#include "formats/uri_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_match(const struct uri_template *t, struct tidings_str uri)
{
    struct arena arena;
    struct template_match match;
    arena_init(&arena, 1u << 20);
    bool found = template_match(t, uri, &arena, &match);
    check(found == template_match(t, uri, NULL, NULL));
    check(!found || match.count <= template_variable_count(t));
    arena_deinit(&arena);
}

static void check_expansion(const struct uri_template *t, struct tidings_str value)
{
    struct tidings_str items[2] = {value, STR("x")};
    struct template_variable v[TEMPLATE_MAX_VARIABLES];
    size_t count = template_variable_count(t);
    struct buf out;
    buf_init(&out, 1u << 20);
    check(count <= TEMPLATE_MAX_VARIABLES);
    for (int type = TEMPLATE_UNDEFINED; type <= TEMPLATE_PAIRS; type++) {
        for (size_t i = 0; i < count; i++) {
            v[i] = (struct template_variable){.name = template_variable(t, i),
                                              .type = (enum template_type)type,
                                              .string = value,
                                              .items = items,
                                              .count = type == TEMPLATE_LIST ? 2 : 1};
        }
        buf_clear(&out);
        if (template_expand(t, v, count, &out, NULL) == 0) {
            check_match(t, buf_str(&out));
        }
    }
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str rest;
    struct tidings_str text = str_cut(tidings_strn((const char *)data, size), '\n', &rest, NULL);
    struct tidings_error err;
    struct uri_template *t = NULL;
    if (template_create(text, &t, &err) == 0) {
        check(str_eq(template_text(t), text));
        check_match(t, rest);
        check_expansion(t, rest);
    }
    template_destroy(t);
    return 0;
}
