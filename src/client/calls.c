/* SPDX-License-Identifier: MIT
 *
 * Requests of the program, synchronous and asynchronous.
 */
#include "client/calls.h"

#include <inttypes.h>
#include <string.h>

#include <tidings/json.h>
#include <tidings/types.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "client/client_internal.h"
#include "client/connection.h"
#include "client/events.h"
#include "client/json_api.h"
#include "client/questions.h"
#include "client/requests.h"
#include "client/skills.h"
#include "client/tools.h"
#include "formats/json.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * Lists of a server for the other parts of the client: elements as values, not as strings.
 */

struct tidings_client;

#define STOP_LISTING 2
#define LIST_MAX_PAGES 10000u

/* The remaining budget of a list's pages, or of all lists of a walk. Only the time spent waiting
 * for the server counts: the program may handle a page for as long as it likes. */
struct list_budget {
    unsigned left; /* pages that may still be asked for */
    unsigned came;
    unsigned ended; /* lists; each adds a tenth of an answer's time limit */
    uint64_t waited_ms;
};

/* 0: continue; STOP_LISTING: stop; negative: a failure, the caller handles `err`. */
typedef int (*json_item_fn)(void *user, struct json *item);

/* -------------------------------------------------------------------------------------------------
 * Finds lists whose pages form a cycle, by Brent's algorithm: each cursor is compared with a kept
 * one, and after 1, 2, 4, 8 … of them the newest is kept instead.
 */

int page_cursors_next(struct page_cursors *c, struct tidings_str cursor)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    if (cursor.len > PAGE_CURSOR_MAX) {
        return TIDINGS_E_LIMIT;
    }
    sha256_init(&hash);
    sha256_put(&hash, cursor.ptr, cursor.len);
    sha256_end(&hash, digest);
    if (c->count > 0 && memcmp(digest, c->mark, sizeof(digest)) == 0) {
        return TIDINGS_E_PARSE;
    }
    c->count++;
    if ((c->count & (c->count - 1)) == 0) {
        memcpy(c->mark, digest, sizeof(digest));
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- waiting --------------------------------------------------------------------------------- */

struct waiting {
    struct tidings_client *client;
    bool is_done;
    struct json *result;
    char *error; /* JSON text */
    struct tidings_error why;
    tidings_client_progress_fn on_progress;
    void *user;
    struct json *progress; /* the newest undelivered one */
};

static void ask_on_answer(void *user, const struct response *a)
{
    struct waiting *w = user;
    w->is_done = true;
    w->result = jv_ref(a->result);
    w->why = a->why;
    w->error = a->error ? json_text_of(w->client, a->error, NULL) : NULL;
}

/* Progress is reported after the turn; of several reports in one turn only the last is kept. */
static void ask_on_progress(void *user, struct json *params)
{
    struct waiting *w = user;
    jv_unref(w->progress);
    w->progress = jv_ref(params);
}

static void notify_progress(struct waiting *w)
{
    struct json *params = w->progress;
    w->progress = NULL;
    if (params && !client_is_stopping(w->client)) {
        events_call_progress(w->on_progress, w->user, params);
    }
    jv_unref(params);
}

static void ask_wait(struct waiting *w, int64_t id)
{
    struct tidings_client *c = w->client;
    client_hold(c);
    while (!w->is_done && !client_is_stopping(c)) {
        client_turn(c, -1);
        notify_progress(w);
        if (!w->is_done) {
            question_deliver(c);
        }
    }
    if (!w->is_done) {
        requests_cancel(c, id);
        tidings_fail(&w->why, TIDINGS_E_CANCELLED, "stopped");
    }
    events_nudge(c);
    client_release(c);
}

static struct json *ask_with(struct waiting *w, const char *method, struct tidings_str params,
                             struct tidings_error *err)
{
    struct tidings_client *c = w->client;
    struct request_options a = {.method = method,
                                .params = params,
                                .fn = ask_on_answer,
                                .on_progress = w->on_progress ? ask_on_progress : NULL,
                                .user = w,
                                .can_ask = true};
    mem_free(c->last_error);
    c->last_error = NULL;
    int64_t id = requests_start(c, &a, &w->why);
    if (id > 0) {
        ask_wait(w, id);
    }
    jv_unref(w->progress);
    mem_free(c->last_error); /* callbacks for progress may have made requests as well */
    c->last_error = w->error;
    bool wants_input = str_eq(jv_str(jv_get(w->result, "resultType")), STR("input_required"));
    if (wants_input) {
        tidings_fail(&w->why, TIDINGS_E_UNSUPPORTED,
                     "the server wants to ask its user something first");
    }
    if (w->why.code < 0 && err) {
        *err = w->why;
    }
    if (wants_input) {
        jv_unref(w->result);
        return NULL;
    }
    return w->result;
}

struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err)
{
    struct waiting w = {.client = c};
    return ask_with(&w, method, params, err);
}

