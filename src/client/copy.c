/* SPDX-License-Identifier: MIT
 *
 * Live copies, <tidings/copy.h>: a subscription to the patches of an entity, and reads that fill
 * the gaps.
 *
 * A copy uses subscriptions and requests as a program would. It moves only to a version that it
 * received whole, or by a patch from its current one, so that its value is always one that the
 * entity had. It has one read at a time; an update in that time that does not fit causes another
 * read.
 */
#include "client/copy.h"

#include <stdio.h>

#include <tidings/copy.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include "client/json_api.h"
#include "client/subscriptions.h"
#include "formats/json.h"
#include "formats/json_write.h"

#define MAX_INSTANT 40u
#define MAX_URI 8000u

struct tidings_copy {
    struct list link;
    struct tidings_client *client;
    tidings_copy_fn fn;
    void *user;
    char *uri;
    struct json *value;
    char from[MAX_INSTANT];  /* its current version; empty: none */
    char heard[MAX_INSTANT]; /* the newest reported version */
    bool is_deleted;
    struct tidings_subscription *subscription;
    int64_t reading;   /* number of the request; 0: none */
    bool is_whole;     /* … of the entity, not of the changes since `from` */
    bool is_wanted;    /* … once more */
    bool is_refused;   /* the last subscription attempt was refused */
    unsigned refusals; /* in a row, though the entity can be read */
    unsigned pauses;   /* in a row */
    struct loop_timer next;
    int problem;   /* the last reported code; 0: none */
    bool is_busy;  /* in a function that calls the program, */
    bool is_ended; /* which frees the copy afterwards */
};

static void copy_destroy(struct tidings_copy *y)
{
    jv_unref(y->value);
    mem_free(y->uri);
    mem_free(y);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* `text` is the value; `problem` NULL: there is none. */
static void copy_notify(struct tidings_copy *y, struct tidings_str text,
                        const struct tidings_error *problem)
{
    struct tidings_copy_state state = {
        .copy = y,
        .uri = y->uri,
        .value = text,
        .valid_from = tidings_str(y->from),
        .is_deleted = y->is_deleted,
        .problem = problem,
    };
    y->problem = problem ? problem->code : 0;
    if (!y->is_ended && !client_is_stopping(y->client)) {
        y->fn(y->user, &state);
    }
}

static void notify_again(struct tidings_copy *y, const struct tidings_error *problem)
{
    size_t len = 0;
    char *text = y->value ? json_text_of(y->client, y->value, &len) : NULL;
    copy_notify(y, tidings_strn(text ? text : "", len), problem);
    mem_free(text);
}

/* Reports a problem once, not with each attempt. Connection problems are reported elsewhere. */
static void notify_problem(struct tidings_copy *y, const struct tidings_error *problem)
{
    int code = problem->code;
    bool is_passing = code == TIDINGS_E_CLOSED || code == TIDINGS_E_IO || code == TIDINGS_E_BUSY ||
                      code == TIDINGS_E_TIMEOUT || code == TIDINGS_E_CANCELLED;
    if (!is_passing && code != y->problem) {
        notify_again(y, problem);
    }
}

/* ---- versions -------------------------------------------------------------------------------- */

/* It becomes part of URIs; instants of this form sort as strings. */
static bool is_instant(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\0' || !strchr("0123456789-:.TZ", s.ptr[i])) {
            return false;
        }
    }
    return s.len > 0 && s.len < MAX_INSTANT;
}

static void set_instant(char instant[MAX_INSTANT], struct tidings_str s)
{
    memcpy(instant, s.ptr, s.len);
    instant[s.len] = '\0';
}

static const char *copy_options_of(const struct tidings_copy *y, char text[64])
{
    snprintf(text, 64, "{\"baseline\":\"%s\"}", y->from);
    return text;
}

/* From now on this is its value; takes the reference. */
static void move_to(struct tidings_copy *y, struct tidings_str from, struct json *value)
{
    char options[64];
    size_t len = 0;
    char *text = json_text_of(y->client, value, &len);
    if (!text || len > y->client->settings.max_bytes) {
        struct tidings_error why = {0};
        tidings_fail(&why, TIDINGS_E_LIMIT, "the value is larger than %zu bytes",
                     y->client->settings.max_bytes);
        notify_problem(y, &why);
        jv_unref(value);
    } else {
        jv_unref(y->value);
        y->value = value;
        y->is_deleted = false;
        set_instant(y->from, from);
        if (y->subscription) {
            tidings_subscription_set_options(y->subscription, copy_options_of(y, options), NULL);
        }
        copy_notify(y, tidings_strn(text, len), NULL);
    }
    mem_free(text);
}

