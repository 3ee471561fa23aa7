/* SPDX-License-Identifier: MIT
 *
 * The last error of a client: kept with its session or its message connection, where whoever looks
 * after the server finds it (tidings://self/peers).
 */
#ifndef PROTOCOL_LAST_ERROR_H
#define PROTOCOL_LAST_ERROR_H

struct dialect_error;
struct request;

/* `requests.failed`: the request is answered with that error. */
void last_error_note(const struct request *request, const struct dialect_error *e);

#endif
