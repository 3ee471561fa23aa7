/* SPDX-License-Identifier: MIT
 *
 * Recognising TLS spoken to a plain port, and plain HTTP spoken to a TLS port.
 */
#include "http_client/tls_mismatch.h"

#include <string.h>
#include <strings.h>

const char *tls_mismatch(const char *url, bool is_silent, const char *reason)
{
    bool is_plain = url && strncasecmp(url, "http://", 7) == 0;
    /* The words of OpenSSL and of GnuTLS. */
    if (strstr(reason, "wrong version number") || strstr(reason, "unexpected TLS packet")) {
        return "the server does not speak TLS there: http://, ws:// or tcp:// may be meant";
    }
    return is_plain && (is_silent || strstr(reason, "HTTP/0.9"))
               ? "the server gave no answer in HTTP; if it speaks TLS there, https:// is meant"
               : NULL;
}