/* The entity is deleted. If it returns, the copy continues from its present version. */
static void take_deletion(struct tidings_copy *y)
{
    if (!y->is_deleted) {
        y->is_deleted = true;
        notify_again(y, NULL);
    }
}

/* Takes a version from the server: whole, or the patch that leads there. Returns false if an
 * earlier version is missing (LU-12). */
static bool copy_take(struct tidings_copy *y, struct json *update)
{
    struct tidings_str from = jv_str(jv_get(update, "validFrom"));
    struct json *patch = jv_get(update, "patch"), *value = jv_get(update, "value");
    bool has_version = y->from[0] != '\0';
    bool fits = has_version && str_eq(jv_str(jv_get(update, "baseline")), tidings_str(y->from));
    if (!is_instant(from)) {
        return false;
    }
    if (str_cmp(from, tidings_str(y->heard)) > 0) {
        set_instant(y->heard, from);
    }
    if (jv_is_true(jv_get(update, "deleted"))) {
        if (fits) {
            take_deletion(y);
        }
        return fits;
    }
    if (!y->is_deleted && has_version && str_cmp(from, tidings_str(y->from)) <= 0) {
        return true; /* the copy has this version, or a later one */
    }
    struct json *fresh = value             ? jv_ref(value)
                         : (patch && fits) ? merge_apply(y->value, patch)
                                           : NULL;
    if (fresh) {
        move_to(y, from, fresh);
    }
    return fresh != NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void copy_on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                           struct tidings_str error);
static void copy_on_update(void *user, const struct tidings_update *u);
static void copy_on_state(void *user, const struct tidings_state_event *e);

/* Retries after a pause. */
static void wait_for_next(struct tidings_copy *y)
{
    loop_timer_start(&y->next, settings_pause(&y->client->settings, y->pauses++), 0);
}

/* Reads the changes since its version, or the whole entity. */
static void read_it(struct tidings_copy *y)
{
    struct buf uri, params;
    struct jw w;
    if (y->reading > 0 || y->is_ended) {
        y->is_wanted = true;
        return;
    }
    y->is_wanted = false;
    y->is_whole = y->from[0] == '\0';
    buf_init(&uri, 2 * MAX_URI);
    buf_putf(&uri, "%s%s%s", y->uri, y->is_whole ? "" : "/patch/", y->from);
    buf_init(&params, 16 * MAX_URI);
    jw_init(&w, &params);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), buf_str(&uri));
    jw_end_object(&w);
    bool ok = !uri.failed && !params.failed;
    struct tidings_client_asking a = {
        .method = "resources/read", .params = params.ptr, .on_answer = copy_on_answer, .user = y};
    int64_t number = ok ? tidings_client_ask(y->client, &a, NULL) : TIDINGS_E_NOMEM;
    buf_deinit(&params);
    buf_deinit(&uri);
    y->reading = number > 0 ? number : 0;
    if (number < 0) {
        wait_for_next(y);
    }
}

static int copy_subscribe(struct tidings_copy *y, struct tidings_error *err)
{
    char options[64];
    struct buf uri;
    buf_init(&uri, 2 * MAX_URI);
    buf_putf(&uri, "%s/patch", y->uri);
    if (uri.failed) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct tidings_subscribe_options how = {.fn = copy_on_update,
                                            .on_state = copy_on_state,
                                            .user = y,
                                            .options = copy_options_of(y, options)};
    bool is_shared = watch_find(y->client, buf_str(&uri)) != NULL;
    y->subscription = tidings_client_subscribe(y->client, uri.ptr, &how, err);
    buf_deinit(&uri);
    if (!y->subscription) {
        return TIDINGS_E_LIMIT;
    }
    watch_of(y->subscription)->is_patient = true;
    if (is_shared) {
        read_it(y); /* the server sends the patches that follow another version */
    }
    return 0;
}

/* The pause is over. */
static void on_next(struct loop_timer *timer, void *user)
{
    struct tidings_copy *y = user;
    (void)timer;
    if (y->from[0] == '\0' || y->subscription) {
        read_it(y);
    } else if (copy_subscribe(y, NULL) < 0) {
        wait_for_next(y);
    }
}

