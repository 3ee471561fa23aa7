/* SPDX-License-Identifier: MIT
 *
 * Where the patches of a subscription begin. A provider that makes patches itself is asked for the
 * version the client names before anything is armed, so that a wrong one leaves nothing behind;
 * elsewhere a name that is not known means that the first is told whole.
 */
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "delivery/baseline.h"
#include "delivery/delivery.h"
#include "delivery/subscribe_private.h"
#include "uri/uri.h"

void subscribe_item_find_subject(struct subscribe_item *w, struct tidings_str uri)
{
    struct subscribe_batch *s = w->owner;
    struct tidings_provider *p = catalog_mount(s->worker->catalog, uri);
    struct tidings_error err;
    char of[URI_MAX];
    size_t len = sizeof(of);
    int rc = p && p->ops->patches_of ? p->ops->patches_of(p, uri, of, &len, &err) : 0;
    if (rc < 0) {
        subscribe_item_refuse(w, rc, "%s", err.text);
        job_explain(&w->stat.base, STR("{\"reason\":\"not_subscribable\"}"));
    }
    if (rc <= 0) {
        return;
    }
    struct options *o = &w->options;
    if (o->given & OPTION_INCLUDE && o->include != OPTION_INCLUDE_PATCH) {
        subscribe_item_refuse(w, TIDINGS_E_INVALID,
                              "option 'include' must be 'patch' here, or absent");
    } else if (!(o->given & OPTION_BASELINE)) {
        subscribe_item_refuse(
            w, TIDINGS_E_INVALID,
            "'baseline' is required here: the etag of the version you have (of an entity: "
            "its validFrom, as 2024-01-01T10:00:00.000Z)");
        job_explain(&w->stat.base, STR("{\"reason\":\"baseline_required\"}"));
    } else {
        o->include = OPTION_INCLUDE_PATCH;
        o->given |= OPTION_INCLUDE;
        w->subject = arena_dup(&s->arena, tidings_strn(of, len));
        if (!w->subject.ptr) {
            subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        }
    }
}

void subscribe_item_judge_baseline(struct subscribe_item *w)
{
    if (w->refused || !(w->options.given & OPTION_BASELINE)) {
        return;
    }
    if (w->options.include != OPTION_INCLUDE_PATCH) {
        subscribe_item_refuse(w, TIDINGS_E_INVALID, "option 'baseline' goes with include: 'patch'");
    } else if (w->kind != PATTERN_LITERAL) {
        subscribe_item_refuse(
            w, TIDINGS_E_INVALID,
            "option 'baseline' goes with one resource; here each is told whole at first");
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct baseline_read {
    struct tidings_read read;
    struct subscribe_item *item;
    void (*done)(struct subscribe_item *w);
    struct buf text;
};

static int subscribe_baseline_take(struct tidings_read *read, const struct read_element *element,
                                   struct tidings_error *err)
{
    struct baseline_read *a = read->base.user;
    (void)buf_puts(&a->text, element->bytes);
    return buf_check(&a->text, "the version", "subscribe without baseline", err);
}

static void discard_state(struct tidings_read *read)
{
    struct baseline_read *a = read->base.user;
    buf_clear(&a->text);
}

/* The provider's own spelling of it counts from now on. */
static void keep_spelling(struct subscribe_item *w, struct tidings_str text)
{
    struct json *object = NULL;
    (void)jv_parse(text, JSON_MAX_DEPTH, &object, NULL);
    struct tidings_str baseline = jv_str(jv_get(object, "baseline"));
    if (baseline.len > 0) {
        w->options.baseline = arena_dup(&w->owner->arena, baseline);
    }
    jv_unref(object);
    if (!w->options.baseline.ptr) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
    }
}

static void subscribe_baseline_on_read(struct job *job)
{
    struct baseline_read *a = job->user;
    struct subscribe_item *w = a->item;
    if (job->code < 0) {
        subscribe_item_refuse(w, job->code, "%s", job->err.text);
        job_explain(&w->stat.base, job_details(job));
    } else {
        keep_spelling(w, buf_str(&a->text));
    }
    void (*done)(struct subscribe_item *) = a->done;
    buf_deinit(&a->text);
    mem_free(a);
    done(w);
}

bool subscribe_item_ask_baseline(struct subscribe_item *w, void (*done)(struct subscribe_item *w))
{
    static const struct read_receiver receiver = {subscribe_baseline_take, discard_state};
    struct worker *worker = w->owner->worker;
    struct catalog_hit hit = {.provider = w->stat.base.provider};
    bool asks = w->options.include == OPTION_INCLUDE_PATCH && w->kind == PATTERN_LITERAL &&
                w->options.given & OPTION_BASELINE && hit.provider && hit.provider->ops->patch;
    struct baseline_read *a = asks && !w->refused ? mem_zalloc(sizeof(*a)) : NULL;
    if (!a) {
        if (asks && !w->refused) {
            subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        }
        return false;
    }
    a->item = w;
    a->done = done;
    buf_init(&a->text, worker->limits->max_read_bytes + 4096);
    job_init(&a->read.base, worker, subscribe_baseline_on_read, a, w->uri);
    a->read.receiver = &receiver;
    a->read.principal = w->owner->principal;
    a->read.is_patch = true;
    a->read.patch_from = w->options.baseline;
    a->read.max_bytes = worker->limits->max_read_bytes;
    job_read(&a->read, &hit);
    return true;
}

struct chain *subscribe_item_begin_chain(const struct subscribe_item *w)
{
    struct baselines *all = &w->owner->worker->delivery->contents.baselines;
    struct chain *chain = chain_create();
    if (chain && w->options.given & OPTION_BASELINE) {
        struct baseline *first = baseline_get(all, w->uri, w->options.baseline, STR_EMPTY);
        chain_move(chain, w->uri, first);
        baseline_unref(first);
    }
    return chain;
}