bool tidings_client_wants_credentials(const struct tidings_client *c)
{
    return c && c->wants_credentials;
}

const char *tidings_client_last_error(const struct tidings_client *c)
{
    return c ? c->last_error : NULL;
}

/* Clears the last error, so that the program sees none. */
static void ask_forget_error(struct tidings_client *c)
{
    mem_free(c->last_error);
    c->last_error = NULL;
}

char *ask_give_text(struct tidings_client *c, struct json *root, const struct json *value,
                    struct tidings_error *err)
{
    if (!root) {
        return NULL;
    }
    char *text = json_text_of(c, value, NULL);
    jv_unref(root);
    if (!text) {
        tidings_fail(err, TIDINGS_E_LIMIT, "the answer is too large");
    }
    return text;
}

int tidings_client_connect(struct tidings_client *c, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    client_hold(c);
    connection_need(c);
    while ((c->stage == STAGE_OPENING || c->stage == STAGE_NEGOTIATING) && !client_is_stopping(c)) {
        client_turn(c, -1);
    }
    events_nudge(c);
    client_release(c);
    if (client_is_stopping(c)) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
    }
    if (c->stage == STAGE_READY) {
        return 0;
    }
    if (err) {
        *err = c->loss;
    }
    return c->loss.code;
}

/* ---- anything -------------------------------------------------------------------------------- */

char *tidings_client_request(struct tidings_client *c, const char *method, const char *params,
                             struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    struct json *result = ask(c, method, tidings_str(params), err);
    return ask_give_text(c, result, result, err);
}

struct pending {
    struct tidings_client *client;
    struct tidings_client_asking asking;
    int64_t number;
};

static void on_later(void *user, const struct response *a)
{
    struct pending *p = user;
    events_put_answer(p->client, &p->asking, a);
    mem_free(p);
}

static void on_later_progress(void *user, struct json *params)
{
    struct pending *p = user;
    events_put_progress(p->client, p->number, &p->asking, params);
}

int64_t tidings_client_ask(struct tidings_client *c, const struct tidings_client_asking *asking,
                           struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!asking || !asking->method || !asking->on_answer) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a request needs a method and a function");
    }
    int rc = RESERVED_CHECK(asking, err);
    struct pending *p = rc == 0 ? mem_zalloc(sizeof(*p)) : NULL;
    if (!p) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *p = (struct pending){.client = c, .asking = *asking};
    struct request_options a = {.method = asking->method,
                                .params = tidings_str(asking->params),
                                .fn = on_later,
                                .on_progress = asking->on_progress ? on_later_progress : NULL,
                                .user = p,
                                .timeout_ms = asking->timeout_ms,
                                .can_ask = true};
    p->number = c->next_id + 1; /* its future number */
    int64_t id = requests_start(c, &a, err);
    if (id < 0) {
        mem_free(p);
    }
    return id;
}

void tidings_client_cancel(struct tidings_client *c, int64_t number)
{
    if (!c) {
        return;
    }
    struct pending *p = requests_user(c, number, on_later);
    if (p) {
        requests_cancel(c, number);
        mem_free(p);
    }
    events_forget(c, number);
}

/* ---- particular questions -------------------------------------------------------------------- */

/* {"name":"value"} with up to two members more, JSON as they are; NULL: without them. */
struct members {
    const char *key, *value;     /* a string */
    const char *more_key, *more; /* JSON */
};

