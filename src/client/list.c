/* SPDX-License-Identifier: MIT
 *
 * Lists of resources, tools and prompts, all pages of them, and what a server says of one resource.
 * Pages come from strangers: their number and the time that is waited for all of them are bounded,
 * that of pages in a row which hold nothing more tightly, and a cursor that was given before ends
 * the list as an error.
 */
#include "client/list.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/ask.h"
#include "client/json_text.h"
#include "client/page_cursors.h"
#include "client/skills.h"
#include "client/state.h"
#include "client/tool_headers.h"
#include "client/tool_schemas.h"
#include "json/write.h"

#define MAX_EMPTY 100u /* pages in a row */
#define MAX_ITEMS 1000000u

struct listing {
    struct tidings_client *client;
    const char *method, *member; /* where the elements are */
    const char *uri;             /* of whose children; NULL: none */
    json_item_fn fn;
    void *user;
    struct list_budget *budget; /* NULL: one of its own */
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

/* May one more page be asked for? A server that is always just in time would else never end. */
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
    int ended; /* what the function returned */
    bool are_tools, are_skills;
};

bool list_takes_tool(struct tidings_client *c, struct json *tool)
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

int list_all_tools(struct tidings_client *c, json_item_fn fn, void *user,
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

int list_children(struct tidings_client *c, const char *uri, json_item_fn fn, void *user,
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