/* ---- where it is ----------------------------------------------------------------------------- */

/* The entity has another URI, with a new version of its type: the caller continues there. */
static void copy_follow(struct tidings_copy *y, struct tidings_str uri)
{
    char *text = uri.len <= MAX_URI ? str_dup(uri) : NULL;
    if (!text) {
        return;
    }
    mem_free(y->uri);
    y->uri = text;
    tidings_subscription_end(y->subscription);
    y->subscription = NULL;
}

/* `error` of a read reports that the entity is stored with another version of its type. Returns
 * true if the copy has moved there. */
static bool copy_follow_version(struct tidings_copy *y, struct tidings_str error)
{
    struct json *root = NULL;
    (void)json_parse_lenient(error, &root, NULL, NULL);
    struct json *data = jv_get(root, "data");
    struct tidings_str type = jv_str(jv_get(data, "entityTypeName")),
                       version = jv_str(jv_get(data, "entityTypeVersion"));
    const char *id = strrchr(y->uri, '/'), *at = id;
    while (at && at > y->uri && at[-1] != '/') {
        at--;
    }
    struct tidings_str is = tidings_strn(at, id ? (size_t)(id - at) : 0);
    bool is_other = str_eq(jv_str(jv_get(data, "reason")), STR("otherType")) && version.len > 0 &&
                    str_starts(is, type) && is.len > type.len && is.ptr[type.len] == '@' &&
                    !str_eq(str_skip(is, type.len + 1), version);
    if (is_other) {
        struct buf uri;
        buf_init(&uri, MAX_URI);
        buf_puts(&uri, tidings_strn(y->uri, (size_t)(at - y->uri)));
        buf_putf(&uri, "%.*s@%.*s%s", STR_ARG(type), STR_ARG(version), id);
        is_other = !uri.failed;
        if (is_other) {
            copy_follow(y, buf_str(&uri));
            wait_for_next(y); /* a server that redirects in a cycle does not keep the copy busy */
        }
        buf_deinit(&uri);
    }
    jv_unref(root);
    return is_other;
}

/* ---- hearing --------------------------------------------------------------------------------- */

static void copy_leave(struct tidings_copy *y)
{
    y->is_busy = false;
    if (y->is_ended) {
        copy_destroy(y);
    }
}

static void copy_on_update(void *user, const struct tidings_update *u)
{
    struct tidings_copy *y = user;
    struct json *root = NULL;
    y->is_busy = true;
    (void)json_parse_lenient(u->params, &root, NULL, NULL);
    struct json *update = jv_get(jv_get(root, "_meta"), "dev.tidings/data");
    if (!update || !copy_take(y, update)) {
        read_it(y);
    }
    bool is_move = u->kind == TIDINGS_CHANGE_CREATED || u->kind == TIDINGS_CHANGE_MOVED;
    if (is_move && u->from.len > 0 && !y->is_ended) {
        copy_follow(y, u->uri);
        on_next(&y->next, y);
    }
    jv_unref(root);
    copy_leave(y);
}

/* Handles states of the subscription. */
static void copy_on_state(void *user, const struct tidings_state_event *e)
{
    struct tidings_copy *y = user;
    switch (e->state) {
    case TIDINGS_STATE_WATCHING:
        y->refusals = y->pauses = 0;
        y->is_refused = false;
        break;
    case TIDINGS_STATE_REFUSED: /* it is deleted, or the server dropped that version */
    case TIDINGS_STATE_LOST:
        y->is_refused = true;
        tidings_subscription_end(y->subscription);
        y->subscription = NULL;
        read_it(y);
        break;
    case TIDINGS_STATE_GAP:
        read_it(y);
        break;
    case TIDINGS_STATE_ENDED:
    case TIDINGS_STATE_CONNECTED:
    case TIDINGS_STATE_DISCONNECTED:
        break;
    }
}

/* Takes the content of the answer: 0, or the error. */
static int copy_take_content(struct tidings_copy *y, struct tidings_str result,
                             struct tidings_error *err)
{
    struct json *root = NULL, *update = NULL;
    bool is_whole = y->is_whole && y->from[0] == '\0';
    (void)json_parse_lenient(result, &root, NULL, NULL);
    struct tidings_str text = jv_str(jv_get(jv_at(jv_get(root, "contents"), 0), "text"));
    int rc = json_parse_lenient(text, &update, NULL, NULL);
    if (rc < 0 || (!copy_take(y, update) && is_whole)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the content of '%.200s' is not an entity", y->uri);
    }
    jv_unref(update);
    jv_unref(root);
    return rc;
}

