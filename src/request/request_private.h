/* SPDX-License-Identifier: MIT
 *
 * What the files of request share: how large a response may become, and the end of a request that
 * is part of a batch.
 */
#ifndef REQUEST_REQUEST_PRIVATE_H
#define REQUEST_REQUEST_PRIVATE_H

#include "request/request.h"

/* Escaping may turn one byte into six; the envelope and the rows' own members fit in the rest. */
#define REQUEST_OUT_FACTOR 6u
#define REQUEST_OUT_EXTRA (4u << 20)

/* request_deliver.c: sends a complete answer. */
void request_deliver(struct request *request, int status);
/* Prepares the booking; books bytes for the answer (false: there is no room); and frees the long
 * contents of an answer that is not sent. */
void request_open_output(struct request *request);
bool request_book(struct request *request, size_t bytes, struct refusal *why);
void request_drop_payloads(struct request *request);

/* Append the response to one of its requests. */
void request_batch_put(struct batch *batch, const struct buf *response);
/* One of its requests is gone, answered or not: with the last the array is sent. */
void request_batch_done(struct batch *batch);

/* Frees it. */
void request_free(struct request *request);

/* It is answered with `bytes` of JSON, or is not answered any more: a line of the access log. */
void request_log(const struct request *request, size_t bytes);

#endif