static int ask_put_params(struct buf *out, const struct members *m, struct tidings_error *err)
{
    struct jw w;
    if (!m->value || !m->value[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the %s is missing", m->key);
    }
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, tidings_str(m->key), tidings_str(m->value));
    if (m->more) {
        char *text = tidings_json_get(tidings_str(m->more), "");
        if (!text || text[0] != '{') {
            mem_free(text);
            return tidings_fail(err, TIDINGS_E_INVALID, "the %s are not a JSON object",
                                m->more_key);
        }
        jw_put_raw(&w, tidings_str(m->more_key), tidings_str(text));
        mem_free(text);
    }
    jw_end_object(&w);
    return out->failed ? tidings_fail(err, out->failed, "the parameters are too large") : 0;
}

static struct json *ask_members(struct waiting *w, const char *method, const struct members *m,
                                struct tidings_error *err)
{
    if (client_check(w->client, err) < 0) {
        return NULL;
    }
    struct buf params;
    struct json *result = NULL;
    buf_init(&params, w->client->settings.max_bytes);
    if (ask_put_params(&params, m, err) == 0) {
        result = ask_with(w, method, buf_str(&params), err);
    }
    buf_deinit(&params);
    return result;
}

static char *ask_about(struct waiting *w, const char *method, const struct members *m,
                       struct tidings_error *err)
{
    struct json *result = ask_members(w, method, m, err);
    return ask_give_text(w->client, result, result, err);
}

char *tidings_client_read(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct waiting w = {.client = c};
    struct members m = {.key = "uri", .value = uri};
    struct tidings_error why = {0};
    char *text = ask_about(&w, "resources/read", &m, &why);
    if (!text && err) {
        *err = why;
        if (!uri || !strstr(why.text, uri)) { /* it is named once */
            error_wrap(err, why.code, "read '%.80s'", uri ? uri : "");
        }
    }
    return text;
}

/* The same for a call of a tool, with progress (`on_progress` may be NULL). */
static struct json *ask_tool(struct tidings_client *c, const char *tool, const char *arguments,
                             tidings_client_progress_fn on_progress, void *user,
                             struct tidings_error *err)
{
    struct waiting w = {.client = c, .on_progress = on_progress, .user = user};
    struct members m = {.key = "name",
                        .value = tool,
                        .more_key = "arguments",
                        .more = arguments ? arguments : "{}"};
    return ask_members(&w, "tools/call", &m, err);
}

char *tidings_client_prompt(struct tidings_client *c, const char *name, const char *arguments,
                            struct tidings_error *err)
{
    struct waiting w = {.client = c};
    struct members m = {.key = "name",
                        .value = name,
                        .more_key = "arguments",
                        .more = arguments ? arguments : "{}"};
    return ask_about(&w, "prompts/get", &m, err);
}

static int put_completion(struct buf *out, const char *ref, const char *argument, const char *value,
                          const char *known)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_raw(&w, STR("ref"), tidings_str(ref));
    jw_key(&w, STR("argument"));
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), tidings_str(argument));
    jw_put_string(&w, STR("value"), tidings_str(value));
    jw_end_object(&w);
    if (known) {
        jw_key(&w, STR("context"));
        jw_begin_object(&w);
        jw_put_raw(&w, STR("arguments"), tidings_str(known));
        jw_end_object(&w);
    }
    jw_end_object(&w);
    return out->failed;
}

char *tidings_client_complete(struct tidings_client *c, const char *ref, const char *argument,
                              const char *value, const char *known, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    struct buf params;
    buf_init(&params, c->settings.max_bytes);
    struct json *result = NULL;
    int rc = put_completion(&params, ref, argument, value, known);
    if (rc < 0) {
        tidings_fail(err, rc, "the parameters are too large");
    } else {
        result = ask(c, "completion/complete", buf_str(&params), err);
    }
    buf_deinit(&params);
    struct json *completion = jv_get(result, "completion");
    if (result && !completion) {
        jv_unref(result);
        tidings_fail(err, TIDINGS_E_PARSE, "the answer holds no completion");
        return NULL;
    }
    return ask_give_text(c, result, completion, err);
}

/* -------------------------------------------------------------------------------------------------
 * Lists of resources, tools and prompts, all pages of them, and the server's metadata of one
 * resource. Pages are untrusted: their number and total time are bounded, the number of empty pages
 * in a row more tightly, and a repeated cursor ends the list with an error.
 */

