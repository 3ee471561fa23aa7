/* SPDX-License-Identifier: MIT
 * Functions that the parts of reads share: job_read.c (requests and elements) and
 * job_read_payloads.c (long contents).
 */
#ifndef CATALOG_JOB_READ_PRIVATE_H
#define CATALOG_JOB_READ_PRIVATE_H

#include "catalog/job_read.h"

/* job_read.c: one element; and one whose memory the receiver may take over. `offset` -1: it is the
 * whole content. */
int job_read_add(struct tidings_read *read, const struct tidings_resource *about,
                 struct tidings_str bytes, bool may_be_text, int64_t offset,
                 struct tidings_error *err);
int job_read_take(struct tidings_read *read, const struct tidings_resource *about,
                  struct tidings_str bytes, char *memory, int64_t offset,
                  struct tidings_error *err);

/* job_read_payloads.c: books the text of the answer if it is long; books and takes the content of
 * an element; appends it to the list; frees those that belong behind the beginning of the elements.
 */
int job_read_book_text(struct tidings_read *read, struct tidings_error *err);
int job_read_keep(struct tidings_read *read, const struct read_element *e, struct payload **ret,
                  struct tidings_error *err);
void job_read_append(struct tidings_read *read, struct payload *content);
void job_read_drop_payloads(struct tidings_read *read);

#endif
