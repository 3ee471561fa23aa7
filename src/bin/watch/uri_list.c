/* SPDX-License-Identifier: MIT
 *
 * A list of URIs without repetitions, bounded in number and bytes.
 */
#include "bin/watch/uri_list.h"

#include <stdlib.h>
#include <sys/random.h>

struct uri_item {
    char *uri;
    size_t len;
    char *line;    /* NULL: the URI */
    uint32_t next; /* in its bucket, the index and 1; 0: the last */
};

void uri_list_clear(struct uri_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->items[i].uri);
        free(l->items[i].line);
    }
    free(l->items);
    *l = (struct uri_list){0};
}

/* A server that chooses its names cannot make the chains long: it does not know the seed. */
static uint32_t *uri_list_bucket_of(struct uri_list *l, struct tidings_str uri)
{
    static uint32_t seed;
    if (seed == 0 && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0) {
        seed = (uint32_t)(uintptr_t)l;
    }
    uint32_t hash = 2166136261u ^ seed; /* FNV-1a */
    for (size_t i = 0; i < uri.len; i++) {
        hash = (hash ^ (unsigned char)uri.ptr[i]) * 16777619u;
    }
    return &l->buckets[(hash ^ hash >> 16) % URI_LIST_BUCKETS];
}

static struct uri_item *uri_list_find(struct uri_list *l, struct tidings_str uri)
{
    for (uint32_t at = *uri_list_bucket_of(l, uri); at > 0; at = l->items[at - 1].next) {
        if (tidings_str_eq(tidings_strn(l->items[at - 1].uri, l->items[at - 1].len), uri)) {
            return &l->items[at - 1];
        }
    }
    return NULL;
}

static bool uri_list_make_room(struct uri_list *l)
{
    if (l->count < l->room) {
        return true;
    }
    size_t room = l->room > 0 ? 2 * l->room : 64;
    struct uri_item *more = realloc(l->items, room * sizeof(*more));
    if (more) {
        l->items = more;
        l->room = room;
    }
    return more != NULL;
}

/* A new one at the end; NULL: no memory. */
static struct uri_item *uri_list_append(struct uri_list *l, struct tidings_str uri)
{
    char *copy = uri_list_make_room(l) ? malloc(uri.len + 1) : NULL;
    if (!copy) {
        return NULL;
    }
    if (uri.len > 0) {
        memcpy(copy, uri.ptr, uri.len);
    }
    copy[uri.len] = '\0';
    uint32_t *bucket = uri_list_bucket_of(l, uri);
    l->items[l->count] = (struct uri_item){.uri = copy, .len = uri.len, .next = *bucket};
    l->bytes += uri.len;
    *bucket = (uint32_t)++l->count;
    return &l->items[l->count - 1];
}

int uri_list_add(struct uri_list *l, struct tidings_str uri, const char *line)
{
    size_t line_len = line ? strlen(line) : 0;
    struct uri_item *item = uri_list_find(l, uri);
    l->changes++;
    if ((!item && l->count >= URI_LIST_MAX) || l->bytes + uri.len + line_len > URI_LIST_BYTES) {
        l->is_cut = true;
        return 0;
    }
    char *copy = line ? strdup(line) : NULL;
    item = line && !copy ? NULL : item ? item : uri_list_append(l, uri);
    if (!item) {
        l->is_cut = true;
        free(copy);
        return TIDINGS_E_NOMEM;
    }
    l->bytes -= item->line ? strlen(item->line) : 0;
    l->bytes += line_len;
    free(item->line);
    item->line = copy;
    return 0;
}

void uri_list_set_cursor(struct uri_list *l, struct tidings_str cursor)
{
    if (cursor.len > 0 && cursor.len < sizeof(l->cursor)) {
        memcpy(l->cursor, cursor.ptr, cursor.len);
        l->cursor[cursor.len] = '\0';
    }
}

void uri_list_merge(struct uri_list *l, struct uri_list *newer)
{
    uint64_t changes = l->changes + newer->changes;
    l->turn = l->changes > 0 ? l->turn : newer->turn;
    for (size_t i = 0; i < newer->count; i++) {
        const struct uri_item *it = &newer->items[i];
        (void)uri_list_add(l, tidings_strn(it->uri, it->len), it->line); /* else it says so */
    }
    l->changes = changes;
    l->is_cut = l->is_cut || newer->is_cut;
    uri_list_set_cursor(l, tidings_str(newer->cursor));
    uri_list_clear(newer);
}

void uri_list_put_uri(FILE *out, struct tidings_str uri)
{
    for (size_t i = 0; i < uri.len; i++) {
        unsigned char c = (unsigned char)uri.ptr[i];
        fprintf(out, c <= 0x20 || c == 0x7f ? "%%%02X" : "%c", c);
    }
}

void uri_list_write(const struct uri_list *l, FILE *out, char end)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct uri_item *it = &l->items[i];
        if (it->line) {
            fputs(it->line, out);
        } else {
            uri_list_put_uri(out, tidings_strn(it->uri, it->len));
        }
        fputc(end, out);
    }
}
