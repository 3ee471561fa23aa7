/* SPDX-License-Identifier: MIT
 *
 * The parts of examples/conformance.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <tidings/tidings.h>

/* conformance_tasks.c: the tools whose calls can be tasks. */
int conformance_add_tasks(struct tidings_server *server, struct tidings_error *err);
/* conformance_skills.c: a skill. */
int conformance_add_skills(struct tidings_server *server, struct tidings_error *err);

#endif
