/* SPDX-License-Identifier: MIT
 *
 * The functions that a provider calls during a write.
 */
#include "support/provider_write.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct tidings_write {
    const struct host_write *asked;
    int code;
    unsigned finished;
};

bool tidings_write_is_removal(const struct tidings_write *write)
{
    return !write->asked->content;
}

struct tidings_str tidings_write_bytes(const struct tidings_write *write)
{
    return tidings_str(write->asked->content);
}

struct tidings_str tidings_write_mime_type(const struct tidings_write *write)
{
    return tidings_str(write->asked->mime_type);
}

struct tidings_str tidings_write_if_match(const struct tidings_write *write)
{
    return tidings_str(write->asked->if_match);
}

struct tidings_str tidings_write_metadata(const struct tidings_write *write)
{
    return tidings_str(write->asked->metadata);
}

struct tidings_str tidings_write_traceparent(const struct tidings_write *write)
{
    (void)write;
    return tidings_strn("", 0);
}

bool tidings_write_if_absent(const struct tidings_write *write)
{
    return write->asked->if_absent;
}

void tidings_write_done(struct tidings_write *write, int code, struct tidings_str etag,
                        const struct tidings_error *err)
{
    assert_true(code < 0 ? err && err->text[0] : write->asked->content == NULL || etag.len > 0);
    write->code = code;
    write->finished++;
}

int host_write(struct tidings_provider *provider, const struct tidings_provider_ops *ops,
               const char *uri, const struct host_write *w)
{
    struct tidings_write write = {.asked = w};
    ops->write(provider, &write, tidings_str(uri));
    assert_int_equal(write.finished, 1);
    return write.code;
}
