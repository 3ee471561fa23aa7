/* SPDX-License-Identifier: MIT
 *
 * Any bytes as JSON: an answer, no crash. Valid input is written, parses again, and is written the
 * same; invalid input is still a string the writer can quote. jansson's own parser accepts and
 * reads the same, except for the cases in tests/unit/formats/test_parse_differential.c. A peer may
 * send any valid input, with the same result; accepted peer input is written, and then needs no
 * repair.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "formats/json.h"
#include "formats/json_write.h"
#include "support/jansson_value.h"

#define DEPTH_MAX 512u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void write_value(struct buf *out, const struct json *v)
{
    struct jw w;
    buf_init(out, 1u << 26);
    jw_init(&w, out);
    jw_value(&w, v);
    require(out->failed == 0);
}

static void compare(struct tidings_str text)
{
    json_error_t e;
    struct json *ours = NULL;
    int rc = jv_parse(text, DEPTH_MAX, &ours, NULL);
    require((rc == 0) == (ours != NULL));
    if (rc != TIDINGS_E_LIMIT && (text.len == 0 || !memchr(text.ptr, '\0', text.len))) {
        json_t *theirs = json_loadb(text.ptr, text.len,
                                    JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
        require((ours != NULL) == (theirs != NULL));
        json_t *same = ours ? jansson_value(ours) : NULL;
        require(!ours || json_equal(same, theirs));
        json_decref(same);
        json_decref(theirs);
    }
    jv_unref(ours);
}

static void read_peer(struct tidings_str text)
{
    struct json *strict = NULL, *peer = NULL, *again = NULL;
    struct jv_mended mended;
    struct buf out, second;
    int rc = jv_parse(text, DEPTH_MAX, &strict, NULL);
    require(json_parse_lenient(text, &peer, &mended, NULL) == 0 || (rc < 0 && !peer));
    require(rc < 0 || (jv_equal(strict, peer) && mended.halves + mended.repeated == 0));
    if (peer) {
        write_value(&out, peer);
        require(json_parse_lenient(buf_str(&out), &again, &mended, NULL) == 0);
        require(mended.halves + mended.repeated == 0 && jv_equal(peer, again));
        write_value(&second, again);
        require(str_eq(buf_str(&out), buf_str(&second)));
        buf_deinit(&second);
        buf_deinit(&out);
    }
    struct tidings_str found = json_peek(text, STR("id"));
    require(found.len == 0 ||
            (found.ptr >= text.ptr && found.ptr + found.len <= text.ptr + text.len));
    jv_unref(again);
    jv_unref(peer);
    jv_unref(strict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = {(const char *)data, size};
    struct tidings_error err = {0};
    struct json *v = NULL, *again = NULL;
    struct buf first, second;
    compare(text);
    read_peer(text);
    if (jv_parse(text, JSON_MAX_DEPTH, &v, &err) == 0) {
        write_value(&first, v);
        require(jv_parse(buf_str(&first), JSON_MAX_DEPTH, &again, NULL) == 0);
        write_value(&second, again);
        require(str_eq(buf_str(&first), buf_str(&second)) && jv_count(v) == jv_count(again));
        buf_deinit(&second);
        jv_unref(again);
        jv_unref(v);
    } else {
        require(!v && err.code < 0 && str_is_utf8(tidings_str(err.text)));
        buf_init(&first, 1u << 26);
        require(jw_quote(&first, text) == 0);
        require(jv_parse(buf_str(&first), 0, &v, NULL) == 0 && jv_is(v, JV_STRING));
        require(!str_is_utf8(text) || str_eq(jv_str(v), text));
        jv_unref(v);
    }
    buf_deinit(&first);
    return 0;
}
