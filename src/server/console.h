/* SPDX-License-Identifier: MIT
 *
 * The console: a web page that shows the activity of a server, its connected clients and its tree
 * of resources, and lets a user try requests. It is one HTML page with inline style and script,
 * generated from the files in console/ when the library is built. In the browser it is an ordinary
 * MCP client, so it shows what the user's rights allow, and contains no secrets.
 *
 * The page is sent with a Content-Security-Policy that allows exactly this script and this style,
 * and no other content.
 */
#ifndef SERVER_CONSOLE_H
#define SERVER_CONSOLE_H

#include <stddef.h>

#include "base/str.h"

struct console {
    struct buf page;   /* the HTML */
    struct buf policy; /* the value of Content-Security-Policy */
};

/* TIDINGS_E_NOMEM; call console_deinit in any case. */
int console_init(struct console *console, struct tidings_error *err);
void console_deinit(struct console *console); /* a zeroed one is fine */

/* -------------------------------------------------------------------------------------------------
 * The files of the console's page as bytes, in a file that cmake/console.cmake generates: the HTML
 * before, between and after its style and script.
 */

struct console_text {
    const unsigned char *bytes;
    size_t len;
};

extern const struct console_text console_before_style, console_style, console_before_script,
    console_script, console_after_script;

#endif
