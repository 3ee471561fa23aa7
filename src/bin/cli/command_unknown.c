/* SPDX-License-Identifier: MIT
 *
 * What is said of a command that does not exist.
 */
#include <stdio.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/suggest.h"

int command_unknown(const char *name)
{
    const char *names[128];
    char hint[96] = "'tidings help' lists the commands";
    struct tidings_error err = {TIDINGS_E_INVALID, ""};
    size_t count = 0;
    for (; commands[count] && count + 1 < sizeof(names) / sizeof(names[0]); count++) {
        names[count] = commands[count]->name;
    }
    names[count] = NULL;
    const char *near = suggest(name, names);
    snprintf(err.text, sizeof(err.text), "unknown command '%.60s'%s%s%s", name,
             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (command_is_group(commands[i]) && strncmp(name, names[i], len) == 0 &&
            name[len] == ' ') {
            snprintf(hint, sizeof(hint), "'tidings help %s' lists its commands", names[i]);
        }
    }
    return command_fail(NULL, &err, hint);
}
