/* SPDX-License-Identifier: MIT
 *
 * Numbers in JSON text: the grammar by hand, the value by strtod in the C locale.
 */
#include "json/number.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SHORT_NUMBER 64u

static const char *skip_digits(const char *s, const char *end)
{
    while (s < end && *s >= '0' && *s <= '9') {
        s++;
    }
    return s;
}

size_t number_length(struct tidings_str text, bool *ret_is_real)
{
    const char *end = text.ptr + text.len;
    const char *s = text.ptr + (text.len > 0 && *text.ptr == '-');
    const char *digits = s;
    s = skip_digits(s, end);
    if (s == digits || (*digits == '0' && s - digits > 1)) {
        return 0;
    }
    *ret_is_real = false;
    if (s < end && *s == '.') {
        *ret_is_real = true;
        digits = s + 1;
        s = skip_digits(digits, end);
        if (s == digits) {
            return 0;
        }
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        *ret_is_real = true;
        s++;
        s += s < end && (*s == '+' || *s == '-');
        digits = s;
        s = skip_digits(digits, end);
        if (s == digits) {
            return 0;
        }
    }
    return (size_t)(s - text.ptr);
}

int number_to_real(struct tidings_str number, double *ret)
{
    char small[SHORT_NUMBER];
    char *text = number.len < sizeof small ? small : mem_alloc(number.len + 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    int rc = TIDINGS_E_NOMEM;
    *ret = 0;
    if (text && c_locale) {
        memcpy(text, number.ptr, number.len);
        text[number.len] = '\0';
        errno = 0;
        *ret = strtod_l(text, NULL, c_locale);
        /* ERANGE is also said of numbers too small: those are 0, or nearly. */
        rc = errno == ERANGE && fabs(*ret) > 1 ? TIDINGS_E_LIMIT : 0;
        *ret = rc == 0 ? *ret : *ret < 0 ? -DBL_MAX : DBL_MAX;
    }
    if (c_locale) {
        freelocale(c_locale);
    }
    if (text != small) {
        mem_free(text);
    }
    return rc;
}
