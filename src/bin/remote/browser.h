/* SPDX-License-Identifier: MIT
 *
 * Shows a person where to agree to a login: the address on standard error, and in a browser.
 */
#ifndef BIN_BROWSER_H
#define BIN_BROWSER_H

#include <stdbool.h>

/* `url` is http or https, of visible characters, as the library gives it. `opens`: in the program
 * that BROWSER names, else by xdg-open where there is a screen; nobody waits for that. */
void browser_show(const char *command, const char *url, bool opens);

#endif
