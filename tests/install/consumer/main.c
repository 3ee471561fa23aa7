/* SPDX-License-Identifier: MIT
 *
 * The smallest embedder: includes the installed header, calls one function, prints what it says.
 */
#include <stdio.h>

#include <tidings/tidings.h>

int main(void)
{
    return puts(tidings_version()) < 0;
}
