/* SPDX-License-Identifier: MIT
 *
 * How far `tidings watch` has come, for the next time: cursors are written down after the output
 * was flushed or the command was done, so that a watch that is killed at any moment repeats
 * something rather than loses it.
 *
 * A cursor speaks for the subscriptions that were there when its message was written: in the legacy
 * era they are made one after the other, so each keeps the one it began with until something is
 * told of it (docs/subscriptions.md, Coming back).
 */
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/remote/target.h"
#include "bin/watch/watch_private.h"

#define ANEW "name another file with --state, or remove this one to begin anew"

static struct watch_mark *watch_resume_mark(struct watch *w, struct tidings_str uri)
{
    for (size_t i = 0; i < w->resume.state.count; i++) {
        if (tidings_str_eq(tidings_str(w->resume.state.marks[i].uri), uri)) {
            return &w->resume.state.marks[i];
        }
    }
    return NULL;
}

static void watch_resume_set(char out[WATCH_STATE_CURSOR], struct tidings_str cursor)
{
    memcpy(out, cursor.ptr, cursor.len);
    out[cursor.len] = '\0';
}

static bool watch_resume_is_cursor(struct tidings_str cursor)
{
    return cursor.len > 0 && cursor.len < WATCH_STATE_CURSOR && !memchr(cursor.ptr, 0, cursor.len);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* The marks of all URIs, in their order, without cursors. */
static int watch_resume_make(struct watch *w, struct watch_state *s, struct tidings_error *err)
{
    s->server = target_address(&w->cli, err);
    s->marks = calloc(w->count, sizeof(*s->marks));
    for (size_t i = 0; s->server && s->marks && i < w->count; i++) {
        size_t size = strlen(w->uris[i]) + 1;
        char *uri = tidings_alloc(size);
        if (!uri) {
            break;
        }
        s->marks[s->count++].uri = memcpy(uri, w->uris[i], size);
    }
    if (s->server && s->count == w->count) {
        return 0;
    }
    return err->code ? err->code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* What the file says of each; one of another server, or of other URIs, is not for us. */
static int watch_resume_take(struct watch *w, const struct watch_state *before,
                             struct tidings_error *err)
{
    struct watch_state *s = &w->resume.state;
    if (!before->server) {
        return 0; /* it is new */
    }
    if (strcmp(before->server, s->server) != 0) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "'%.80s' is of a watch of %.120s; " ANEW,
                            w->state_path, before->server);
    }
    for (size_t i = 0; i < before->count; i++) {
        struct watch_mark *mark = watch_resume_mark(w, tidings_str(before->marks[i].uri));
        if (!mark || before->count != s->count) {
            return tidings_fail(err, TIDINGS_E_EXISTS,
                                "'%.80s' is of a watch of other URIs, as %.120s; " ANEW,
                                w->state_path, before->marks[i].uri);
        }
        watch_resume_set(mark->cursor, tidings_str(before->marks[i].cursor));
    }
    return before->count == s->count
               ? 0
               : tidings_fail(err, TIDINGS_E_EXISTS, "'%.80s' is of a watch of no URI; " ANEW,
                              w->state_path);
}

int watch_resume_begin(struct watch *w, struct tidings_error *err)
{
    struct watch_state before = {0};
    struct watch_resume *r = &w->resume;
    r->file.lock = -1;
    if (!w->state_path) {
        return 0;
    }
    int rc = watch_state_open(&r->file, w->state_path, &before, err);
    rc = rc == 0 ? watch_resume_make(w, &r->state, err) : rc;
    rc = rc == 0 ? watch_resume_take(w, &before, err) : rc;
    rc = rc == 0 ? watch_state_save(&r->file, &r->state, err) : rc; /* that it can be written */
    watch_state_deinit(&before);
    return rc;
}

void watch_resume_end(struct watch *w)
{
    watch_state_deinit(&w->resume.state);
    if (w->state_path) {
        watch_state_close(&w->resume.file);
    }
}

const char *watch_resume_since(const struct watch *w, size_t index)
{
    const struct watch_state *s = &w->resume.state;
    return index < s->count && s->marks[index].cursor[0] ? s->marks[index].cursor : NULL;
}

/* ---- going on -------------------------------------------------------------------------------- */

void watch_resume_watching(struct watch *w, struct tidings_str uri, struct tidings_str cursor)
{
    struct watch_mark *mark = watch_resume_mark(w, uri);
    if (mark && !mark->cursor[0] && watch_resume_is_cursor(cursor)) {
        watch_resume_set(mark->cursor, cursor);
        w->resume.is_unsaved = true;
    }
}

void watch_resume_advance(struct watch *w, const char *subscribed, struct tidings_str cursor)
{
    struct watch_resume *r = &w->resume;
    const struct tidings_client_info *info = tidings_client_info(w->client);
    bool for_all = info && info->era == TIDINGS_ERA_MODERN;
    if (!w->state_path || !watch_resume_is_cursor(cursor)) {
        return;
    }
    watch_resume_set(r->latest.cursor, cursor);
    for (size_t i = 0; i < r->state.count; i++) {
        bool is_it = subscribed && strcmp(r->state.marks[i].uri, subscribed) == 0;
        r->latest.is_behind_cursor[i] = r->latest.is_behind_cursor[i] || for_all || is_it;
    }
    r->has_latest = true;
}

int watch_resume_turn(struct watch *w, uint64_t oldest, struct tidings_error *err)
{
    struct watch_resume *r = &w->resume;
    if (r->has_latest && !r->has_waiting) {
        r->waiting = r->latest;
        r->waiting_turn = r->turn++;
        r->has_waiting = true;
        r->has_latest = false;
    }
    if (r->has_waiting && oldest > r->waiting_turn) {
        for (size_t i = 0; i < r->state.count; i++) {
            if (r->waiting.is_behind_cursor[i]) {
                watch_resume_set(r->state.marks[i].cursor, tidings_str(r->waiting.cursor));
            }
        }
        r->has_waiting = false;
        r->is_unsaved = true;
    }
    if (!r->is_unsaved) {
        return 0;
    }
    r->is_unsaved = false;
    return watch_state_save(&r->file, &r->state, err);
}
