/* SPDX-License-Identifier: MIT
 *
 * See client_model.h.
 */
#include "support/client_model.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/fail_alloc.h"

#define SEEDS 300u
#define STEPS 150
#define TURNS 5000 /* until everything is delivered, far more than it takes */

static struct model *playing;

unsigned model_roll(struct model *m, unsigned sides)
{
    m->dice = m->dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->dice >> 33) % sides;
}

/* The client's own chance. */
uint32_t __wrap_random_upto(uint32_t max);
uint32_t __wrap_random_upto(uint32_t max)
{
    return model_roll(playing, max + 1);
}

int model_slot(struct tidings_str uri)
{
    return uri.len == 4 ? uri.ptr[3] - '0' : uri.len == 3 ? MODEL_ROOT : -1;
}

bool model_covers(int slot, int uri)
{
    return slot == uri || slot == MODEL_ROOT;
}

static void put_uri(char out[8], int slot)
{
    snprintf(out, 8, slot == MODEL_ROOT ? "x:/" : "x:/%d", slot);
}

/* ---- what there is to tell ------------------------------------------------------------------- */

void model_change(struct model *m, int uri)
{
    m->values[uri] = ++m->seq;
    m->ops->changed(m, uri);
}

void model_begin_epoch(struct model *m)
{
    m->epoch++;
    m->seq = 0;
    memset(m->values, 0, sizeof(m->values));
    model_change(m, (int)model_roll(m, MODEL_URIS));
}

void model_put_meta(const struct model *m, char out[128], int64_t id, int cursor)
{
    char named[80] = "", meta[48] = "";
    if (id > 0) {
        snprintf(named, sizeof(named), "\"io.modelcontextprotocol/subscriptionId\":%" PRId64 ",",
                 id);
    }
    if (m->has_cursor) {
        snprintf(meta, sizeof(meta), "\"dev.tidings/cursor\":\"e%d.%d\",", m->epoch, cursor);
    }
    snprintf(out, 128, "%.79s%.47s", named, meta);
}

static void put_message(char out[512], int uri, int slot, const char *meta, const char *more)
{
    char about[8], subscribed[8];
    put_uri(about, uri);
    put_uri(subscribed, slot);
    snprintf(out, 512,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
             "{\"uri\":\"%s\",\"_meta\":{%s%s\"x\":\"%s\"}}}",
             about, meta, more, subscribed);
}

void model_put_update(const struct model *m, char out[512], int slot, int uri, int64_t id,
                      int cursor)
{
    char meta[128], more[128] = "", subscribed[8];
    model_put_meta(m, meta, id, cursor);
    put_uri(subscribed, slot);
    if (m->has_version) {
        snprintf(more, sizeof(more),
                 "\"dev.tidings/subscribedUri\":\"%s\",\"dev.tidings/version\":\"e%d.%d\",",
                 subscribed, m->epoch, m->values[uri]);
    }
    put_message(out, uri, slot, meta, more);
}

void model_put_truncated(const struct model *m, char out[512], int slot, int64_t id, int cursor)
{
    char meta[128];
    model_put_meta(m, meta, id, cursor);
    put_message(out, slot, slot, meta, "\"dev.tidings/truncated\":true,");
}

bool model_put_answer(const struct model *m, char out[512], const char *method, struct json *params)
{
    size_t len = 0;
    if (strcmp(method, "resources/read") == 0) {
        int i = model_slot(jv_str(jv_get(params, "uri")));
        snprintf(out, 512, "{\"contents\":[{\"text\":\"%d.%d\"}]}", m->epoch, m->values[i]);
        return true;
    }
    for (int i = 0; i < MODEL_URIS; i++) {
        len += (size_t)snprintf(out + len, 512 - len,
                                "%s{\"uri\":\"x:/%d\",\"name\":\"%d\",\"title\":\"%d.%d\"}",
                                i == 0 ? "{\"resources\":[" : ",", i, i, m->epoch, m->values[i]);
    }
    snprintf(out + len, 512 - len, "]}");
    return strcmp(method, "resources/list") == 0;
}

