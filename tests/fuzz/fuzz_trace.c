/* SPDX-License-Identifier: MIT
 *
 * Any bytes as traceparent and tracestate, a newline between them: accepted input has version 00, a
 * nonzero trace and span, is visible ASCII within the length limit, and reads back the same;
 * rejected input leaves nothing.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/http_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if ((*text < ' ' || *text > '~') && *text != '\t') {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str s = {size ? (const char *)data : "", size}, state;
    struct tidings_str parent = str_cut(s, '\n', &state, NULL);
    struct trace trace, again;
    if (!trace_read(parent, state, &trace)) {
        require(!trace_is_there(&trace) && trace.state[0] == '\0');
        return 0;
    }
    require(strlen(trace.parent) == TRACE_PARENT_LEN && strlen(trace.state) <= TRACE_STATE_MAX);
    require(memcmp(trace.parent, "00-", 3) == 0 && is_plain(trace.parent) && is_plain(trace.state));
    require(!str_eq(trace_id(&trace), STR("00000000000000000000000000000000")));
    require(!str_eq(trace_span_id(&trace), STR("0000000000000000")));
    require(trace_read(tidings_str(trace.parent), tidings_str(trace.state), &again));
    require(strcmp(trace.parent, again.parent) == 0 && strcmp(trace.state, again.state) == 0);
    return 0;
}
