/* SPDX-License-Identifier: MIT
 *
 * Who is told that a list (resources, tools, prompts) changed: groups that asked, and legacy
 * clients to whom that was promised when they began. However often a list changed, what waits for a
 * client is one message.
 */
#ifndef ENGINE_DELIVERY_LIST_CHANGED_H
#define ENGINE_DELIVERY_LIST_CHANGED_H

#include <tidings/types.h>

struct changelog_row;
struct subscription_group;
struct loop_timer;
struct subscriber;
struct worker;

/* `group` wants to hear of these too; bits: enum change_list, LIST_EVERYTHING. */
void list_changed_want(struct subscription_group *group, unsigned lists);
/* Let the legacy group hear of changes of the resource list. While it has a stream, what comes and
 * goes in sources whose lists change is watched from now on. Nothing happens when it is already. */
void list_changed_watch(struct subscription_group *group);
/* Nothing is watched for its lists any more. A client that has listed is told when there is a
 * stream again that the list may have changed. */
void list_changed_unwatch(struct subscription_group *group);

/* Some lists changed. */
void list_changed_enqueue(struct worker *worker, unsigned lists);
/* A resource or template came or went. Who may not see everything hears of the list only if it may
 * list this, at most once per period of its class; others with list_changed_enqueue. */
void list_changed_touch(struct worker *worker, struct tidings_str uri, struct tidings_str target);
/* Anything below it may have, or (empty) anything at all. */
void list_changed_touch_below(struct worker *worker, struct tidings_str scope);
void list_changed_on_period(struct loop_timer *timer, void *user);
/* The log has it: the same for one that comes back. */
void list_changed_replay(struct subscriber *subscriber, const struct changelog_row *row,
                         uint64_t since);

/* `group` is to be told, at the end of the turn, of those of `lists` that it wants. */
void list_changed_mark(struct subscription_group *group, unsigned lists, uint64_t seq);
/* Write what is marked; false: not all of it yet. */
bool list_changed_flush(struct subscriber *subscriber);

#endif