int model_since(const struct model *m, struct json *options)
{
    struct tidings_str text = jv_str(jv_get(options, "since"));
    int epoch = 0, since = 0;
    if (text.len == 0) {
        return -1;
    }
    if (sscanf(text.ptr, "e%d.%d", &epoch, &since) != 2) {
        abort();
    }
    return epoch == m->epoch ? since : -2;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void look(struct model_handler *h, int slot)
{
    for (int i = 0; i < MODEL_URIS; i++) {
        if (model_covers(slot, i)) {
            h->known[i] = (struct model_version){h->model->epoch, h->model->values[i]};
        }
    }
}

static bool is_newer(struct model_version a, struct model_version b)
{
    return a.epoch > b.epoch || (a.epoch == b.epoch && a.number > b.number);
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct model_handler *h = user;
    struct model_version v;
    int uri = model_slot(u->uri);
    bool is_other = u->subscribed_uri.len > 0 && model_slot(u->subscribed_uri) != h->slot;
    h->model->updates++;
    h->model->found += u->synthetic;
    if (!h->sub || !model_covers(h->slot, uri) || is_other || u->subscription != h->sub) {
        fail_msg("%s, seed %u: the handler of %d hears of %.*s%s", h->model->name, h->model->seed,
                 h->slot, (int)u->uri.len, u->uri.ptr, h->sub ? "" : " after its end");
    }
    if (u->version.len == 0 || u->truncated) {
        look(h, uri);
        return;
    }
    assert_int_equal(sscanf(u->version.ptr, "e%d.%d", &v.epoch, &v.number), 2);
    if (h->told[uri].epoch == v.epoch && !is_newer(v, h->told[uri])) {
        fail_msg("%s, seed %u: of x:/%d version %d is told after %d", h->model->name,
                 h->model->seed, uri, v.number, h->told[uri].number);
    }
    h->told[uri] = v;
    h->known[uri] = is_newer(v, h->known[uri]) ? v : h->known[uri];
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct model *m = user;
    m->losses += e->state == TIDINGS_STATE_DISCONNECTED;
    for (size_t i = 0; e->state == TIDINGS_STATE_WATCHING && i < m->count; i++) {
        struct model_handler *h = &m->handlers[i];
        if (h->sub && h->slot == model_slot(e->uri) && !h->is_accepted) {
            h->is_accepted = true;
            look(h, h->slot);
        }
    }
}

static struct model_handler *find(struct model *m, int slot)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->handlers[i].sub && m->handlers[i].slot == slot) {
            return &m->handlers[i];
        }
    }
    return NULL;
}

static void begin(struct model *m, int slot)
{
    char text[8];
    if (m->count == MODEL_HANDLERS) {
        return;
    }
    struct model_handler *h = &m->handlers[m->count++];
    struct tidings_subscribe_options on = {.fn = on_update, .user = h};
    *h = (struct model_handler){.model = m, .slot = slot};
    put_uri(text, slot);
    h->sub = tidings_client_subscribe(m->client, text, &on, NULL);
    assert_non_null(h->sub);
    if (watch_of(h->sub)->is_decided) { /* it is watched already: no event will report it */
        h->is_accepted = true;
        look(h, slot);
    }
}

static void end(struct model_handler *h)
{
    struct tidings_subscription *sub = h->sub;
    h->sub = NULL;
    tidings_subscription_end(sub);
}

/* Off, on, off and on again at once, or one more. */
static void toggle(struct model *m, int slot)
{
    struct model_handler *h = find(m, slot);
    unsigned kind = model_roll(m, 4);
    if (h && kind < 3) {
        end(h);
    }
    if (!h || kind > 1) {
        begin(m, slot);
    }
}

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                      struct tidings_str error)
{
    struct model *m = user;
    (void)error;
    assert_true((result.len > 0) != (err != NULL));
    m->answered++;
}

static void ask_something(struct model *m)
{
    struct tidings_client_asking a = {
        .method = "resources/list", .on_answer = on_answer, .user = m};
    assert_true(tidings_client_ask(m->client, &a, NULL) > 0);
    m->asked++;
}

/* ---- together -------------------------------------------------------------------------------- */

static void step(struct model *m, unsigned ms)
{
    struct tidings_error err = {0};
    m->clock.monotonic_ns += ms * 1000000ull;
    m->ops->allow(m);
    if (tidings_client_step(m->client, 0, &err) != 1) {
        fail_msg("%s, seed %u: %s", m->name, m->seed, err.text);
    }
}

static bool is_at_rest(const struct model *m)
{
    const struct tidings_client *c = m->client;
    list_each (it, next, &c->watches) {
        const struct watch *w = list_entry(it, struct watch, link);
        if (!w->is_decided || w->comparison_reason != COMPARISON_NONE) {
            return false;
        }
    }
    return c->stage == STAGE_READY && c->event_count == 0 && list_empty(&c->unsent) &&
           m->ops->is_at_rest(m);
}