/* A read has failed. */
static void take_failure(struct tidings_copy *y, const struct tidings_error *err)
{
    bool has_version = y->from[0] != '\0';
    y->refusals = 0;
    if (err->code == TIDINGS_E_INVALID && has_version && !y->is_whole) {
        y->from[0] = '\0'; /* the server no longer knows that version */
        read_it(y);
        return;
    }
    if (err->code == TIDINGS_E_GONE && has_version) {
        take_deletion(y);
    } else {
        notify_problem(y, err);
    }
    if (y->is_ended) {
        return;
    }
    if (!y->subscription || !watch_of(y->subscription)->is_accepted) {
        wait_for_next(y); /* the server will not report its return */
    }
}

static void copy_on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                           struct tidings_str error)
{
    struct tidings_copy *y = user;
    struct tidings_error why = {0};
    y->is_busy = true;
    y->reading = 0;
    if (err && copy_follow_version(y, error)) {
        /* continues there */
    } else if (err) {
        take_failure(y, err);
    } else if (copy_take_content(y, result, &why) < 0) {
        take_failure(y, &why);
    } else if (y->is_ended) {
        /* by the program, in the callback */
    } else if (y->is_wanted && strcmp(y->heard, y->from) > 0) {
        read_it(y);
    } else if (!y->subscription && !y->is_refused) {
        on_next(&y->next, y);
    } else if (!y->subscription) {
        if (++y->refusals > 1) {
            tidings_fail(&why, TIDINGS_E_DENIED, "the server does not let '%.200s' be watched",
                         y->uri);
            notify_problem(y, &why);
        }
        wait_for_next(y);
    }
    copy_leave(y);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int take_kept(struct tidings_copy *y, const struct tidings_copying *kept,
                     struct tidings_error *err)
{
    if (!kept->value && !kept->valid_from) {
        return 0;
    }
    if (!kept->value || !is_instant(tidings_str(kept->valid_from)) ||
        json_parse_lenient(tidings_str(kept->value), &y->value, NULL, NULL) < 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the saved state of '%.200s' is not a JSON value with its validFrom",
                            y->uri);
    }
    set_instant(y->from, tidings_str(kept->valid_from));
    y->is_deleted = kept->is_deleted;
    return 0;
}

struct tidings_copy *tidings_copy_begin(struct tidings_client *c, const char *uri,
                                        const struct tidings_copying *how,
                                        struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    if (!uri || !uri[0] || strlen(uri) > MAX_URI || !how || !how->fn) {
        tidings_fail(err, TIDINGS_E_INVALID,
                     "a copy needs a URI of at most %u bytes and a function", MAX_URI);
        return NULL;
    }
    if (RESERVED_CHECK(how, err) < 0) {
        return NULL;
    }
    if (c->copy_count >= CLIENT_MAX_WATCHES) {
        tidings_fail(err, TIDINGS_E_LIMIT, "%u copies are kept already", CLIENT_MAX_WATCHES);
        return NULL;
    }
    struct tidings_copy *y = mem_zalloc(sizeof(*y));
    int rc = y && (y->uri = str_dup(tidings_str(uri)))
                 ? take_kept(y, how, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        y->client = c;
        y->fn = how->fn;
        y->user = how->user;
        loop_timer_init(&y->next, c->loop, on_next, y);
        rc = y->from[0] != '\0' ? copy_subscribe(y, err) : 0;
    }
    if (rc < 0) {
        if (y) {
            copy_destroy(y);
        }
        return NULL;
    }
    list_append(&c->copies, &y->link);
    c->copy_count++;
    if (!y->subscription) {
        read_it(y);
    }
    return y;
}

void tidings_copy_end(struct tidings_copy *y)
{
    if (!y || y->is_ended) {
        return;
    }
    y->is_ended = true;
    list_remove(&y->link);
    y->client->copy_count--;
    loop_timer_stop(&y->next);
    tidings_subscription_end(y->subscription);
    if (y->reading > 0) {
        tidings_client_cancel(y->client, y->reading);
    }
    if (!y->is_busy) {
        copy_destroy(y);
    }
}

void copy_end_all(struct tidings_client *c)
{
    list_each (it, next, &c->copies) {
        tidings_copy_end(list_entry(it, struct tidings_copy, link));
    }
}
