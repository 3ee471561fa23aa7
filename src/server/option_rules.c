/* SPDX-License-Identifier: MIT
 *
 * Checks the rules for subscriptions in the configuration and builds one set of them. Their JSON is
 * parsed twice: once where it is configured, so that errors name the place, and once here when the
 * server starts. So no code in between has to pass parsed values.
 */
#include "server/option_rules.h"

#include <tidings/server.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/hub.h"
#include "formats/uri.h"
#include "server/publish.h"
#include "server/server_internal.h"
#include "sources/entity.h"

/* ---------------------------------------------------------------------------------------------- */

#define RULE_MAX_DEPTH 40u /* a filter is a schema */
/* A subscriber of an entity wants its value, immediately and in full. */
#define ENTITY_OPTIONS "{\"windowMs\":0,\"include\":\"value\",\"initial\":true}"

struct rule_source {
    struct json *options, *limits; /* references */
    char *prefix;
};

static void source_deinit(struct rule_source *s)
{
    jv_unref(s->options);
    jv_unref(s->limits);
    mem_free(s->prefix);
}

static int option_rules_take_prefix(struct rule_source *s, const struct config *c, struct json *uri,
                                    struct tidings_error *err)
{
    struct buf text;
    if (!jv_is(uri, JV_STRING)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "uri: must be a URI prefix");
    }
    buf_init(&text, CONFIG_VALUE_MAX);
    int rc = entity_authority_canonical(c, jv_str(uri), false, &text, err);
    if (rc == 0 && str_find(buf_str(&text), '?') >= 0) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a URI prefix has no query");
    }
    s->prefix = buf_detach(&text, NULL);
    buf_deinit(&text);
    return rc < 0 ? error_wrap(err, rc, "uri") : 0;
}

/* The members of a rule. */
static int option_rules_read_members(struct rule_source *s, const struct config *c, struct json *v,
                                     struct tidings_error *err)
{
    struct tidings_str key;
    struct json *member = NULL;
    int rc = 0;
    if (!jv_is(v, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a rule is an object with uri, options and limits");
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(v, at, &key, &member)) != NULL;) {
        if (str_eq(key, STR("uri"))) {
            rc = option_rules_take_prefix(s, c, member, err);
        } else if (str_eq(key, STR("options"))) {
            s->options = jv_ref(member);
        } else if (str_eq(key, STR("limits"))) {
            s->limits = jv_ref(member);
        } else {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "unknown key '%.*s' (accepted: uri, options, limits)",
                              STR_ARG_MAX(key, 64));
        }
    }
    return rc;
}

static int option_rules_read_rule(struct rule_source *s, const struct config *c,
                                  struct option_rule *rule, struct tidings_str text,
                                  struct tidings_error *err)
{
    struct json *v = NULL;
    int rc = jv_parse(text, RULE_MAX_DEPTH, &v, err);
    if (rc == 0) {
        rc = option_rules_read_members(s, c, v, err);
    }
    jv_unref(v);
    if (rc == 0) {
        rule->prefix = tidings_str(s->prefix);
        rc = option_rule_read(rule, s->options, s->limits, err);
    }
    return rc;
}

static int read_parts(struct rule_source *s, struct option_rule *rule, const char *options,
                      const char *limits, struct tidings_error *err)
{
    int rc = options ? jv_parse(tidings_str(options), RULE_MAX_DEPTH, &s->options, err) : 0;
    if (rc == 0 && limits) {
        rc = jv_parse(tidings_str(limits), RULE_MAX_DEPTH, &s->limits, err);
    }
    return rc == 0 ? option_rule_read(rule, s->options, s->limits, err) : rc;
}

int rule_check(struct tidings_str text, struct tidings_error *err)
{
    struct rule_source s = {0};
    struct option_rule rule;
    int rc = option_rules_read_rule(&s, NULL, &rule, text, err);
    source_deinit(&s);
    return rc;
}

int rule_check_parts(const char *options, const char *limits, struct tidings_error *err)
{
    struct rule_source s = {0};
    struct option_rule rule;
    int rc = read_parts(&s, &rule, options, limits, err);
    source_deinit(&s);
    return rc;
}

