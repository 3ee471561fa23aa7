/* SPDX-License-Identifier: MIT
 *
 * Any bytes as each of the fields: slices stay inside, what is accepted makes sense, what is
 * written can be read back.
 */
#include <stdlib.h>

#include "formats/http_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void use_etags(struct tidings_str s)
{
    struct tidings_str tag;
    bool weak = false;
    size_t before = s.len + 1;
    while (http_next_etag(&s, &tag, &weak)) {
        require(s.len < before);
        before = s.len + (s.len == 0);
        struct buf out;
        buf_init(&out, SIZE_MAX);
        require(http_put_etag(&out, "E", tag) == 0);
        if (out.len > 0 && !str_starts(tag, STR("W/"))) {
            struct tidings_str again = str_trim(str_skip(buf_str(&out), 3), "\r\n"), same;
            require(http_next_etag(&again, &same, &weak) && str_eq(same, tag));
        }
        buf_deinit(&out);
        if (s.len == 0) {
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str s = {size ? (const char *)data : "", size};
    struct http_range range;
    struct tidings_str ranges[8];
    if (http_parse_range(s, &range)) {
        require(range.from >= 0 && range.last >= 0 && (range.to == -1 || range.to > range.from));
    }
    size_t count = http_parse_accept(s, ranges, 8);
    require(count <= 8);
    for (size_t i = 0; i < count; i++) {
        require(http_is_media_type(ranges[i]));
    }
    use_etags(s);
    struct buf out;
    buf_init(&out, 100);
    int rc = http_query_get(s, "uri", &out);
    require((rc == 1 || rc == 0 || rc == TIDINGS_E_INVALID) && out.len <= size);
    buf_deinit(&out);
    return 0;
}
