/* SPDX-License-Identifier: MIT
 *
 * An untrusted client of a whole server, for fuzzing: the server is stepped in this thread, the
 * client uses a Unix socket, and its input is kept. No cmocka: a broken promise aborts.
 *
 *     dialogue_open(DIALOGUE_LINES);
 *     dialogue_say(bytes);             // sent, and turns taken until the server is idle
 *     … dialogue_heard(), dialogue_is_over() …
 *     dialogue_close();                // the server must be empty
 *
 * The server has the resources app:///a and app:///b, the template app:///row/{id}, published
 * resources below pub:///, the tools `echo` and `ask` (which asks back once) and a prompt; app:///a
 * changes after every message. In messages, $S is replaced by the last session id,
 * $E for the id of an event, $C for a cursor, $R for a requestState.
 */
#ifndef SUPPORT_DIALOGUE_H
#define SUPPORT_DIALOGUE_H

#include <tidings/types.h>

#define DIALOGUE_MAX_BODY 4096u /* of the server: bodies and lines */
#define DIALOGUE_END 0x1e       /* one message ends here: dialogue_next */

enum dialogue_door { DIALOGUE_LINES, DIALOGUE_HTTP };

void dialogue_require(bool ok, const char *what);

void dialogue_open(enum dialogue_door door);
/* The sent message, with $S and so on replaced; valid until the next. */
struct tidings_str dialogue_say(struct tidings_str bytes);
/* No message follows; pending requests are still answered. */
void dialogue_finish(void);
struct tidings_str dialogue_heard(void);
/* Returns true if the server has closed the connection. */
bool dialogue_is_over(void);
/* Go away. Aborts when the server keeps anything but sessions and what was published, which do not
 * outlive this. */
void dialogue_close(void);

/* The next piece of an input: up to DIALOGUE_END. false: there is none. */
bool dialogue_next(struct tidings_str *input, struct tidings_str *piece);

#endif
