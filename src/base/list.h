/* SPDX-License-Identifier: MIT
 *
 * Intrusive doubly linked list. The head is a separate `struct list`; an element embeds one, and
 * list_entry() returns the element. An unlinked element points to itself, so removing it twice is
 * fine.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_between(struct list *node, struct list *prev, struct list *next)
{
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

static inline void list_append(struct list *head, struct list *node)
{
    list_insert_between(node, head->prev, head);
}

static inline void list_prepend(struct list *head, struct list *node)
{
    list_insert_between(node, head, head->next);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Moves all elements of `from` to the end of `to`. */
static inline void list_splice(struct list *to, struct list *from)
{
    if (list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* The loop body may remove the element itself, but not its neighbours. */
#define list_each(it, nxt, head)                                                                   \
    for (struct list *it = (head)->next, *nxt = it->next; it != (head); it = nxt, nxt = it->next)

#endif
