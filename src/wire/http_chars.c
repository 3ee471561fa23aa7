/* SPDX-License-Identifier: MIT
 *
 * The character table of HTTP. One row holds sixteen bytes; above 0x7F nothing is allowed anywhere
 * but in field values, which http_is_text judges.
 */
#include "wire/http_chars.h"

#define T HTTP_IS_TOKEN
#define P HTTP_IS_PATH
#define Q HTTP_IS_QUERY
#define H HTTP_IS_HOST
#define TPQ (T | P | Q)
#define LET (T | P | Q | H)
#define HEX (LET | HTTP_IS_HEX)
#define PQ (P | Q)
#define TQ (T | Q)

/* clang-format off */
const unsigned char http_chars[256] = {
    [0x20] = 0, TPQ, 0, T, TPQ, LET, TPQ, TPQ, PQ, PQ, TPQ, TPQ, PQ, LET, LET, PQ, /* SP to / */
    HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, PQ, PQ, 0, PQ, 0, Q,         /* 0-9 :;<=>? */
    PQ, HEX, HEX, HEX, HEX, HEX, HEX, LET, LET, LET, LET, LET, LET, LET, LET, LET, /* @ A-O */
    LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, PQ, Q, PQ, TQ, LET,     /* P-Z [\]^_ */
    TQ, HEX, HEX, HEX, HEX, HEX, HEX, LET, LET, LET, LET, LET, LET, LET, LET, LET, /* ` a-o */
    LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, Q, TPQ, Q, LET, 0,      /* p-z {|}~ */
};
/* clang-format on */