#define MAX_EMPTY 100u /* pages in a row */
#define MAX_ITEMS 1000000u

struct listing {
    struct tidings_client *client;
    const char *method, *member; /* where the elements are */
    const char *uri;             /* of whose children; NULL: none */
    json_item_fn fn;
    void *user;
    struct list_budget *budget; /* NULL: a separate one */
    size_t items;
    unsigned empty; /* pages in a row */
    struct page_cursors cursors;
    char *cursor; /* of the next page */
};

static int put_params(struct buf *out, const struct listing *l)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (l->uri) {
        jw_put_string(&w, STR("uri"), tidings_str(l->uri));
    }
    if (l->cursor) {
        jw_put_string(&w, STR("cursor"), tidings_str(l->cursor));
    }
    jw_end_object(&w);
    return out->failed;
}

/* The elements of one page: 0, or what ended it. */
static int take_page(struct listing *l, struct json *result, struct tidings_error *err)
{
    struct json *items = jv_get(result, l->member);
    if (!jv_is(items, JV_ARRAY)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the answer to %s has no %s", l->method,
                            l->member);
    }
    l->empty = jv_count(items) > 0 ? 0 : l->empty + 1;
    for (size_t i = 0; i < jv_count(items); i++) {
        if (l->items++ >= MAX_ITEMS) {
            return tidings_fail(err, TIDINGS_E_LIMIT, "the list has more than %u elements",
                                MAX_ITEMS);
        }
        int rc = l->fn(l->user, jv_at(items, i));
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* 1: there is a next page; 0: there is none. */
static int next_page(struct listing *l, struct json *result, struct tidings_error *err)
{
    struct json *next = jv_get(result, "nextCursor");
    if (!jv_is(next, JV_STRING)) {
        return 0;
    }
    int rc = page_cursors_next(&l->cursors, jv_str(next));
    if (rc == TIDINGS_E_PARSE) {
        return tidings_fail(err, rc, "the pages of %s go in a circle", l->method);
    }
    if (rc == TIDINGS_E_LIMIT) {
        return tidings_fail(err, rc, "a cursor of %s has more than %u bytes", l->method,
                            PAGE_CURSOR_MAX);
    }
    if (l->empty >= MAX_EMPTY) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%u pages of %s in a row hold nothing", l->empty,
                            l->method);
    }
    mem_free(l->cursor);
    l->cursor = rc == 0 ? str_dup(jv_str(next)) : NULL;
    return l->cursor ? 1 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* Checks that the budget allows one more page. Without it, a server whose answers are always just
 * in time would never end. */
static int list_spend_budget(struct listing *l, struct list_budget *b, struct tidings_error *err)
{
    uint64_t answer_ms = l->client->settings.timeout_ms;
    if (b->left == 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the pages of %s do not end", l->method);
    }
    if (b->waited_ms > answer_ms * PAGES_MAX_ANSWERS + answer_ms * b->ended / 10) {
        return tidings_fail(err, TIDINGS_E_TIMEOUT,
                            "%u pages of %s took %" PRIu64 " ms, and there are more", b->came,
                            l->method, b->waited_ms);
    }
    b->left--;
    return 0;
}

static struct json *ask_page(struct listing *l, struct list_budget *b, struct tidings_error *err)
{
    struct buf params;
    buf_init(&params, l->client->settings.max_bytes);
    err->code = put_params(&params, l);
    uint64_t began = clock_monotonic_ms();
    struct json *result = err->code == 0 ? ask(l->client, l->method, buf_str(&params), err) : NULL;
    b->waited_ms += clock_monotonic_ms() - began;
    b->came += result != NULL;
    buf_deinit(&params);
    return result;
}

