/* SPDX-License-Identifier: MIT
 *
 * Checking the contents of a read: counts elements and remembers the first rule that was broken.
 */
#include "catalog/read_rules.h"

#include "base/str.h"

static void read_rules_breach(struct read_rules *r, const char *what, struct tidings_str which)
{
    if (r->breach.code == 0) {
        tidings_fail(&r->breach, TIDINGS_E_INTERNAL, "%s ('%.*s')", what, STR_ARG_MAX(which, 100));
    }
}

static void add_format(struct read_rules *r, struct tidings_str mime_type)
{
    uint64_t hash = str_hash(mime_type, 0);
    for (unsigned i = 0; i < r->own; i++) {
        if (r->formats[i] == hash) {
            read_rules_breach(
                r,
                "the elements of a resource without children are alternatives and need a "
                "mimeType each, all different",
                mime_type);
        }
    }
    if (r->own < READ_ALTERNATIVES_MAX) {
        r->formats[r->own++] = hash;
    } else {
        read_rules_breach(r, "a resource without children has at most 16 alternatives", mime_type);
    }
}

int read_rules_add(struct read_rules *r, bool own, const struct tidings_resource *about,
                   struct tidings_error *err)
{
    if (++r->total > READ_ELEMENTS_MAX) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a read gives at most %u elements",
                            READ_ELEMENTS_MAX);
    }
    if (own) {
        r->listable = r->listable || about->listable;
        add_format(r, about->mime_type);
    } else {
        read_rules_breach(r, "a resource without children must not give content under another URI",
                          about->uri);
    }
    return 0;
}

int read_rules_end(const struct read_rules *r, struct tidings_error *err)
{
    if (r->listable) {
        return 0;
    }
    if (r->breach.code < 0) {
        if (err) {
            *err = r->breach;
        }
        return r->breach.code;
    }
    if (r->total == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "a resource without children must give at least one element");
    }
    return 0;
}
