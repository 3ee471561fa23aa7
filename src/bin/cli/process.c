/* SPDX-License-Identifier: MIT
 *
 * Makes this process undumpable (PR_SET_DUMPABLE), and nothing else: not being dumpable includes
 * core files, whatever the limit and wherever they would go; a limit of 0 would be handed on to the
 * programs we start.
 */
#include "bin/cli/process.h"

#include <sys/prctl.h>

void process_has_secrets(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