static int list_all(struct listing *l, struct tidings_error *err)
{
    struct list_budget own = {.left = LIST_MAX_PAGES};
    struct list_budget *b = l->budget ? l->budget : &own;
    int rc = 1;
    while (rc == 1) {
        struct tidings_error why = {0};
        rc = list_spend_budget(l, b, err);
        if (rc < 0) {
            break;
        }
        struct json *result = ask_page(l, b, &why);
        rc = result ? take_page(l, result, err) : tidings_fail(err, why.code, "%s", why.text);
        rc = rc == 0 ? next_page(l, result, err) : rc == 1 ? 2 : rc;
        jv_unref(result);
    }
    b->ended++;
    mem_free(l->cursor);
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

struct texts {
    struct tidings_client *client;
    tidings_client_item_fn fn;
    void *user;
    int ended; /* return value of the function */
    bool are_tools, are_skills;
};

/* Records a listed tool; returns false if it must not be used, after a warning to the program. */
static bool list_takes_tool(struct tidings_client *c, struct json *tool)
{
    struct tidings_error why;
    if (tool_headers_note(c, tool, &why) < 0) {
        if (c->on_warning) {
            c->on_warning(c->warning_user, tidings_str(why.text));
        }
        return false;
    }
    tool_schemas_note(c, tool);
    return true;
}

static int give_text(void *user, struct json *item)
{
    struct texts *t = user;
    size_t len;
    if ((t->are_tools && !list_takes_tool(t->client, item)) ||
        (t->are_skills && !skills_takes_entry(t->client, item))) {
        return 0;
    }
    char *text = json_text_of(t->client, item, &len);
    if (text) {
        t->ended = t->fn(t->user, tidings_strn(text, len));
    }
    mem_free(text);
    return t->ended != 0 ? STOP_LISTING : 0;
}

static int list_texts(struct listing *l, tidings_client_item_fn fn, void *user,
                      struct tidings_error *err)
{
    struct texts t = {.client = l->client,
                      .fn = fn,
                      .user = user,
                      .are_tools = strcmp(l->member, "tools") == 0,
                      .are_skills = strcmp(l->member, "skills") == 0};
    l->fn = give_text;
    l->user = &t;
    int rc = list_all(l, err);
    if (t.are_tools && rc == 0) {
        tool_schemas_complete(l->client);
    }
    return t.ended != 0 ? t.ended : rc < 0 ? rc : 0;
}

int tidings_client_list(struct tidings_client *c, enum tidings_listing list,
                        tidings_client_item_fn fn, void *user, struct tidings_error *err)
{
    static const struct {
        const char *method, *member;
    } kinds[] = {
        [TIDINGS_LISTING_RESOURCES] = {"resources/list", "resources"},
        [TIDINGS_LISTING_TEMPLATES] = {"resources/templates/list", "resourceTemplates"},
        [TIDINGS_LISTING_TOOLS] = {"tools/list", "tools"},
        [TIDINGS_LISTING_PROMPTS] = {"prompts/list", "prompts"},
        [TIDINGS_LISTING_SKILLS] = {"skills/list", "skills"},
    };
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if ((unsigned)list >= sizeof(kinds) / sizeof(kinds[0])) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no such list");
    }
    int rc = list == TIDINGS_LISTING_SKILLS ? skills_connect(c, err) : 0;
    if (rc < 0) {
        return rc;
    }
    struct listing l = {.client = c, .method = kinds[list].method, .member = kinds[list].member};
    return list_texts(&l, fn, user, err);
}

/* The tools of the server, likewise. */
static int list_all_tools(struct tidings_client *c, json_item_fn fn, void *user,
                          struct list_budget *budget, struct tidings_error *err)
{
    struct listing l = {.client = c,
                        .method = "tools/list",
                        .member = "tools",
                        .fn = fn,
                        .user = user,
                        .budget = budget};
    return list_all(&l, err);
}

/* A server that does not know the parameter would answer with the whole list. */
static int check_children(struct tidings_client *c, struct tidings_error *err)
{
    int rc = tidings_client_connect(c, err);
    if (rc < 0) {
        return rc;
    }
    return c->info.children ? 0
                            : tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                                           "the server does not list what is below a resource");
}

/* Lists the direct children of a resource: 0, STOP_LISTING, or a failure. TIDINGS_E_UNSUPPORTED:
 * the server does not offer that; TIDINGS_E_TIMEOUT: it takes too long, this time or in all.
 * `budget` is for this list and later ones. */
static int list_children(struct tidings_client *c, const char *uri, json_item_fn fn, void *user,
                         struct list_budget *budget, struct tidings_error *err)
{
    struct listing l = {
        .client = c, .member = "resources", .uri = uri, .fn = fn, .user = user, .budget = budget};
    int rc = check_children(c, err);
    l.method = c->info.children;
    return rc < 0 ? rc : list_all(&l, err);
}