/* Shortest prefix first; rules of equal length keep their order. */
static void sort_by_length(struct rules *r)
{
    for (size_t i = 1; i < r->count; i++) {
        struct option_rule rule = r->at[i];
        size_t k = i;
        for (; k > 0 && r->at[k - 1].prefix.len > rule.prefix.len; k--) {
            r->at[k] = r->at[k - 1];
        }
        r->at[k] = rule;
    }
}

static int option_rules_add_parts(struct rules *r, struct tidings_str prefix, const char *options,
                                  const char *limits, struct tidings_error *err)
{
    struct rule_source *source = &r->sources[r->count];
    struct option_rule *rule = &r->at[r->count++];
    source->prefix = str_dup(prefix); /* a rule of the program may be freed before this set */
    rule->prefix = tidings_str(source->prefix);
    return source->prefix ? read_parts(source, rule, options, limits, err)
                          : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int rules_init(struct rules *r, const struct config *c, const struct map *live,
               struct tidings_error *err)
{
    size_t most = c->mount_count + c->subscriptions.count + (live ? live->count : 0);
    memset(r, 0, sizeof(*r));
    r->at = mem_zalloc((most + 2) * sizeof(*r->at));
    r->sources = mem_zalloc((most + 2) * sizeof(*r->sources));
    if (!r->at || !r->sources) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = 0;
    if (c->entities && c->entities[0]) {
        rc = option_rules_add_parts(r, STR(ENTITY_URI_PREFIX), ENTITY_OPTIONS, NULL, err);
    }
    for (size_t i = 0; rc == 0 && i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        if (m->options || m->limits) {
            rc = option_rules_add_parts(r, tidings_str(m->uri), m->options, m->limits, err);
        }
    }
    for (size_t i = 0; rc == 0 && i < c->subscriptions.count; i++) {
        struct option_rule *rule = &r->at[r->count];
        rc = option_rules_read_rule(&r->sources[r->count++], c, rule,
                                    tidings_str(c->subscriptions.items[i]), err);
    }
    const struct runtime_rule *own;
    for (size_t pos = 0; rc == 0 && live && (own = map_next(live, &pos)) != NULL;) {
        rc = option_rules_add_parts(r, own->prefix, own->options, own->limits, err);
    }
    sort_by_length(r);
    return rc;
}

void rules_deinit(struct rules *r)
{
    for (size_t i = 0; r->sources && i < r->count; i++) {
        source_deinit(&r->sources[i]);
    }
    mem_free(r->sources);
    mem_free(r->at);
    memset(r, 0, sizeof(*r));
}

/* -------------------------------------------------------------------------------------------------
 * tidings_server_set_options: options and limits of subscriptions below a URI prefix, set by the
 * program while the server runs. The thread that holds the hub keeps them as JSON text. Each change
 * builds a new set of all rules, including configured ones, and hands it to the workers. A
 * subscription under construction keeps the set it started with.
 */

#define RUNTIME_RULES_MAX 1000u
#define TEXT_MAX (64u << 10)

struct shared_rules {
    struct option_rules base;
    struct rules rules;
};

static void destroy_shared(struct option_rules *base)
{
    struct shared_rules *shared = list_entry(base, struct shared_rules, base);
    rules_deinit(&shared->rules);
    mem_free(shared);
}

static void runtime_rule_free(struct runtime_rule *rule)
{
    if (rule) {
        mem_free(rule->options);
        mem_free(rule->limits);
        mem_free(rule);
    }
}

void runtime_rules_deinit(struct map *rules)
{
    size_t pos = 0;
    struct runtime_rule *rule;
    while ((rule = map_next(rules, &pos)) != NULL) {
        runtime_rule_free(rule);
    }
    map_deinit(rules);
}

static bool copy_text(struct tidings_str text, char **ret)
{
    *ret = text.len > 0 ? str_dup(text) : NULL;
    return text.len == 0 || *ret;
}

static struct runtime_rule *runtime_rule_create(struct tidings_str prefix,
                                                struct tidings_str options,
                                                struct tidings_str limits)
{
    struct runtime_rule *rule = mem_zalloc(sizeof(*rule) + prefix.len + 1);
    if (rule) {
        char *at = rule->memory;
        rule->prefix = str_pack(&at, prefix);
        if (!copy_text(options, &rule->options) || !copy_text(limits, &rule->limits)) {
            runtime_rule_free(rule);
            return NULL;
        }
    }
    return rule;
}

/* Sends the current set to the workers. */
static int runtime_rules_apply(struct tidings_server *s, struct tidings_error *err)
{
    if (hub_worker_count(s->hub) == 0) {
        return 0; /* workers get them with the limits at startup */
    }
    struct shared_rules *shared = mem_zalloc(sizeof(*shared));
    if (!shared) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = rules_init(&shared->rules, &s->config, &s->registry.runtime_rules, err);
    shared->base = (struct option_rules){
        .at = shared->rules.at,
        .count = shared->rules.count,
        .destroy = destroy_shared,
        .refs = 1,
    };
    if (rc == 0) {
        rc = hub_set_rules(s->hub, &shared->base, err);
    }
    option_rules_unref(&shared->base);
    return rc;
}

struct rule_change {
    struct tidings_server *server;
    struct tidings_str prefix;
    struct runtime_rule *rule; /* NULL: remove the rule; taken */
};

/* The empty prefix has a key too. */
static struct tidings_str runtime_rules_key_of(struct tidings_str prefix)
{
    return prefix.len > 0 ? prefix : STR("*");
}

static int set_now(struct hub *hub, void *arg, struct tidings_error *err)
{
    (void)hub;
    struct rule_change *change = arg;
    struct tidings_server *s = change->server;
    struct runtime_rule *old =
        map_remove(&s->registry.runtime_rules, runtime_rules_key_of(change->prefix));
    int rc = 0;
    if (change->rule && s->registry.runtime_rules.count >= RUNTIME_RULES_MAX) {
        rc = tidings_fail(err, TIDINGS_E_LIMIT, "at most %u prefixes may have options",
                          RUNTIME_RULES_MAX);
    } else if (change->rule &&
               map_put(&s->registry.runtime_rules, runtime_rules_key_of(change->rule->prefix),
                       change->rule, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else {
        rc = runtime_rules_apply(s, err);
    }
    if (rc == 0) {
        change->rule = old; /* to be freed */
        return 0;
    }
    (void)map_remove(&s->registry.runtime_rules, runtime_rules_key_of(change->prefix));
    if (old &&
        map_put(&s->registry.runtime_rules, runtime_rules_key_of(old->prefix), old, NULL) < 0) {
        runtime_rule_free(old);
    }
    return rc;
}

static int set_rule(struct rule_change *change, struct tidings_str options,
                    struct tidings_str limits, struct tidings_error *err)
{
    if (options.len > TEXT_MAX || limits.len > TEXT_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "options and limits may be at most %u bytes long",
                            TEXT_MAX);
    }
    int rc = 0;
    if (options.len > 0 || limits.len > 0) {
        change->rule = runtime_rule_create(change->prefix, options, limits);
        rc = change->rule ? rule_check_parts(change->rule->options, change->rule->limits, err)
                          : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = hub_run_on(change->server->hub, set_now, change, err);
    }
    runtime_rule_free(change->rule);
    return rc;
}

int tidings_server_set_options(struct tidings_server *s, struct tidings_str prefix,
                               struct tidings_str options, struct tidings_str limits,
                               struct tidings_error *err)
{
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = prefix.len > 0 ? uri_canonical(prefix, &canonical, err) : 0;
    if (rc == 0 && str_find(buf_str(&canonical), '?') >= 0) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a URI prefix has no query");
    }
    if (rc == 0) {
        struct rule_change change = {.server = s, .prefix = buf_str(&canonical)};
        rc = set_rule(&change, options, limits, err);
    }
    buf_deinit(&canonical);
    return rc;
}
