/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/provider_host.h"

/* Written before the awaited answer. */
static char explained[1024];

static const char *hidden = NULL;

void host_hide(const char *prefix)
{
    hidden = prefix;
}

static bool is_shown(struct tidings_str uri)
{
    size_t len = hidden ? strlen(hidden) : 0;
    return !hidden || (uri.len > 0 && (uri.len < len || memcmp(uri.ptr, hidden, len) != 0));
}

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
    return is_shown(uri);
}

bool tidings_read_may(const struct tidings_read *read, struct tidings_str uri)
{
    (void)read;
    return is_shown(uri);
}

bool tidings_stat_shows(const struct tidings_stat *stat, struct tidings_str uri)
{
    (void)stat;
    return is_shown(uri);
}

bool tidings_complete_shows(const struct tidings_complete *complete, struct tidings_str uri)
{
    (void)complete;
    return is_shown(uri);
}

bool tidings_list_shows(const struct tidings_list *list, struct tidings_str uri)
{
    (void)list;
    return is_shown(uri);
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
