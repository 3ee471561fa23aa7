/* SPDX-License-Identifier: MIT
 *
 * Percent-encoding and its reverse.
 */
#include "oauth/encoded_form.h"

void encoded_form_put_value(struct buf *out, struct tidings_str value)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '~';
        if (is_plain) {
            buf_putc(out, (char)c);
        } else {
            const char code[] = {'%', digits[c >> 4], digits[c & 15]};
            buf_put(out, code, sizeof(code));
        }
    }
}

void encoded_form_put(struct buf *out, const char *name, const char *value)
{
    if (!value) {
        return;
    }
    if (out->len > 0 && out->ptr[out->len - 1] != '?') {
        buf_putc(out, '&');
    }
    buf_puts(out, tidings_str(name));
    buf_putc(out, '=');
    encoded_form_put_value(out, tidings_str(value));
}

static int encoded_form_digit(char c)
{
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

static int encoded_form_decode(struct tidings_str value, struct buf *out)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i] == '+' ? ' ' : value.ptr[i];
        if (c == '%') {
            int high = i + 2 < value.len ? encoded_form_digit(value.ptr[i + 1]) : -1;
            int low = i + 2 < value.len ? encoded_form_digit(value.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return TIDINGS_E_PARSE;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            return TIDINGS_E_PARSE;
        }
        buf_putc(out, c);
    }
    return out->failed;
}

int encoded_form_find(struct tidings_str form, const char *name, struct buf *out)
{
    struct tidings_str found = STR_EMPTY;
    unsigned count = 0;
    while (form.len > 0) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(form, '&', &form, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), tidings_str(name))) {
            found = value;
            count++;
        }
    }
    if (count != 1) {
        return count == 0 ? 0 : TIDINGS_E_PARSE;
    }
    int rc = encoded_form_decode(found, out);
    return rc < 0 ? rc : 1;
}
