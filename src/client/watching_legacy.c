/* SPDX-License-Identifier: MIT
 *
 * Watching in the legacy era (… 2025-11-25): `resources/subscribe` per URI. The stream is heard
 * before the first of them, so that nothing they cause is missed; while the session lives, what it
 * accepted stays accepted.
 */
#include "client/private.h"
#include "json/write.h"

static bool is_pending(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        if (!w->is_judged && !w->is_ending) {
            return true;
        }
    }
    return false;
}

static void on_subscribed(void *user, const struct answer *a)
{
    struct tidings_client *c = user;
    struct watch *w = NULL;
    list_each (it, next, &c->watches) {
        struct watch *this = list_entry(it, struct watch, link);
        w = this->asked == a->id ? this : w;
    }
    if (!w) {
        return;
    }
    w->asked = 0;
    if (!c->is_streaming) { /* told when the stream is back */
        w->is_accepted = a->result != NULL;
        c->has_watched = c->has_watched || w->is_accepted;
        return;
    }
    if (a->why.code < 0 && !a->error) {
        client_lose(c, &a->why); /* not a word about the URI */
        return;
    }
    if (c->resume.cursor[0] == '\0') { /* afterwards the stream says how far it is */
        resume_take(&c->resume, jv_str(jv_get(jv_get(a->result, "_meta"), "dev.tidings/cursor")));
    }
    watching_judge(c, w, a->result != NULL, tidings_str(a->why.text));
    if (!is_pending(c)) {
        watching_judged(c);
    }
}

static int64_t ask_about(struct tidings_client *c, struct watch *w, const char *method,
                         answer_fn fn)
{
    struct buf params;
    struct jw j;
    struct tidings_error err = {0};
    buf_init(&params, c->settings.max_bytes);
    jw_init(&j, &params);
    jw_begin_object(&j);
    struct buf options;
    buf_init(&options, c->settings.max_bytes);
    if (fn == on_subscribed) {
        resume_put_options(&c->resume, w->options, w->was_accepted, &options);
    }
    if (options.len > 0) {
        jw_key(&j, STR("_meta"));
        jw_begin_object(&j);
        jw_put_raw(&j, STR("dev.tidings/options"), buf_str(&options));
        jw_end_object(&j);
    }
    int failed = options.failed;
    buf_deinit(&options);
    jw_put_string(&j, STR("uri"), tidings_str(w->uri));
    jw_end_object(&j);
    struct asking a = {.method = method, .params = buf_str(&params), .fn = fn, .user = c};
    failed = failed ? failed : params.failed;
    int64_t id = failed ? tidings_fail(&err, failed, "the options are too long")
                        : outbound_start(c, &a, &err);
    buf_deinit(&params);
    if (id < 0 && fn == on_subscribed) {
        watching_judge(c, w, false, tidings_str(err.text));
    }
    return id;
}

void legacy_subscribe(struct tidings_client *c, struct watch *w)
{
    int64_t id = w->asked == 0 ? ask_about(c, w, "resources/subscribe", on_subscribed) : 0;
    w->asked = id > 0 ? id : w->asked;
}

void legacy_subscribe_all(struct tidings_client *c)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (w->is_ending || c->stage != STAGE_READY) {
            continue;
        }
        if (c->is_resumed && w->is_accepted) {
            watching_judge(c, w, true, STR_EMPTY);
        } else {
            legacy_subscribe(c, w); /* what was refused may be there by now */
        }
    }
    if (c->stage == STAGE_READY && !is_pending(c)) {
        watching_judged(c);
    }
}

static void on_unsubscribed(void *user, const struct answer *a)
{
    (void)user;
    (void)a;
}

void legacy_unsubscribe(struct tidings_client *c, struct watch *w)
{
    if (w->asked > 0) {
        outbound_drop(c, w->asked);
        w->asked = 0;
    }
    (void)ask_about(c, w, "resources/unsubscribe", on_unsubscribed);
}