int tidings_client_children(struct tidings_client *c, const char *uri, tidings_client_item_fn fn,
                            void *user, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct listing l = {.client = c, .member = "resources", .uri = uri};
    int rc = check_children(c, err);
    l.method = c->info.children;
    return rc < 0 ? rc : list_texts(&l, fn, user, err);
}

/* ---- metadata -------------------------------------------------------------------------------- */

struct search {
    struct tidings_client *client;
    struct tidings_str uri;
    char *found;
};

static int list_search_item(void *user, struct json *item)
{
    struct search *s = user;
    if (!str_eq(jv_str(jv_get(item, "uri")), s->uri)) {
        return 0;
    }
    s->found = json_text_of(s->client, item, NULL);
    return STOP_LISTING;
}

static char *search_list(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct search s = {.client = c, .uri = tidings_str(uri)};
    struct listing l = {.client = c,
                        .method = "resources/list",
                        .member = "resources",
                        .fn = list_search_item,
                        .user = &s};
    if (list_all(&l, err) >= 0 && !s.found) {
        tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.80s' is not in the server's list", uri);
    }
    return s.found;
}

char *tidings_client_metadata(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    struct listing l = {.uri = uri};
    struct buf params;
    struct tidings_error why = {0};
    buf_init(&params, c->settings.max_bytes);
    why.code = put_params(&params, &l);
    struct json *result =
        why.code == 0 ? ask(c, "resources/metadata", buf_str(&params), &why) : NULL;
    buf_deinit(&params);
    struct json *resource = jv_get(result, "resource");
    char *text = resource ? json_text_of(c, resource, NULL) : NULL;
    bool is_answered = result != NULL;
    jv_unref(result);
    if (!text && (is_answered || why.code == TIDINGS_E_UNSUPPORTED)) {
        return search_list(c, uri, err);
    }
    if (!text) {
        tidings_fail(err, why.code, "%s", why.text);
    }
    return text;
}

/* -------------------------------------------------------------------------------------------------
 * Calls a tool and checks its result against the tool's declaration, which comes from lists of
 * tools: the program's, or one that the call requests. Where arguments may be repeated in header
 * fields, the client lists before the first call; elsewhere after the first result with structured
 * content. The declarations are dropped with the connection and when the server's tools change. A
 * result that violates its schema is checked once more after a fresh list, and a call whose header
 * fields the server refuses is repeated after one.
 */

#define MAX_PAGES 100u /* of a list requested here */

static int call_on_tool(void *user, struct json *tool)
{
    (void)list_takes_tool(user, tool);
    return 0;
}

/* Lists all tools, up to the limit. */
static void call_list_tools(struct tidings_client *c)
{
    struct list_budget budget = {.left = MAX_PAGES};
    struct tidings_error err;
    tool_schemas_forget(c);
    tool_headers_forget(c);
    (void)list_all_tools(c, call_on_tool, c, &budget, &err);
    tool_schemas_complete(c);
    ask_forget_error(c);
}

/* Finds the header fields of a call; TIDINGS_E_PARSE: the tool must not be called. */
static int call_prepare(struct tidings_client *c, struct tidings_str tool,
                        struct tidings_error *err)
{
    int rc = 0;
    if (tool.len == 0) { /* ask_tool refuses it, without a connection */
        return 0;
    }
    if (c->transport->ops->has_exchanges && !tool_schemas_is_complete(c)) {
        ask_forget_error(c);
        rc = tidings_client_connect(c, err); /* which era it is */
    }
    if (rc == 0 && tool_headers_matter(c) && !tool_schemas_is_complete(c)) {
        call_list_tools(c);
    }
    return rc < 0 ? rc : tool_headers_check(c, tool, err);
}

