/* SPDX-License-Identifier: MIT
 *
 * The console: a web page that shows what a server does (what moves, who is connected, the tree of
 * resources) and lets a person try requests. It is one page of HTML with its style and script in
 * it, made of the files beside this one when the library is built; in the browser it is an MCP
 * client like any other, so it shows what the person's rights allow and holds no secret itself.
 *
 * The page is sent with a Content-Security-Policy that lets exactly this script and this style run,
 * and nothing be loaded from anywhere else.
 */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

#include "base/str.h"

struct console {
    struct buf page;   /* the HTML */
    struct buf policy; /* the value of Content-Security-Policy */
};

/* TIDINGS_E_NOMEM; console_deinit is due in any case. */
int console_init(struct console *console, struct tidings_error *err);
void console_deinit(struct console *console); /* one that is zeroed, too */

#endif
