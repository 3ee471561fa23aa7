/* SPDX-License-Identifier: MIT
 *
 * SHA-1 (FIPS 180-4). Pure. For the WebSocket handshake, which asks for it and keeps no secret with
 * it; nothing else may rely on it.
 */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <tidings/types.h>

#define SHA1_BYTES 20u

void sha1(struct tidings_str bytes, unsigned char out[SHA1_BYTES]);

#endif
