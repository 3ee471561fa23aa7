/* SPDX-License-Identifier: MIT
 *
 * Tells when one side spoke TLS and the other did not, from what the library says of a failure.
 */
#ifndef HTTP_CLIENT_TLS_MISMATCH_H
#define HTTP_CLIENT_TLS_MISMATCH_H

#include <stdbool.h>

/* A sentence for it, or NULL. `url` (may be NULL) is http or https; `is_silent`: nothing came that
 * is HTTP; `reason`: the library's own words. */
const char *tls_mismatch(const char *url, bool is_silent, const char *reason);

#endif
