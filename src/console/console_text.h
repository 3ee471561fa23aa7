/* SPDX-License-Identifier: MIT
 *
 * The files of the console's page as bytes, in a file that cmake/console.cmake makes: the HTML
 * up to, between and after its style and script.
 */
#ifndef CONSOLE_CONSOLE_TEXT_H
#define CONSOLE_CONSOLE_TEXT_H

#include <stddef.h>

struct console_text {
    const unsigned char *bytes;
    size_t len;
};

extern const struct console_text console_before_style, console_style, console_before_script,
    console_script, console_after_script;

#endif
