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
#ifndef SERVER_CONSOLE_H
#define SERVER_CONSOLE_H

#include <stddef.h>

#include "base/str.h"

struct console {
    struct buf page;   /* the HTML */
    struct buf policy; /* the value of Content-Security-Policy */
};

/* TIDINGS_E_NOMEM; console_deinit is due in any case. */
int console_init(struct console *console, struct tidings_error *err);
void console_deinit(struct console *console); /* one that is zeroed, too */

/* -------------------------------------------------------------------------------------------------
 * The files of the console's page as bytes, in a file that cmake/console.cmake makes: the HTML
 * up to, between and after its style and script.
 */

struct console_text {
    const unsigned char *bytes;
    size_t len;
};

extern const struct console_text console_before_style, console_style, console_before_script,
    console_script, console_after_script;

#endif
