/* SPDX-License-Identifier: MIT
 *
 * The content of tidings://self/semantics: for each scheme, what a subscription to a URI, a pattern
 * or a container covers, to be read by programs. It is made from the tables of the providers that
 * serve a scheme and, where they say nothing, from the rules that hold everywhere, in the order in
 * which it is decided what a URI means.
 */
#ifndef CATALOG_SEMANTICS_H
#define CATALOG_SEMANTICS_H

#include "catalog/catalog.h"
#include "json/write.h"

/* One JSON object; its schema is docs/schema/semantics.json. Names no resource, only schemes. Of a
 * scheme whose changes carry no metadata (TIDINGS_PROVIDER_BARE_CHANGES), and where clients may say
 * none either (`allow_write`), there are no queries but those its provider names. */
void semantics_write(struct jw *w, const struct catalog *catalog, bool allow_write);

#endif