static int call_check(struct tidings_client *c, struct tidings_str tool, struct json *result,
                      struct tidings_error *err)
{
    struct json *content = jv_get(result, "structuredContent");
    bool is_fresh = content && !tool_schemas_is_complete(c);
    struct schema_error e = {.text = ""};
    if (jv_is_true(jv_get(result, "isError"))) {
        return 0;
    }
    if (is_fresh) {
        call_list_tools(c);
    }
    enum schema_verdict verdict = tool_schemas_check(c, tool, content, &e);
    if (verdict == SCHEMA_NOT_VALID && !is_fresh) {
        call_list_tools(c);
        verdict = tool_schemas_check(c, tool, content, &e);
    }
    if (verdict != SCHEMA_NOT_VALID) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_PARSE,
                        "the result of '%.*s' breaks its outputSchema: %s%s%s (schema: %s)",
                        STR_ARG_MAX(tool, 64), e.instance_path, e.instance_path[0] ? ": " : "",
                        e.text, e.schema_path[0] ? e.schema_path : "/");
}

/* Returns true if header fields were missing or wrong. Then the recorded declaration is stale. */
static bool call_lacked_fields(struct tidings_client *c)
{
    const char *error = tidings_client_last_error(c);
    char *code = error ? tidings_json_get(tidings_str(error), "/code") : NULL;
    bool is_it = code && strcmp(code, "-32020") == 0;
    mem_free(code);
    return is_it;
}

char *tidings_client_call(struct tidings_client *c, const char *tool, const char *arguments,
                          tidings_client_progress_fn on_progress, void *user,
                          struct tidings_error *err)
{
    struct tidings_str name = tidings_str(tool);
    if (client_check(c, err) < 0 || call_prepare(c, name, err) < 0) {
        return NULL;
    }
    struct json *result = ask_tool(c, tool, arguments, on_progress, user, err);
    if (!result && call_lacked_fields(c)) {
        call_list_tools(c);
        result = tool_headers_check(c, name, err) == 0
                     ? ask_tool(c, tool, arguments, on_progress, user, err)
                     : NULL;
    }
    if (result && call_check(c, tidings_str(tool), result, err) < 0) {
        jv_unref(result);
        result = NULL;
    }
    return ask_give_text(c, result, result, err);
}

/* -------------------------------------------------------------------------------------------------
 * Lists everything below a resource (tidings_client_walk). The graph of the server is untrusted and
 * may be infinite or cyclic. The walk is depth first. It lists the children of a resource before it
 * reports the resource, so that the program knows whether that succeeded, and callbacks may make
 * requests.
 */

#define DEPTH 32u
#define ENTRIES 100000u

/* A resource on the way. */
struct walk_node {
    struct list link; /* siblings yet to be reported; the next first */
    char *uri, *item, *parent;
    uint32_t depth;
    bool has_children;
};

struct walk {
    struct tidings_client *client;
    uint32_t max_depth, max_entries;
    struct list_budget budget; /* of all lists together */
    struct list ahead;
    size_t ahead_count;
    struct map entered; /* URIs whose children were reported */
    uint32_t reported;
    /* while listing: */
    struct list children;
    const char *parent;
    uint32_t depth;
    struct tidings_error why;
};

static void walk_node_free(struct walk_node *p)
{
    mem_free(p->uri);
    mem_free(p->item);
    mem_free(p->parent);
    mem_free(p);
}

static void walk_free_all(struct list *list)
{
    list_each (it, next, list) {
        list_remove(it);
        walk_node_free(list_entry(it, struct walk_node, link));
    }
}

/* Said outright, or by what only directories have. */
static bool may_have_children(struct json *item)
{
    struct json *list = jv_get(jv_get(item, "capabilities"), "list");
    if (jv_is(list, JV_TRUE) || jv_is(list, JV_FALSE)) {
        return jv_is(list, JV_TRUE);
    }
    return str_eq(jv_str(jv_get(item, "mimeType")), STR("inode/directory")) ||
           str_ends(jv_str(jv_get(item, "uri")), STR("/"));
}

