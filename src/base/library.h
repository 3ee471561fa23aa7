/* SPDX-License-Identifier: MIT
 *
 * A shared library that is optional at run time: it is loaded when something first needs it, and
 * missed only by what needs it. Building needs its header, never the library.
 *
 * A module that uses one has a table of function pointers, fills it once (pthread_once) and asks
 * before each use whether that went well:
 *
 *     static struct library library = {.file = "libwslay.so.1", .package = "libwslay1"};
 *
 * What has been loaded stays loaded.
 */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <tidings/types.h>

struct library {
    const char *file;    /* as the loader looks for it */
    const char *other;   /* the same interface under another name, or NULL */
    const char *package; /* Debian's, for the sentence that says what to install */
    void *handle;        /* NULL: not there */
    const char *lacks;   /* the first function it does not have; NULL: none */
};

struct library_function {
    const char *name;
    void *at; /* the function pointer to be filled in */
};

/* Load it and fill in all functions, once. */
void library_open(struct library *library, const struct library_function *wanted, size_t count);
/* 0, or TIDINGS_E_UNSUPPORTED with what is missing. After library_open. */
int library_check(const struct library *library, struct tidings_error *err);

#endif
