/* SPDX-License-Identifier: MIT
 *
 * Names in `_meta` that more than one file of this module writes.
 */
#ifndef DIALECT_DIALECT_PRIVATE_H
#define DIALECT_DIALECT_PRIVATE_H

#define META_SERVER_INFO "io.modelcontextprotocol/serverInfo"
#define META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

#endif
