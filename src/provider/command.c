/* SPDX-License-Identifier: MIT
 *
 * The operations of the command provider, and its thread. Workers and the hub send jobs; the thread
 * of the instance knows who waits for a run and who watches, and announces changed output.
 * Everything below "on the actor" is that thread's.
 */
#include "provider/command.h"

#include "base/actor.h"
#include "base/error.h"
#include "base/mem.h"
#include "provider/actor_job.h"
#include "provider/command_run.h"
#include "provider/command_settings.h"
#include "provider/etag.h"

#define GONE_MS 100u /* how often to see whether those who wait have gone */

struct command {
    struct tidings_provider *provider;
    struct tidings_str uri;
    struct command_settings settings;
    struct actor actor;

    /* on the actor */
    struct command_run run;
    struct loop_timer *refresh, *gone;
    struct list readers; /* struct actor_job; bounded by the requests under way */
    size_t reader_count;
    unsigned watchers;
    bool has_outcome;     /* run.code, run.err and run.output are those of the newest run */
    char etag[ETAG_SIZE]; /* of the last outcome, which may be gone; "": none yet */
};

static void command_describe(const struct command *c, struct tidings_resource *about)
{
    const struct command_settings *s = &c->settings;
    const char *slash = memrchr(c->uri.ptr, '/', c->uri.len);
    *about = (struct tidings_resource){0};
    about->uri = c->uri;
    about->name = s->name ? tidings_str(s->name)
                          : str_skip(c->uri, slash ? (size_t)(slash + 1 - c->uri.ptr) : 0);
    about->title = tidings_str(s->title);
    about->description = tidings_str(s->description);
    about->mime_type = s->mime_type ? tidings_str(s->mime_type) : STR("text/plain");
    about->not_subscribable = s->interval_ms == 0;
}

/* ---- on the actor ---------------------------------------------------------------------------- */

static void command_answer(struct command *c, struct tidings_read *read)
{
    struct tidings_error err = c->run.err;
    int rc = c->run.code;
    if (rc == 0) {
        struct tidings_resource about;
        struct tidings_str output = buf_str(&c->run.output);
        command_describe(c, &about);
        about.etag = tidings_strn(c->etag, ETAG_SIZE - 1);
        rc = str_is_utf8(output) ? tidings_read_text(read, &about, output, &err)
                                 : tidings_read_blob(read, &about, output, &err);
    }
    tidings_read_done(read, rc, &err);
}

static void forget_reader(struct command *c, struct actor_job *e)
{
    list_remove(&e->link);
    c->reader_count--;
    mem_free(e);
}

static void command_announce(struct command *c)
{
    struct tidings_change change = {.uri = c->uri};
    if (c->run.code == 0) {
        change.etag = tidings_strn(c->etag, ETAG_SIZE - 1);
        change.size = (int64_t)c->run.output.len;
        change.has_size = true;
    }
    (void)tidings_provider_changed(c->provider, &change, NULL);
}

static void command_on_done(struct command_run *run, void *user)
{
    struct command *c = user;
    char etag[ETAG_SIZE];
    etag_of(run->code < 0 ? tidings_str(run->err.text) : buf_str(&run->output), etag);
    bool differs = c->etag[0] && memcmp(c->etag, etag, ETAG_SIZE) != 0;
    c->has_outcome = true;
    memcpy(c->etag, etag, ETAG_SIZE);
    loop_timer_stop(c->gone);
    if (differs && c->watchers > 0) {
        command_announce(c);
    }
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        command_answer(c, e->read);
        forget_reader(c, e);
    }
    if (c->watchers > 0) {
        loop_timer_start(c->refresh, c->settings.interval_ms, 0);
    }
}

static void command_start(struct command *c)
{
    loop_timer_stop(c->refresh);
    loop_timer_start(c->gone, GONE_MS, GONE_MS);
    c->has_outcome = false;
    command_run_start(&c->run);
}

static void on_refresh(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct command *c = user;
    if (!c->run.running) {
        command_start(c);
    }
}

/* Nobody waits for the run under way: it is no use going on. */
static void check_wanted(struct command *c)
{
    if (c->run.running && c->watchers == 0 && c->reader_count == 0) {
        loop_timer_stop(c->gone);
        command_run_abort(&c->run);
    }
}

static void on_gone(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct command *c = user;
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        if (tidings_read_cancelled(e->read)) {
            tidings_read_done(e->read, TIDINGS_E_CANCELLED, NULL);
            forget_reader(c, e);
        }
    }
    check_wanted(c);
}

static void command_do_read(struct command *c, struct actor_job *e)
{
    if (c->watchers > 0 && c->has_outcome) {
        command_answer(c, e->read);
        mem_free(e);
        return;
    }
    list_append(&c->readers, &e->link);
    c->reader_count++;
    if (!c->run.running) {
        command_start(c);
    }
}

