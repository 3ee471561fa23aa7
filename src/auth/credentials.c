/* SPDX-License-Identifier: MIT
 *
 * Reading the file with the client id and secret. Whatever holds the secret is wiped.
 */
#include "auth/credentials.h"

#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/whole_file.h"

#define CREDENTIALS_MAX 4096u

void credentials_put_encoded(struct buf *out, struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            buf_putc(out, (char)c);
        } else {
            buf_putf(out, "%%%02X", c);
        }
    }
}

struct credentials {
    struct shared_value value;
    char header[];
};

static void credentials_destroy(struct shared_value *value)
{
    struct credentials *c = list_entry(value, struct credentials, value);
    mem_free_secret(c, sizeof(*c) + strlen(c->header));
}

struct shared_value *credentials_value(struct credentials *c)
{
    return &c->value;
}

struct credentials *credentials_of(struct shared_value *value)
{
    return value ? list_entry(value, struct credentials, value) : NULL;
}

const char *credentials_header(const struct credentials *c)
{
    return c->header;
}

static int put_header(struct buf *out, struct tidings_str line, struct tidings_error *err)
{
    struct buf pair;
    struct tidings_str secret;
    bool found = false;
    struct tidings_str id = str_cut(line, ':', &secret, &found);
    if (!found || id.len == 0 || str_find(line, '\n') >= 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "one line 'CLIENT_ID:SECRET' is expected");
    }
    buf_init_secret(&pair, 4 * CREDENTIALS_MAX);
    credentials_put_encoded(&pair, id);
    buf_putc(&pair, ':');
    credentials_put_encoded(&pair, secret);
    buf_puts(out, STR("Authorization: Basic "));
    base64_put(out, buf_str(&pair));
    int failed = pair.failed ? pair.failed : out->failed;
    buf_deinit(&pair);
    return failed ? tidings_fail(err, failed, "out of memory") : 0;
}

int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err)
{
    struct buf text, header;
    struct credentials *c = NULL;
    buf_init_secret(&text, 4 * CREDENTIALS_MAX);
    buf_init_secret(&header, 8 * CREDENTIALS_MAX);
    int rc = whole_file_read(path, CREDENTIALS_MAX, &text, err);
    if (rc == 0) {
        rc = put_header(&header, str_trim(buf_str(&text), "\r\n"), err);
        rc = rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
    }
    if (rc == 0) {
        c = mem_zalloc(sizeof(*c) + header.len + 1);
        rc = c ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (c) {
        c->value = (struct shared_value){CREDENTIALS_KEY, credentials_destroy, 1};
        memcpy(c->header, header.ptr, header.len);
        *ret = c;
    }
    buf_deinit(&text);
    buf_deinit(&header);
    return rc;
}
