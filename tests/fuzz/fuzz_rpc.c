/* SPDX-License-Identifier: MIT
 *
 * Any JSON as a JSON-RPC message: a kind whose promises hold, or an error message.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *v = NULL;
    struct rpc_message m;
    struct tidings_error err = {0};
    if (jv_parse(tidings_strn((const char *)data, size), JSON_MAX_DEPTH, &v, NULL) < 0) {
        return 0;
    }
    int rc = rpc_read(v, &m, &err);
    require(!m.id || jv_is(m.id, JV_INT) || jv_str(m.id).len <= RPC_MAX_ID);
    if (rc < 0) {
        require(rc == TIDINGS_E_PARSE && err.text[0] != '\0');
    } else {
        require(err.code == 0 && (!m.params || jv_is(m.params, JV_OBJECT)));
        require((m.kind == RPC_RESPONSE) == (m.method.len == 0));
        require(m.kind != RPC_REQUEST || m.id);
        require(m.kind != RPC_NOTIFICATION || !m.id);
        require(m.method.len <= RPC_MAX_METHOD);
    }
    jv_unref(v);
    return 0;
}