static void session_note_streamless(struct model *m)
{
    int left = TURNS;
    do {
        m->ops->flush(m);
        step(m, 20);
        if (--left == 0) {
            fail_msg("%s, seed %u: it does not come to rest in stage %d", m->name, m->seed,
                     (int)m->client->stage);
        }
    } while (!is_at_rest(m));
}

static void something(struct model *m)
{
    unsigned kind = model_roll(m, 40);
    int uri = (int)model_roll(m, MODEL_URIS);
    if (kind < 13) {
        model_change(m, uri);
    } else if (kind < 16) {
        /* An update without a subscription applies only to its exact URI. */
        toggle(m, (int)model_roll(m, m->has_version ? MODEL_SLOTS : MODEL_URIS));
    } else if (kind < 25) {
        m->ops->fault(m);
    } else if (kind < 26) {
        ask_something(m);
    } else if (kind < 27) { /* no new events: those in transit arrive, within two seconds */
        m->ops->flush(m);
        m->is_calm = true;
        step(m, 1);
        m->is_calm = false;
        m->clock.monotonic_ns += 600 * 1000000ull;
    } else {
        step(m, 1);
    }
}

static void check(struct model *m)
{
    for (size_t k = 0; k < m->count * MODEL_URIS; k++) {
        const struct model_handler *h = &m->handlers[k / MODEL_URIS];
        int i = (int)(k % MODEL_URIS);
        struct model_version known = h->known[i];
        if (h->sub && model_covers(h->slot, i) &&
            (known.epoch != m->epoch || known.number != m->values[i])) {
            fail_msg("%s, seed %u: x:/%d is %d.%d, known as %d.%d by the handler of %d", m->name,
                     m->seed, i, m->epoch, m->values[i], known.epoch, known.number, h->slot);
        }
    }
    for (int i = 0; i < MODEL_SLOTS; i++) {
        if (m->ops->tells(m, i) != (find(m, i) != NULL)) {
            fail_msg("%s, seed %u: %d is%s subscribed to", m->name, m->seed, i,
                     find(m, i) ? " not" : " still");
        }
    }
}

static void check_empty(struct model *m)
{
    const struct tidings_client *c = m->client;
    size_t asked = c->requests.count;
    assert_int_equal(m->asked, m->answered);
    if (c->watch_count > 0 || !list_empty(&c->watches) || asked > 0 || c->comparison.entries > 0) {
        fail_msg("%s, seed %u: left are %zu watches, %zu requests, %zu entries", m->name, m->seed,
                 c->watch_count, asked, c->comparison.entries);
    }
}

static void play(const struct model *prototype, unsigned seed)
{
    static struct model m;
    struct tidings_client_options o = {.retry_min_ms = 2, .retry_max_ms = 2};
    long before = fail_alloc_live();
    m = *prototype;
    m.seed = seed;
    m.dice = seed * 2654435761u;
    m.epoch = 1;
    m.clock.monotonic_ns = 1000000;
    playing = &m;
    clock_set_fake(&m.clock);
    m.client = m.ops->start(&m, &o);
    assert_non_null(m.client);
    tidings_client_on_state(m.client, on_state, &m);
    begin(&m, 0);
    for (int i = 0; i < STEPS; i++) {
        something(&m);
    }
    m.is_calm = true;
    if (!find(&m, 1)) {
        begin(&m, 1);
    }
    session_note_streamless(&m);
    check(&m);
    for (size_t i = 0; i < m.count; i++) {
        if (m.handlers[i].sub) {
            end(&m.handlers[i]);
        }
    }
    session_note_streamless(&m);
    check(&m);
    check_empty(&m);
    tidings_client_destroy(m.client);
    m.ops->left(&m);
    clock_set_fake(NULL);
    assert_int_equal(fail_alloc_live(), before);
}

void model_play_all(const struct model *m)
{
    const char *one = getenv("TIDINGS_SEED"), *is_long = getenv("TIDINGS_LONG");
    unsigned first = one ? (unsigned)strtoul(one, NULL, 10) : 1;
    unsigned count = one                            ? 1
                     : is_long && is_long[0] == '1' ? 10 * SEEDS
                     : getenv("TIDINGS_SLOW")       ? SEEDS / 6
                                                    : SEEDS;
    fail_alloc_start(0);
    for (unsigned seed = first; seed < first + count; seed++) {
        play(m, seed);
    }
}
