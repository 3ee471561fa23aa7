/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/provider_host.h"

/* What host_set_argument said last. */
static const char *argument_name, *argument_value;

void host_set_argument(const char *name, const char *value)
{
    argument_name = name;
    argument_value = value;
}

struct tidings_str tidings_complete_argument(const struct tidings_complete *complete,
                                             const char *name)
{
    (void)complete;
    bool is = argument_name && strcmp(argument_name, name) == 0;
    return tidings_str(is ? argument_value : NULL);
}
