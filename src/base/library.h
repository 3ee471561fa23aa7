/* SPDX-License-Identifier: MIT
 *
 * A shared library that is optional at run time: it is loaded on first use, and only features that
 * use it need it. Building needs its header, never the library.
 *
 * A module that uses one has a table of function pointers, fills it once (pthread_once) and checks
 * before each use whether that succeeded:
 *
 *     LIBRARY(library, "websocket", "WebSocket connections", "recommended", "libwslay1",
 *             "libwslay.so.1");
 *
 * A loaded library stays loaded.
 */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <tidings/types.h>

struct library {
    const char *files[2]; /* file names for the loader: the second is an alternative, or NULL */
    const char *package;  /* Debian package, for the error message */
    void *handle;         /* NULL: missing */
    const char *lacks;    /* the first missing function; NULL: none */
};

struct library_function {
    const char *name;
    void *at; /* the function pointer to set */
};

/* Defines `static struct library NAME` and declares the library in the binary, for packaging tools:
 * an ELF note as systemd defines it (systemd.io/ELF_DLOPEN_METADATA). PRIORITY is "required",
 * "recommended" or "suggested". The note becomes JSON, so no string can need an escape. After
 * PACKAGE come one or two file names. tools/check-binary compares the notes with debian/control. */
#define LIBRARY(name, feature, description, priority, package_name, ...)                           \
    LIBRARY_NOTE(name##_note, "[{\"feature\":\"" feature "\",\"description\":\"" description       \
                              "\",\"priority\":\"" priority                                        \
                              "\",\"soname\":[" LIBRARY_NAMES(__VA_ARGS__) "]}]");                 \
    static struct library name = {.files = {__VA_ARGS__}, .package = package_name}

#define LIBRARY_NAMES(...) LIBRARY_PICK(__VA_ARGS__, LIBRARY_TWO, LIBRARY_ONE, )(__VA_ARGS__)
#define LIBRARY_PICK(first, second, macro, ...) macro
#define LIBRARY_ONE(file) "\"" file "\""
#define LIBRARY_TWO(file, other) "\"" file "\",\"" other "\""

/* `retain` and `used` preserve the note in `ld -r`, --gc-sections and `strip`. */
#define LIBRARY_NOTE(name, json)                                                                   \
    static const struct {                                                                          \
        uint32_t owner_size, text_size, type;                                                      \
        char owner[4];                                                                             \
        char text[sizeof(json)];                                                                   \
    } name __attribute__((used, retain, section(".note.dlopen"), aligned(4))) = {                  \
        4, sizeof(json), 0x407c0c0a, "FDO", json}

/* Loads the library and sets all function pointers, once. */
void library_open(struct library *library, const struct library_function *wanted, size_t count);
/* 0, or TIDINGS_E_UNSUPPORTED with the missing library or function. Call it after library_open. */
int library_check(const struct library *library, struct tidings_error *err);

#endif
