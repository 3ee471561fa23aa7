/* SPDX-License-Identifier: MIT
 *
 * The query of an entity write: accepted input is the inside of one JSON object, with each name
 * once, and only allowed names.
 */
#include <stdlib.h>

#include "server/tools_entity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *root = NULL;
    struct buf text;
    struct jw w;
    buf_init(&text, 1u << 20);
    jw_init(&w, &text);
    jw_begin_object(&w);
    int rc = entity_http_query(&w, tidings_strn((const char *)data, size), NULL);
    jw_end_object(&w);
    if (rc == 0 && !text.failed &&
        (jv_parse(buf_str(&text), JSON_MAX_DEPTH, &root, NULL) < 0 || jv_count(root) > 9)) {
        abort();
    }
    jv_unref(root);
    buf_deinit(&text);
    return 0;
}
