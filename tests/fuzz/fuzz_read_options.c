/* SPDX-License-Identifier: MIT
 *
 * Any JSON as the `_meta` of a read: options whose promises hold, or an error message.
 */
#include <stdlib.h>

#include "base/str.h"
#include "engine/catalog/read_options.h"
#include "formats/http_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *meta = NULL;
    struct read_options o;
    struct tidings_error err = {0};
    struct tidings_str text = tidings_strn((const char *)data, size);
    if (jv_parse(text, JSON_MAX_DEPTH, &meta, NULL) < 0) {
        return 0;
    }
    int rc = read_options_parse(&o, meta, &err);
    if (rc < 0) {
        require(rc == TIDINGS_E_INVALID && err.text[0] != '\0');
    } else {
        size_t from, to;
        require(err.code == 0 && o.etag_count <= READ_ETAGS_MAX);
        require(read_options_rank(&o, STR("text/html")) <= o.format_count);
        require(!read_options_holds(&o, STR("W/x"), NULL));
        if (o.has_range && byte_range_find(&o.range, text, &from, &to, NULL) == 0) {
            require(from <= to && to <= text.len);
            byte_range_fit_text(text, &from, &to);
            require(from <= to && to <= text.len);
        }
    }
    jv_unref(meta);
    return 0;
}
