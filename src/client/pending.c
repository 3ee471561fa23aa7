/* SPDX-License-Identifier: MIT
 *
 * What <tidings/client.h> promises and the engine does not do yet.
 */
#include <tidings/client.h>

#include "base/str.h"

static int later(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "not there yet");
}

static char *later_text(struct tidings_error *err)
{
    later(err);
    return NULL;
}

struct tidings_client *tidings_client_launch(const char *const *argv,
                                             const struct tidings_client_options *options,
                                             struct tidings_error *err)
{
    (void)argv;
    (void)options;
    later(err);
    return NULL;
}

int tidings_client_connect(struct tidings_client *client, struct tidings_error *err)
{
    (void)client;
    return later(err);
}

const struct tidings_client_info *tidings_client_info(const struct tidings_client *client)
{
    (void)client;
    return NULL;
}

int tidings_client_fd(const struct tidings_client *client)
{
    (void)client;
    return -1;
}

int tidings_client_step(struct tidings_client *client, int timeout_ms, struct tidings_error *err)
{
    (void)client;
    (void)timeout_ms;
    return later(err);
}

struct tidings_subscription *tidings_client_subscribe(struct tidings_client *client,
                                                      const char *uri,
                                                      const struct tidings_subscribing *subscribing,
                                                      struct tidings_error *err)
{
    (void)client;
    (void)uri;
    (void)subscribing;
    later(err);
    return NULL;
}

void tidings_subscription_end(struct tidings_subscription *subscription)
{
    (void)subscription;
}

const char *tidings_subscription_uri(const struct tidings_subscription *subscription)
{
    (void)subscription;
    return "";
}

int tidings_subscription_set_options(struct tidings_subscription *subscription, const char *options,
                                     struct tidings_error *err)
{
    (void)subscription;
    (void)options;
    return later(err);
}

void tidings_client_on_notification(struct tidings_client *client,
                                    tidings_client_notification_fn fn, void *user)
{
    (void)client;
    (void)fn;
    (void)user;
}

char *tidings_client_request(struct tidings_client *client, const char *method, const char *params,
                             struct tidings_error *err)
{
    (void)client;
    (void)method;
    (void)params;
    return later_text(err);
}

const char *tidings_client_last_error(const struct tidings_client *client)
{
    (void)client;
    return NULL;
}

int64_t tidings_client_ask(struct tidings_client *client,
                           const struct tidings_client_asking *asking, struct tidings_error *err)
{
    (void)client;
    (void)asking;
    return later(err);
}

void tidings_client_cancel(struct tidings_client *client, int64_t number)
{
    (void)client;
    (void)number;
}

char *tidings_client_metadata(struct tidings_client *client, const char *uri,
                              struct tidings_error *err)
{
    (void)client;
    (void)uri;
    return later_text(err);
}

char *tidings_client_call(struct tidings_client *client, const char *tool, const char *arguments,
                          tidings_client_progress_fn on_progress, void *user,
                          struct tidings_error *err)
{
    (void)client;
    (void)tool;
    (void)arguments;
    (void)on_progress;
    (void)user;
    return later_text(err);
}

char *tidings_client_prompt(struct tidings_client *client, const char *name, const char *arguments,
                            struct tidings_error *err)
{
    (void)client;
    (void)name;
    (void)arguments;
    return later_text(err);
}

char *tidings_client_complete(struct tidings_client *client, const char *ref, const char *argument,
                              const char *value, const char *known, struct tidings_error *err)
{
    (void)client;
    (void)ref;
    (void)argument;
    (void)value;
    (void)known;
    return later_text(err);
}

int tidings_client_list(struct tidings_client *client, enum tidings_listing list,
                        tidings_client_item_fn fn, void *user, struct tidings_error *err)
{
    (void)client;
    (void)list;
    (void)fn;
    (void)user;
    return later(err);
}

int tidings_client_children(struct tidings_client *client, const char *uri,
                            tidings_client_item_fn fn, void *user, struct tidings_error *err)
{
    (void)client;
    (void)uri;
    (void)fn;
    (void)user;
    return later(err);
}

int tidings_client_walk(struct tidings_client *client, const char *uri,
                        const struct tidings_walk_limits *limits, tidings_walk_fn fn, void *user,
                        struct tidings_error *err)
{
    (void)client;
    (void)uri;
    (void)limits;
    (void)fn;
    (void)user;
    return later(err);
}