static void do_watch(struct command *c, struct tidings_watch *watch)
{
    c->watchers++;
    tidings_watch_done(watch, 0, NULL);
    /* What later runs are compared with; after the answer, so that a difference from what was read
     * before is told. */
    if (c->watchers == 1 && !c->run.running) {
        command_start(c);
    }
}

static void do_unwatch(struct command *c)
{
    if (--c->watchers == 0) {
        loop_timer_stop(c->refresh);
        check_wanted(c);
    }
}

static void command_deliver(struct letter *letter, void *owner)
{
    struct command *c = owner;
    struct actor_job *e = list_entry(letter, struct actor_job, letter);
    if (e->read) {
        command_do_read(c, e);
        return;
    }
    if (e->watch) {
        do_watch(c, e->watch);
    } else {
        do_unwatch(c);
    }
    mem_free(e);
}

/* ---- the operations -------------------------------------------------------------------------- */

static bool command_is_ours(const struct command *c, struct tidings_str uri)
{
    return str_eq(uri, c->uri) || str_eq(uri, tidings_provider_prefix(c->provider));
}

static bool command_send_job(struct command *c, struct tidings_read *read,
                             struct tidings_watch *watch)
{
    const struct actor_job e = {.read = read, .watch = watch};
    return actor_job_send(c->actor.mailbox, &e, command_deliver);
}

static void command_read(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    if (!str_eq(uri, c->uri)) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
    } else if (!command_send_job(c, read, NULL)) {
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
    }
}

static void command_watch(struct tidings_provider *p, struct tidings_watch *watch,
                          struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_error err;
    if (!command_is_ours(c, uri)) {
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* nothing is below it, ever */
    } else if (c->settings.interval_ms == 0) {
        int rc = tidings_fail(&err, TIDINGS_E_NOTFOUND,
                              "a command with 'interval' 0 runs for reads only: it cannot be "
                              "subscribed to");
        tidings_watch_done(watch, rc, &err);
    } else if (!command_send_job(c, NULL, watch)) {
        tidings_watch_done(watch, TIDINGS_E_NOMEM, NULL);
    }
}

static void command_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    if (command_is_ours(c, uri)) {
        (void)command_send_job(c, NULL,
                               NULL); /* else it is run on: costs something, loses nothing */
    }
}

static void command_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_resource about;
    struct tidings_error err = {0};
    int rc = 0;
    command_describe(c, &about);
    if (str_cmp(c->uri, tidings_list_after(list)) > 0) {
        rc = tidings_list_add(list, &about, &err);
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void command_stat(struct tidings_provider *p, struct tidings_stat *stat,
                         struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_resource about;
    if (!str_eq(uri, c->uri)) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    command_describe(c, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_actor(struct command *c, struct tidings_error *err)
{
    int rc = actor_init(&c->actor, c, err);
    if (rc < 0) {
        return rc;
    }
    c->refresh = loop_timer_open(c->actor.loop, on_refresh, c);
    c->gone = loop_timer_open(c->actor.loop, on_gone, c);
    rc = command_run_init(&c->run, c->actor.loop, &c->settings, command_on_done, c);
    if (rc < 0 || !c->refresh || !c->gone) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return actor_start(&c->actor, "tidings-command", err);
}

static int command_open(struct tidings_provider *p, struct tidings_str config,
                        struct tidings_error *err)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_str prefix = tidings_provider_prefix(p);
    c->provider = p;
    list_init(&c->readers);
    if (prefix.len < 2 || strchr("/:", prefix.ptr[prefix.len - 2])) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a command is one resource: its URI needs a path, as cmd:///uptime");
    }
    c->uri = tidings_strn(prefix.ptr, prefix.len - 1);
    c->settings.id = str_dup(prefix);
    if (!c->settings.id) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = command_settings_read(&c->settings, config, err);
    return rc < 0 ? rc : open_actor(c, err);
}

static void command_close(struct tidings_provider *p)
{
    struct command *c = tidings_provider_state(p);
    actor_stop(&c->actor);
    if (c->run.loop) {
        command_run_deinit(&c->run);
    }
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        tidings_read_done(e->read, TIDINGS_E_CLOSED, NULL);
        forget_reader(c, e);
    }
    loop_timer_close(c->refresh);
    loop_timer_close(c->gone);
    actor_deinit(&c->actor);
    command_settings_deinit(&c->settings);
    *c = (struct command){0};
}

static const struct tidings_semantics semantics[] = {
    {TIDINGS_FORM_RESOURCE, "cmd:///{name}", "the output of that command, or its failure"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

const struct tidings_provider_ops provider_command_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "command",
    .size = sizeof(struct command),
    .flags = TIDINGS_PROVIDER_SINGLE | TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = command_open,
    .read = command_read,
    .list = command_list,
    .stat = command_stat,
    .watch = command_watch,
    .unwatch = command_unwatch,
    .close = command_close,
    .semantics = semantics,
};
