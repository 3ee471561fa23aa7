/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an HTTP request: the verdict, the head and the decoded body are the same whether the
 * bytes come whole or one by one, and every slice lies inside them.
 */
#include <stdlib.h>

#include "formats/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_body(const char *raw, size_t len)
{
    struct http_chunked whole, dribbled;
    size_t decoded, used, total = 0, taken = 0;
    enum http_chunked_result end = HTTP_CHUNKED_MORE, one = HTTP_CHUNKED_MORE;
    char *copy = malloc(len + 1);
    require(copy != NULL);
    memcpy(copy, raw, len);
    http_chunked_init(&whole);
    http_chunked_init(&dribbled);
    end = http_chunked_decode(&whole, copy, len, &decoded, &used);
    for (size_t i = 0; i < len && one == HTTP_CHUNKED_MORE; i++) {
        char byte[1] = {raw[i]};
        size_t n, m;
        one = http_chunked_decode(&dribbled, byte, 1, &n, &m);
        require(n == 0 || byte[0] == copy[total]);
        total += n;
        taken += m;
    }
    require(one == end && total == decoded && taken == used && decoded <= used && used <= len);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_request req, again;
    const char *bytes = size ? (const char *)data : "";
    struct http_fault fault = {0}, same = {0};
    size_t scanned = 0;
    ptrdiff_t head = http_parse_head(bytes, size, &scanned, &req, &fault), rc = 0;
    scanned = 0;
    for (size_t n = 0; rc == 0 && n <= size; n++) {
        rc = http_parse_head(bytes, n, &scanned, &again, &same);
    }
    require(rc == head && fault.status == same.status && (head < 0) == (fault.status >= 400));
    if (head > 0) {
        require(req.header_count == again.header_count && str_eq(req.host, again.host));
        require(str_eq(req.path, again.path) && str_eq(req.query, again.query));
        for (unsigned i = 0; i < req.header_count; i++) {
            struct tidings_str v = req.headers[i].value;
            require(v.len == 0 || (v.ptr > bytes && v.ptr + v.len <= bytes + head));
            (void)http_list_has(v, "close");
        }
    }
    check_body(bytes + (head > 0 ? head : 0), size - (size_t)(head > 0 ? head : 0));
    return 0;
}
