/* SPDX-License-Identifier: MIT
 *
 * The subscription handle: the part that client and server subscriptions share, and the object that
 * a program holds (<tidings/subscription.h>). It is the first member of both, and its table
 * identifies which one it is.
 */
#ifndef BASE_SUBSCRIPTION_HANDLE_H
#define BASE_SUBSCRIPTION_HANDLE_H

#include <tidings/subscription.h>

struct subscription_handle_ops {
    void (*end)(struct tidings_subscription *subscription);
    const char *(*uri)(const struct tidings_subscription *subscription);
    int (*set_options)(struct tidings_subscription *subscription, const char *options,
                       struct tidings_error *err);
};

struct tidings_subscription {
    const struct subscription_handle_ops *ops;
};

#endif
