/* SPDX-License-Identifier: MIT
 *
 * A directory with all that is in it goes. Header only: several programs use it.
 */
#ifndef SUPPORT_REMOVE_TREE_H
#define SUPPORT_REMOVE_TREE_H

#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* 0, or -1 with errno. Links are not followed. */
static inline int remove_tree(const char *path)
{
    return nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

#endif
