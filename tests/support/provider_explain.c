/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "support/provider_host.h"

/* Written before the answer, which is waited for. */
static char explained[1024];

static void explain(struct tidings_str object)
{
    snprintf(explained, sizeof(explained), "%.*s", (int)object.len, object.ptr);
}

void tidings_read_explain(struct tidings_read *read, struct tidings_str object)
{
    (void)read;
    explain(object);
}

bool tidings_read_shows(const struct tidings_read *read, struct tidings_str uri)
{
    (void)read;
    (void)uri;
    return true;
}

bool tidings_read_may(const struct tidings_read *read, struct tidings_str uri)
{
    (void)read;
    (void)uri;
    return true;
}

bool tidings_stat_shows(const struct tidings_stat *stat, struct tidings_str uri)
{
    (void)stat;
    (void)uri;
    return true;
}

bool tidings_complete_shows(const struct tidings_complete *complete, struct tidings_str uri)
{
    (void)complete;
    (void)uri;
    return true;
}

void tidings_read_final(struct tidings_read *read)
{
    (void)read;
}

void tidings_stat_explain(struct tidings_stat *stat, struct tidings_str object)
{
    (void)stat;
    explain(object);
}

void tidings_write_explain(struct tidings_write *write, struct tidings_str object)
{
    (void)write;
    explain(object);
}

const char *host_explained(void)
{
    return explained;
}
