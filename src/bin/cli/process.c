/* SPDX-License-Identifier: MIT
 *
 * Secrets: this process is made undumpable (PR_SET_DUMPABLE), and nothing else: not being dumpable
 * includes core files, whatever the limit and wherever they would go; a limit of 0 would be handed
 * on to the programs we start. The list of processes shows the memory that the arguments came in,
 * to everybody, also then.
 */
#include "bin/cli/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

void process_has_secrets(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Where what is not shown begins, or NULL: all of a URL after its scheme. */
static char *process_secret_in(char *argument)
{
    char *url = strstr(argument, "://");
    char *at = url ? strrchr(url, '@') : NULL, *colon = url ? strchr(url + 3, ':') : NULL;
    if ((at && colon && colon < at) || (url && strcasestr(url, "pass"))) {
        return url + 3;
    }
    char *plain = strcasestr(argument, "password=");
    return plain ? plain + strlen("password=") : NULL;
}

void process_hide_passwords(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *secret = process_secret_in(argv[i]);
        char *copy = secret ? strdup(argv[i]) : NULL;
        if (copy) { /* ours until the end */
            memset(secret, '*', strlen(secret));
            argv[i] = copy;
        }
    }
}
