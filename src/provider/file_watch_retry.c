/* SPDX-License-Identifier: MIT
 *
 * Retries scans of a file watch that failed: out of descriptors, out of memory, an error of the
 * disk. What they would have found is still to be told. After a pause everything in any scope is
 * scanned again, and what differs is announced as ever; pauses grow while that fails. When the
 * first try fails too, all who watch below the mount are told that changes may have been missed
 * (once, until a scan succeeds).
 */
#include <errno.h>

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "provider/file_watch_private.h"

#define FIRST_MS 100u
#define SHORT_MAX_MS 2000u /* descriptors and memory come back */
#define LONG_MAX_MS 60000u /* a disk that cannot be read, or room in the tree, rarely */

bool file_retry_is_short(const struct file_watch *w)
{
    return w->failed == TIDINGS_E_BUSY || w->failed == TIDINGS_E_NOMEM;
}

void file_retry_add(struct file_watch *w, int code)
{
    if (!file_retry_is_short(w)) {
        w->failed = code;
    }
    if (!loop_timer_is_running(w->retry_timer)) {
        uint64_t most = file_retry_is_short(w) ? SHORT_MAX_MS : LONG_MAX_MS;
        w->retry_ms = w->retry_ms ? 2 * w->retry_ms : FIRST_MS;
        w->retry_ms = w->retry_ms < most ? w->retry_ms : most;
        loop_timer_start(w->retry_timer, w->retry_ms, 0);
    }
}

void file_retry_errno(struct file_watch *w, int errnum)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case EINTR:
        file_retry_add(w, TIDINGS_E_BUSY);
        break;
    case ENOMEM:
        file_retry_add(w, TIDINGS_E_NOMEM);
        break;
    case EIO:
    case ESTALE:
        file_retry_add(w, TIDINGS_E_IO);
        break;
    default:
        break;
    }
}

static void on_retry(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    int code = w->failed;
    w->failed = 0;
    if (code) {
        file_ancestors_check(w, true);
    }
    if (!w->failed) {
        w->retry_ms = 0;
        if (w->has_reported) {
            w->has_reported = false;
            log_info(LOG_FILES, "files are watched again", KV("mount", w->root->prefix));
        }
        return;
    }
    if (!w->has_reported) {
        w->has_reported = true;
        log_warn(
            LOG_FILES, "files cannot be watched for now, trying again until they can",
            KV("reason", code == TIDINGS_E_BUSY ? "out of descriptors" : tidings_code_text(code)),
            KV("mount", w->root->prefix));
        tidings_provider_missed(w->provider);
    }
}

int file_retry_init(struct file_watch *w, struct tidings_error *err)
{
    w->retry_timer = loop_timer_open(w->actor.loop, on_retry, w);
    return w->retry_timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void file_retry_deinit(struct file_watch *w)
{
    loop_timer_close(w->retry_timer);
}
