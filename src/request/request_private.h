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
/* Prepares the booking; books the text of the answer if it is long (false: there is no room). */
void request_open_output(struct request *request);
bool request_book_text(struct request *request, struct refusal *why);

/* Takes the response to one of its requests, and its booking. */
void request_batch_put(struct batch *batch, struct request *request);
/* Bytes booked for the arrays of a channel. */
size_t request_batches_output(const struct channel *channel);
/* One of its requests is gone, answered or not: with the last the array is sent. */
void request_batch_done(struct batch *batch);

/* Frees it. */
void request_free(struct request *request);

/* It is answered with `bytes` of JSON, or is not answered any more: a line of the access log. */
void request_log(const struct request *request, size_t bytes);

#endif
