/* SPDX-License-Identifier: MIT
 *
 * An entity URI: accepted input builds a string that parses to the same string again.
 */
#include <stdlib.h>

#include "formats/uri.h"
#include "sources/entity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn((const char *)data, size);
    struct entity_uri uri, again;
    struct buf first, second, canonical;
    buf_init(&first, 4 * ENTITY_URI_MAX);
    buf_init(&second, 4 * ENTITY_URI_MAX);
    buf_init(&canonical, 4 * URI_MAX);
    if (entity_uri_parse(text, &uri, NULL) == 0) {
        check(entity_uri_build(&uri, &first) == 0);
        check(entity_uri_parse(buf_str(&first), &again, NULL) == 0);
        check(again.kind == uri.kind && again.time == uri.time);
        check(entity_uri_build(&again, &second) == 0);
        check(str_eq(buf_str(&first), buf_str(&second)));
        check(uri_canonical(buf_str(&first), &canonical, NULL) == 0);
    }
    buf_deinit(&first);
    buf_deinit(&second);
    buf_deinit(&canonical);
    return 0;
}
