/* SPDX-License-Identifier: MIT
 *
 * Writing a JSON value into memory that the program frees.
 */
#include "client/json_text.h"

#include "client/state.h"
#include "json/write.h"

char *json_text_of(const struct tidings_client *c, const struct json *value, size_t *ret_len)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 2 * c->settings.max_bytes);
    jw_init(&w, &out);
    jw_value(&w, value);
    if (out.failed) {
        buf_deinit(&out);
    }
    return buf_detach(&out, ret_len);
}
