/* SPDX-License-Identifier: MIT
 *
 * Loads optional shared libraries with dlopen.
 */
#include "base/library.h"

#include <dlfcn.h>

#define FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

void library_open(struct library *library, const struct library_function *wanted, size_t count)
{
    library->handle = dlopen(library->files[0], FLAGS);
    if (!library->handle && library->files[1]) {
        library->handle = dlopen(library->files[1], FLAGS);
    }
    for (size_t i = 0; library->handle && !library->lacks && i < count; i++) {
        /* ISO C has no cast from an object pointer to a function pointer; POSIX makes the bytes
         * equal. */
        void *found = dlsym(library->handle, wanted[i].name);
        memcpy(wanted[i].at, &found, sizeof found);
        library->lacks = found ? NULL : wanted[i].name;
    }
}

int library_check(const struct library *library, struct tidings_error *err)
{
    if (!library->handle) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "%s cannot be loaded; install it (Debian: %s)", library->files[0],
                            library->package);
    }
    if (library->lacks) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "%s lacks the function %s; install another version (Debian: %s)",
                            library->files[0], library->lacks, library->package);
    }
    return 0;
}
