/* SPDX-License-Identifier: MIT
 *
 * Public functions of a subscription handle, which call the server's or the client's
 * implementation, and the names of kinds of changes.
 */
#include "base/subscription_handle.h"

const char *tidings_change_name(enum tidings_change_kind kind)
{
    switch (kind) {
    case TIDINGS_CHANGE_CREATED:
        return "created";
    case TIDINGS_CHANGE_DELETED:
        return "deleted";
    case TIDINGS_CHANGE_MOVED:
        return "moved";
    case TIDINGS_CHANGE_UPDATED:
    default:
        return "updated";
    }
}

void tidings_subscription_end(struct tidings_subscription *subscription)
{
    if (subscription) {
        subscription->ops->end(subscription);
    }
}

const char *tidings_subscription_uri(const struct tidings_subscription *subscription)
{
    return subscription ? subscription->ops->uri(subscription) : NULL;
}

int tidings_subscription_set_options(struct tidings_subscription *subscription, const char *options,
                                     struct tidings_error *err)
{
    if (!subscription) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no subscription: it is NULL");
    }
    return subscription->ops->set_options(subscription, options, err);
}
