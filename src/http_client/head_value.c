/* SPDX-License-Identifier: MIT
 *
 * Copies values of header fields, bounded.
 */
#include "http_client/head_value.h"

#include <stdio.h>

void head_value_take(struct tidings_str value, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '!' || value.ptr[i] > '~') {
            return;
        }
    }
    if (value.len < size) {
        memcpy(out, value.ptr, value.len);
        out[value.len] = '\0';
    }
}

void head_value_take_type(struct tidings_str value, char *out, size_t size)
{
    value = str_trim(str_cut(value, ';', &(struct tidings_str){0}, NULL), " \t");
    head_value_take(value, out, size);
    for (char *p = out; *p; p++) {
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
}

void head_value_add(struct tidings_str value, char *out, size_t size)
{
    size_t len = strlen(out);
    if (len + value.len + 3 <= size) {
        snprintf(out + len, size - len, "%s%.*s", len > 0 ? ", " : "", STR_ARG(value));
    }
}
