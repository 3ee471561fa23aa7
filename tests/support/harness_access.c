/* SPDX-License-Identifier: MIT */
#include "support/harness_access.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/hub_internal.h"
#include "engine/protocol/enforce.h"

#undef free /* memory of strdup and open_memstream is not cmocka's */

void harness_access_start(struct harness *b, struct stub *stub)
{
    harness_init(b);
    b->options.list_changed_ms = 0;
    harness_start(b);
    memset(stub, 0, sizeof(*stub));
    stub_mount(stub, b, "mem://x/", STUB_UNWATCHED | STUB_QUERY);
    stub_add(stub, "mem://x/a", false);
    stub_add(stub, "mem://x/hidden/b", false);
    stub_add(stub, "mem://x/hidden/c", false);
    stub_add(stub, "mem://x/open/d", false);
    stub_add(stub, "mem://x/open/e", false);
    b->principal.name = NULL;
}

struct kept_rules {
    struct access_rules base;
    struct access_rule at[32];
};

static void destroy(struct access_rules *base)
{
    mem_free(list_entry(base, struct kept_rules, base));
}

static int set_now(struct hub *hub, void *rules, struct tidings_error *err)
{
    return access_enforce_everywhere(hub, rules, err);
}

void harness_rules(struct harness *b, const struct harness_rule *rules, size_t count)
{
    struct kept_rules *kept = mem_zalloc(sizeof(*kept));
    assert_non_null(kept);
    assert_true(count <= 32);
    kept->base =
        (struct access_rules){.at = kept->at, .count = count, .destroy = destroy, .refs = 1};
    for (size_t i = 0; i < count; i++) {
        const char *uri = rules[i].uri;
        size_t len = strlen(uri);
        kept->at[i] = (struct access_rule){
            .whom = strcmp(rules[i].name, "*") == 0 ? ACCESS_ANYBODY
                    : rules[i].name[0] == '\0'      ? ACCESS_ANONYMOUS
                                                    : ACCESS_NAMED,
            .name = tidings_str(rules[i].name),
            .kinds = ~0u,
            .scope = tidings_str(rules[i].scope ? rules[i].scope : ""),
            .kind = strchr(uri, '*')                 ? PATTERN_GLOB
                    : len > 0 && uri[len - 1] == '/' ? PATTERN_CONTAINER
                                                     : PATTERN_LITERAL,
            .uri = tidings_str(uri),
            .ops = rules[i].ops,
        };
    }
    assert_int_equal(hub_run_on(b->hub, set_now, &kept->base, NULL), 0);
    access_rules_unref(&kept->base);
    harness_run_until_idle(b);
}

void harness_is(struct harness *b, const char *name, const char *scopes)
{
    b->principal.kind = name && name[0] ? PRINCIPAL_TOKEN : PRINCIPAL_ANONYMOUS;
    b->principal.name = name;
    b->principal.scopes = scopes;
    b->principal.expires_ms = 0;
}

/* ---- transcripts ----------------------------------------------------------------------------- */

/* After `key`, digits become one '#'; a string, which must be a seal (plain numbers are compared),
 * becomes one '#' per byte. */
static void mask(char *text, const char *key, bool is_text)
{
    for (char *at = strstr(text, key); at; at = strstr(at, key)) {
        at += strlen(key);
        size_t len = 0;
        while (is_text ? at[len] && at[len] != '"' : isdigit((unsigned char)at[len]) != 0) {
            at[len++] = '#';
        }
        if (is_text) {
            assert_true(len > CURSOR_TEXT);
        } else {
            memmove(at + 1, at + len, strlen(at + len) + 1);
        }
    }
}

/* stream.n.SEAL: the seal goes, the rest is compared. */
static void mask_id(char *id)
{
    char *last = strrchr(id, '.');
    if (last && strlen(last + 1) > CURSOR_TEXT) {
        memset(last + 1, '#', strlen(last + 1));
    }
}

char *client_transcript(const struct client *c)
{
    char *all = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&all, &size);
    assert_non_null(out);
    for (size_t i = 0; i < c->count; i++) {
        const struct utterance *u = &c->said[i];
        char *text = strdup(u->text ? u->text : "");
        char id[sizeof(u->id)];
        snprintf(id, sizeof(id), "%s", u->id);
        mask_id(id);
        mask(text, "\"updated_at\":", false);
        mask(text, "\"timestamp\":", false);
        mask(text, "\"dev.tidings/cursor\":\"", true);
        fprintf(out, "%d %d %s %s\n", u->kind, u->status, id, text);
        free(text);
    }
    fclose(out);
    return all;
}
