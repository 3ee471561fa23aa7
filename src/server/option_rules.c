/* SPDX-License-Identifier: MIT
 *
 * Checks the rules for subscriptions in the configuration and makes one set of them. Their texts
 * are parsed twice: once to be checked where they stand, so that the error names where, and once
 * here when the server starts. Nothing in between has to carry parsed values around.
 */
#include "server/option_rules.h"

#include "base/error.h"
#include "base/mem.h"
#include "provider/entity_uri.h"
#include "server/entity_authority.h"
#include "uri/uri.h"

#define RULE_MAX_DEPTH 40u /* a filter is a schema */
/* Who subscribes to an entity wants to have it, at once and whole. */
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

/* Shortest prefix first; of equal length in the order they came. */
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
    source->prefix = str_dup(prefix); /* a rule of the program may go before this set does */
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
