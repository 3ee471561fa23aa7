/* SPDX-License-Identifier: MIT
 *
 * The names under which completions are registered: a completion is a feature (handler/feature.h)
 * whose name says what it completes, a prompt or a template.
 */
#ifndef HANDLER_COMPLETION_H
#define HANDLER_COMPLETION_H

#include "handler/feature.h"
#include "uri/uri.h"

#define COMPLETE_PROMPT "prompt"
#define COMPLETE_TEMPLATE "template"
#define COMPLETE_KEY_MAX (URI_MAX + 16u)

/* "prompt review", "template x:///{id}". */
static inline void complete_put_key(struct buf *out, const char *what, struct tidings_str name)
{
    buf_puts(out, tidings_str(what));
    buf_putc(out, ' ');
    buf_puts(out, name);
}

#endif
