/* SPDX-License-Identifier: MIT
 *
 * Reads traceparent (W3C Trace Context §3.2) and tracestate (§3.3).
 */
#include "wire/trace.h"

#include "base/str.h"

#define MEMBERS_MAX 32u

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); /* upper case is not valid */
}

/* `len` of them at the front, not all 0 unless that is fine. */
static bool trace_has_hex(const char *at, size_t len, bool may_be_zero)
{
    bool is_zero = true;
    for (size_t i = 0; i < len; i++) {
        if (!is_hex(at[i])) {
            return false;
        }
        is_zero = is_zero && at[i] == '0';
    }
    return may_be_zero || !is_zero;
}

static bool parent_is_valid(struct tidings_str s)
{
    if (s.len < TRACE_PARENT_LEN || !trace_has_hex(s.ptr, 2, true) ||
        (s.ptr[0] == 'f' && s.ptr[1] == 'f')) {
        return false;
    }
    bool is_zero = s.ptr[0] == '0' && s.ptr[1] == '0';
    if (s.len > TRACE_PARENT_LEN && (is_zero || s.ptr[TRACE_PARENT_LEN] != '-')) {
        return false; /* only later versions may have more */
    }
    return s.ptr[2] == '-' && trace_has_hex(s.ptr + 3, TRACE_ID_LEN, false) && s.ptr[35] == '-' &&
           trace_has_hex(s.ptr + 36, TRACE_SPAN_LEN, false) && s.ptr[52] == '-' &&
           trace_has_hex(s.ptr + 53, 2, true);
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' ||
           c == '/' || c == '@';
}

static bool state_member_is_valid(struct tidings_str member)
{
    struct tidings_str value;
    bool has_value;
    struct tidings_str key = str_cut(member, '=', &value, &has_value);
    if (!has_value || key.len == 0 || key.len > 256 || value.len == 0 || value.len > 256) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (!is_key_char(key.ptr[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c < 0x20 || c > 0x7E || c == '=') {
            return false;
        }
    }
    return true;
}

static bool state_is_valid(struct tidings_str s)
{
    unsigned count = 0;
    if (s.len == 0 || s.len > TRACE_STATE_MAX) {
        return false;
    }
    while (s.len > 0) {
        struct tidings_str member = str_trim(str_cut(s, ',', &s, NULL), " \t");
        if (member.len > 0 && (++count > MEMBERS_MAX || !state_member_is_valid(member))) {
            return false;
        }
    }
    return count > 0;
}

bool trace_read(struct tidings_str parent, struct tidings_str state, struct trace *ret)
{
    ret->parent[0] = ret->state[0] = '\0';
    if (!parent_is_valid(parent)) {
        return false;
    }
    memcpy(ret->parent, parent.ptr, TRACE_PARENT_LEN);
    ret->parent[0] = ret->parent[1] = '0';
    ret->parent[TRACE_PARENT_LEN] = '\0';
    if (state_is_valid(state)) {
        memcpy(ret->state, state.ptr, state.len);
        ret->state[state.len] = '\0';
    }
    return true;
}
