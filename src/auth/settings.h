/* SPDX-License-Identifier: MIT
 *
 * Settings checked and copied into a `struct auth`.
 */
#ifndef AUTH_SETTINGS_H
#define AUTH_SETTINGS_H

#include "auth/auth_private.h"

/* TIDINGS_E_INVALID with what is accepted; what was copied until then is settings_drop's. */
int settings_keep(struct auth *a, const struct auth_settings *settings, struct tidings_error *err);
void settings_drop(struct auth *a);

/* https, or http to this very machine; without user, query or fragment where they could confuse. */
bool settings_is_safe_url(struct tidings_str url);

#endif