static int take_child(void *user, struct json *item)
{
    struct walk *w = user;
    struct tidings_str uri = jv_str(jv_get(item, "uri"));
    if (uri.len == 0) {
        return 0;
    }
    if (w->reported + w->ahead_count >= w->max_entries) {
        return tidings_fail(&w->why, TIDINGS_E_LIMIT, "there are more than %u entries",
                            w->max_entries);
    }
    struct walk_node *p = mem_zalloc(sizeof(*p));
    if (p) {
        p->uri = str_dup(uri);
        p->item = json_text_of(w->client, item, NULL);
        p->parent = str_dup(tidings_str(w->parent));
    }
    if (!p || !p->uri || !p->item || !p->parent) {
        if (p) {
            walk_node_free(p);
        }
        return tidings_fail(&w->why, TIDINGS_E_NOMEM, "out of memory");
    }
    p->depth = w->depth;
    p->has_children = may_have_children(item);
    list_append(&w->children, &p->link);
    w->ahead_count++;
    return 0;
}

/* Its children come next. */
static int walk_enter(struct walk *w, const char *uri, uint32_t depth)
{
    char *key = str_dup(tidings_str(uri));
    if (!key || map_put(&w->entered, tidings_str(key), key, NULL) < 0) {
        mem_free(key);
        return tidings_fail(&w->why, TIDINGS_E_NOMEM, "out of memory");
    }
    struct tidings_error err = {0};
    w->parent = uri;
    w->depth = depth;
    w->why.code = 0;
    int rc = list_children(w->client, uri, take_child, w, &w->budget, &err);
    if (rc < 0 && w->why.code == 0) {
        w->why = err;
    }
    list_splice(&w->children, &w->ahead); /* before the others */
    list_splice(&w->ahead, &w->children);
    return rc;
}

/* Returns true if the server's error concerns only this resource. Without an error object, such as
 * after a bare HTTP status, the other resources would fail too. */
static bool is_passable(const struct walk *w, int code)
{
    return tidings_client_last_error(w->client) &&
           (code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_GONE || code == TIDINGS_E_INVALID ||
            code == TIDINGS_E_DENIED || code == TIDINGS_E_UNSUPPORTED || code == TIDINGS_E_BUSY ||
            code == TIDINGS_E_INTERNAL);
}

/* 0, or what the walk ends with. */
static int walk_visit(struct walk *w, struct walk_node *p, tidings_walk_fn fn, void *user)
{
    struct tidings_walk_entry e = {
        .uri = tidings_str(p->uri),
        .item = tidings_str(p->item),
        .parent = tidings_str(p->parent),
        .depth = p->depth,
        .has_children = p->has_children,
        .is_repeated = map_find(&w->entered, tidings_str(p->uri)) != NULL,
        .is_cut = p->has_children && p->depth >= w->max_depth,
    };
    struct tidings_error failure;
    w->reported++;
    if (e.has_children && !e.is_repeated && !e.is_cut) {
        int rc = walk_enter(w, p->uri, p->depth + 1);
        if (rc < 0 && !is_passable(w, rc)) {
            return rc;
        }
        failure = w->why;
        e.failure = rc < 0 ? &failure : NULL;
    }
    return fn(user, &e);
}

int tidings_client_walk(struct tidings_client *c, const char *uri,
                        const struct tidings_walk_limits *limits, tidings_walk_fn fn, void *user,
                        struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (limits && RESERVED_CHECK(limits, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct walk w = {.client = c,
                     .max_depth = limits && limits->depth ? limits->depth : DEPTH,
                     .max_entries = limits && limits->entries ? limits->entries : ENTRIES};
    /* One for what is in each, one for each that is in something, one that tells the end. */
    w.budget.left =
        w.max_entries < UINT32_MAX / 4 ? 3 * w.max_entries + LIST_MAX_PAGES : UINT32_MAX;
    list_init(&w.ahead);
    list_init(&w.children);
    map_init(&w.entered);
    int rc = walk_enter(&w, uri, 1);
    rc = rc > 0 ? 0 : rc;
    while (rc == 0 && !list_empty(&w.ahead)) {
        struct walk_node *p = list_entry(w.ahead.next, struct walk_node, link);
        list_remove(&p->link);
        w.ahead_count--;
        rc = walk_visit(&w, p, fn, user);
        walk_node_free(p);
    }
    walk_free_all(&w.ahead);
    char *key;
    for (size_t at = 0; (key = map_next(&w.entered, &at)) != NULL;) {
        mem_free(key);
    }
    map_deinit(&w.entered);
    if (rc < 0 && w.why.code == rc) {
        tidings_fail(err, rc, "%s", w.why.text);
    }
    return rc;
}
