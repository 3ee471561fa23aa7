/* SPDX-License-Identifier: MIT
 *
 * The heap of due windows, for what holds changes back (window_held.c).
 */
#ifndef DELIVERY_WINDOW_PRIVATE_H
#define DELIVERY_WINDOW_PRIVATE_H

#include "delivery/window.h"

/* `w` falls due at its open_ms. TIDINGS_E_NOMEM. */
int windows_enter(struct windows *all, struct window *w);
void windows_leave(struct windows *all, struct window *w); /* also when it is not there */

#endif
