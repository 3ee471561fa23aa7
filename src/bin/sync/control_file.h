/* SPDX-License-Identifier: MIT
 *
 * Names of files that other tools follow without being asked: whoever works in a directory where
 * one of them turns up has a stranger's commands run or settings used, by entering it, opening it
 * in an editor, or by any git command. What a person has to start by name (a Makefile, a script) is
 * ordinary content and not in the list.
 */
#ifndef BIN_CONTROL_FILE_H
#define BIN_CONTROL_FILE_H

/* Does a part of the path, which has one slash between names, have such a name, in the eyes of any
 * file system (case, characters that are not seen, trailing dots)? NULL, or who follows it: a
 * sentence. */
const char *control_file(const char *path);

#endif
