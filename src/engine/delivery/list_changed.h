/* SPDX-License-Identifier: MIT
 *
 * list_changed notifications (resources, tools, prompts): sent to groups that asked for them and to
 * legacy clients that were promised them at initialization. However often a list changed, at most
 * one message waits for a client.
 */
#ifndef ENGINE_DELIVERY_LIST_CHANGED_H
#define ENGINE_DELIVERY_LIST_CHANGED_H

#include <tidings/types.h>

struct changelog_row;
struct subscription_group;
struct loop_timer;
struct subscriber;
struct worker;

/* Subscribes `group` to these lists too; bits: enum change_list, LIST_EVERYTHING. */
void list_changed_want(struct subscription_group *group, unsigned lists);
/* Subscribes the legacy group to changes of the resource list. From now on, while it has a stream,
 * sources with changing lists are watched for additions and removals. Does nothing if they already
 * are. */
void list_changed_watch(struct subscription_group *group);
/* Stops watching for its lists. A client that has called resources/list is notified, when it has a
 * stream again, that the list may have changed. */
void list_changed_unwatch(struct subscription_group *group);

/* Some lists changed. */
void list_changed_enqueue(struct worker *worker, unsigned lists);
/* A resource or template was added or removed. A principal with restricted access is notified only
 * if it may list this one, at most once per period of its class; others are notified through
 * list_changed_enqueue. */
void list_changed_touch(struct worker *worker, struct tidings_str uri, struct tidings_str target);
/* Resources below `scope` may have been added or removed; empty: anywhere. */
void list_changed_touch_below(struct worker *worker, struct tidings_str scope);
void list_changed_on_period(struct loop_timer *timer, void *user);
/* A list change from the log: the same for a resuming client. */
void list_changed_replay(struct subscriber *subscriber, const struct changelog_row *row,
                         uint64_t since);

/* At the end of the turn, notifies `group` of those of `lists` that it subscribes to. */
void list_changed_mark(struct subscription_group *group, unsigned lists, uint64_t seq);
/* Writes the marked notifications. Returns false if some are left. */
bool list_changed_flush(struct subscriber *subscriber);

#endif
