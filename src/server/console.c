/* SPDX-License-Identifier: MIT
 *
 * Builds the console's page, and lists its script and style by their hashes.
 */
#include "server/console.h"

#include "base/encode.h"
#include "base/hash.h"

#define PAGE_MAX (1u << 20)
#define POLICY_MAX 1024u

static void console_put(struct buf *out, const struct console_text *text)
{
    buf_put(out, (const char *)text->bytes, text->len);
}

/* `name 'sha256-…'; ` as CSP 3 §2.3.1 spells a hash. */
static void console_put_hash(struct buf *out, const char *name, const struct console_text *text)
{
    struct sha256 sum;
    unsigned char digest[SHA256_BYTES];
    sha256_init(&sum);
    sha256_put(&sum, text->bytes, text->len);
    sha256_end(&sum, digest);
    buf_putf(out, "%s 'sha256-", name);
    if (base64_put(out, tidings_strn((const char *)digest, sizeof(digest))) < 0) {
        out->failed = TIDINGS_E_NOMEM;
    }
    buf_puts(out, STR("'; "));
}

int console_init(struct console *console, struct tidings_error *err)
{
    buf_init(&console->page, PAGE_MAX);
    buf_init(&console->policy, POLICY_MAX);
    console_put(&console->page, &console_before_style);
    console_put(&console->page, &console_style);
    console_put(&console->page, &console_before_script);
    console_put(&console->page, &console_script);
    console_put(&console->page, &console_after_script);
    buf_puts(&console->policy, STR("default-src 'none'; "));
    console_put_hash(&console->policy, "script-src", &console_script);
    console_put_hash(&console->policy, "style-src", &console_style);
    buf_puts(
        &console->policy,
        STR("connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"));
    return console->page.failed || console->policy.failed
               ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
               : 0;
}

void console_deinit(struct console *console)
{
    buf_deinit(&console->page);
    buf_deinit(&console->policy);
}
