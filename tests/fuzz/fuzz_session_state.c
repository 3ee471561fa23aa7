/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a session that another program wrote: rejected with an error message, or read within
 * its limits; a session that was read is written such that it reads back the same.
 */
#include <stdlib.h>

#include "base/str.h"
#include "engine/delivery/options.h"
#include "engine/protocol/session_migration_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void write_state(const struct session_state *s, struct buf *out)
{
    struct jw w;
    buf_init(out, 64u << 20);
    jw_init(&w, out);
    session_state_begin(&w, s);
    for (size_t i = 0; i < session_state_count(s); i++) {
        struct session_sub sub;
        session_state_at(s, i, &sub);
        session_state_put(&w, &sub);
    }
    session_state_end(&w);
    require(!out->failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct session_state first, second;
    struct tidings_error err = {0};
    if (session_state_read(&first, tidings_strn((const char *)data, size), &err) < 0) {
        require(err.code < 0 && err.text[0] && !first.root && session_state_count(&first) == 0);
        return 0;
    }
    require(first.rewind_count <= SESSION_STATE_REWINDS && first.level >= 0 && first.level <= 7);
    require(first.stream <= SESSION_STATE_STREAM_MAX && first.event <= SESSION_STATE_EVENT_MAX);
    for (size_t i = 0; i < session_state_count(&first); i++) {
        struct session_sub sub;
        struct options o;
        session_state_at(&first, i, &sub);
        options_init(&o);
        (void)options_read(&o, sub.options, false, &err);
    }
    struct buf once, again;
    write_state(&first, &once);
    require(session_state_read(&second, buf_str(&once), &err) == 0);
    require(session_state_count(&second) == session_state_count(&first));
    write_state(&second, &again);
    require(str_eq(buf_str(&once), buf_str(&again)));
    session_state_deinit(&first);
    session_state_deinit(&second);
    buf_deinit(&once);
    buf_deinit(&again);
    return 0;
}
