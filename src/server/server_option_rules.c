/* SPDX-License-Identifier: MIT
 *
 * tidings_server_set_options: options and limits of subscriptions below a URI prefix, set by the
 * program while the server runs. They are kept as texts by whoever is the hub; each change makes a
 * new set of all rules, configured ones too, and hands it to the workers. Subscriptions that are
 * being made keep the set they began with.
 */
#include <tidings/server.h>

#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "server/server_private.h"
#include "uri/uri.h"

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

void server_runtime_rules_deinit(struct tidings_server *s)
{
    size_t pos = 0;
    struct runtime_rule *rule;
    while ((rule = map_next(&s->runtime_rules, &pos)) != NULL) {
        runtime_rule_free(rule);
    }
    map_deinit(&s->runtime_rules);
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

/* What the workers follow from now on. */
static int runtime_rules_apply(struct tidings_server *s, struct tidings_error *err)
{
    if (hub_worker_count(s->hub) == 0) {
        return 0; /* they come with the limits when it starts */
    }
    struct shared_rules *shared = mem_zalloc(sizeof(*shared));
    if (!shared) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = rules_init(&shared->rules, &s->config, &s->runtime_rules, err);
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
    struct runtime_rule *rule; /* NULL: none any more; taken */
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
    struct runtime_rule *old = map_remove(&s->runtime_rules, runtime_rules_key_of(change->prefix));
    int rc = 0;
    if (change->rule && s->runtime_rules.count >= RUNTIME_RULES_MAX) {
        rc = tidings_fail(err, TIDINGS_E_LIMIT, "at most %u prefixes may have options",
                          RUNTIME_RULES_MAX);
    } else if (change->rule &&
               map_put(&s->runtime_rules, runtime_rules_key_of(change->rule->prefix), change->rule,
                       NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else {
        rc = runtime_rules_apply(s, err);
    }
    if (rc == 0) {
        change->rule = old; /* to be freed */
        return 0;
    }
    (void)map_remove(&s->runtime_rules, runtime_rules_key_of(change->prefix));
    if (old && map_put(&s->runtime_rules, runtime_rules_key_of(old->prefix), old, NULL) < 0) {
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
