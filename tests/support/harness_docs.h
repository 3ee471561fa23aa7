/* SPDX-License-Identifier: MIT
 *
 * A provider of JSON documents with versions, for tests of patches. It makes patches itself, or
 * leaves that to the worker. Etags are "v0001", "v0002" …, counted over all documents.
 *
 *     docs_mount(&docs, &b, "doc:///", DOCS_PATCHING);
 *     docs_put(&docs, "doc:///a", "{\"n\":1}", NULL);     // creates, or a new version; announced
 *
 * "doc:///a/patch" receives the patches of "doc:///a", "doc:///a/no" cannot be subscribed to.
 */
#ifndef SUPPORT_HARNESS_DOCS_H
#define SUPPORT_HARNESS_DOCS_H

#include "support/harness_core.h"

#define DOCS_MAX 1100u

enum docs_flag {
    DOCS_PATCHING = 1, /* it has the operations for patches */
    DOCS_TEXT = 2,     /* its media type is text/plain */
};

struct doc_version {
    char uri[96];
    char *text; /* NULL: deleted */
    unsigned number;
    bool is_forgotten;
};

struct docs {
    struct tidings_provider *provider;
    struct harness *harness;
    unsigned flags;
    struct doc_version versions[DOCS_MAX]; /* oldest first */
    size_t count;
    unsigned reads, patches; /* asked for */
    int fails;               /* the next patch, with this code; 0: it does not */
    bool holds;              /* patches wait … */
    struct tidings_read *held[DOCS_MAX];
    struct tidings_str held_uri[DOCS_MAX], held_from[DOCS_MAX];
    size_t held_count;
};

void docs_mount(struct docs *d, struct harness *b, const char *prefix, unsigned flags);
void docs_free(struct docs *d); /* after the bench stopped */
/* A bench without list changes, with the documents below "doc:///"; and the end of both, when no
 * request waits. */
void docs_begin(struct docs *d, struct harness *b, unsigned flags);
/* The same with the document "doc:///a"; the flags are the state of the test (NULL: none). */
void docs_begin_with_a(struct docs *d, struct harness *b, void **state);
void docs_end(struct docs *d);
/* A new version (`text` NULL: deletes it), announced with the origin `origin` (NULL: none). */
void docs_put(struct docs *d, const char *uri, const char *text, const char *origin);
/* The same without a word. */
void docs_write(struct docs *d, const char *uri, const char *text);
/* Older versions of it are gone. */
void docs_forget(struct docs *d, const char *uri);
void docs_release(struct docs *d);     /* … until now */
void docs_release_one(struct docs *d); /* the one that waits longest */
/* The newest of it: its text (NULL: none) and its etag. */
const char *docs_text(const struct docs *d, const char *uri);
const char *docs_etag(const struct docs *d, const char *uri);

#endif
