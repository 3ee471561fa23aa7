/* SPDX-License-Identifier: MIT
 *
 * Writing through a provider that is open in a host (support/provider_host.h). For those that
 * finish a write before they return.
 */
#ifndef TESTS_SUPPORT_PROVIDER_WRITE_H
#define TESTS_SUPPORT_PROVIDER_WRITE_H

#include <tidings/provider.h>

struct host_write {
    const char *content; /* NULL: remove */
    const char *mime_type, *if_match, *metadata;
    bool if_absent;
};

/* The code the provider finished with; 1: created. */
int host_write(struct tidings_provider *provider, const struct tidings_provider_ops *ops,
               const char *uri, const struct host_write *w);

#endif
