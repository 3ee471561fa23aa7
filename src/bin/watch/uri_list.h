/* SPDX-License-Identifier: MIT
 *
 * The URIs that changed, each once, in the order of their first change, for one run of the command
 * of `tidings watch --batch`. Beyond URI_LIST_MAX of them, or URI_LIST_BYTES, a list says that it
 * is cut, and takes no more.
 */
#ifndef BIN_URI_LIST_H
#define BIN_URI_LIST_H

#include <stdio.h>

#include <tidings/types.h>

#define URI_LIST_MAX 10000u
#define URI_LIST_BYTES (64u << 20) /* of URIs and lines */
#define URI_LIST_BUCKETS 1024u
#define URI_LIST_CURSOR 512u

struct uri_item;

/* Begin with a zeroed one. */
struct uri_list {
    struct uri_item *items;
    size_t count, room, bytes;
    uint32_t buckets[URI_LIST_BUCKETS];
    uint64_t changes;             /* that it stands for */
    bool is_cut;                  /* not everything that changed is in it */
    uint64_t turn;                /* of the first one added: the count of whoever adds */
    char cursor[URI_LIST_CURSOR]; /* of the last one added; "": none */
};

void uri_list_clear(struct uri_list *l);

/* `line` (it is copied) takes the place of what was said of the URI before; NULL: the URI itself is
 * the line, with %XX for what no URI has: blanks, line feeds, NULs. TIDINGS_E_NOMEM: the list says
 * that it is cut. */
int uri_list_add(struct uri_list *l, struct tidings_str uri, const char *line);
/* The cursor of the last change; one too long to be one is passed over. */
void uri_list_set_cursor(struct uri_list *l, struct tidings_str cursor);
/* Put what `newer` has behind what is in `l`, and empty it. */
void uri_list_merge(struct uri_list *l, struct uri_list *newer);

/* Write a URI with %XX for what no URI has: blanks, line feeds, NULs and other control characters.
 */
void uri_list_put_uri(FILE *out, struct tidings_str uri);
/* Each line, with `end` behind it. */
void uri_list_write(const struct uri_list *l, FILE *out, char end);

#endif
