/* SPDX-License-Identifier: MIT
 *
 * The client under test of the official conformance suite: `client URL`. The suite runs it once for
 * each scenario (MCP_CONFORMANCE_SCENARIO) and judges it by the requests at its server. It uses
 * only the public interface and the revision that both sides agree on.
 *
 * Most scenarios only require tools to be listed and called; the table at the end lists the
 * requirements of each. The last line on standard output is `done`, or `failed: ` and the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

#include "login.h"

struct driver {
    struct tidings_client *client;
    const char *between; /* a tool to call while the server waits for an answer; NULL: none */
    struct tidings_str context; /* the context of the scenario: JSON object; empty: none */
};

/* ---- tools ----------------------------------------------------------------------------------- */

/* The names and input schemas of the callable tools. */
struct tools {
    size_t count;
    char *names[64], *schemas[64];
};

static int tools_add(void *user, struct tidings_str item)
{
    struct tools *t = user;
    if (t->count < sizeof(t->names) / sizeof(t->names[0])) {
        t->names[t->count] = tidings_json_string(item, "/name");
        t->schemas[t->count++] = tidings_json_get(item, "/inputSchema");
    }
    return 0;
}

static void tools_free(struct tools *t)
{
    for (size_t i = 0; i < t->count; i++) {
        tidings_free(t->names[i]);
        tidings_free(t->schemas[i]);
    }
}

struct arguments {
    FILE *out;
    bool has_any;
};

/* A value for each property. */
static int put_argument(void *user, struct tidings_str key, struct tidings_str value)
{
    struct arguments *a = user;
    char *name = tidings_json_quote(key), *type = tidings_json_string(value, "/type");
    const char *what = type ? type : "string";
    fprintf(a->out, "%s%s:%s", a->has_any ? "," : "", name ? name : "\"\"",
            strcmp(what, "number") == 0 || strcmp(what, "integer") == 0 ? "7"
            : strcmp(what, "boolean") == 0                              ? "true"
            : strcmp(what, "object") == 0                               ? "{}"
            : strcmp(what, "array") == 0                                ? "[]"
                                                                        : "\"text\"");
    a->has_any = true;
    tidings_free(name);
    tidings_free(type);
    return 0;
}

static int call_with(struct driver *d, const char *name, const char *arguments,
                     struct tidings_error *err)
{
    char *result = tidings_client_call(d->client, name, arguments, NULL, NULL, err);
    int rc = result ? 0 : err->code;
    fprintf(stderr, "%s %s: %s\n", name, arguments, result ? result : err->text);
    tidings_free(result);
    return rc;
}

static int call_filled_in(struct driver *d, const char *name, const char *schema,
                          struct tidings_error *err)
{
    char *text = NULL;
    size_t len;
    struct arguments a = {.out = open_memstream(&text, &len)};
    if (!a.out) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputc('{', a.out);
    (void)tidings_json_each(tidings_str(schema), "/properties", put_argument, &a);
    fputc('}', a.out);
    fclose(a.out);
    int rc = call_with(d, name, text, err);
    free(text);
    return rc;
}

static int list_tools(struct driver *d, struct tidings_error *err)
{
    struct tools t = {0};
    int rc = tidings_client_list(d->client, TIDINGS_LISTING_TOOLS, tools_add, &t, err);
    tools_free(&t);
    return rc;
}

/* Calls every offered tool in turn. */
static int call_tools(struct driver *d, struct tidings_error *err)
{
    struct tools t = {0};
    int rc = tidings_client_list(d->client, TIDINGS_LISTING_TOOLS, tools_add, &t, err);
    for (size_t i = 0; rc == 0 && i < t.count; i++) {
        rc = call_filled_in(d, t.names[i], t.schemas[i], err);
    }
    tools_free(&t);
    return rc;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The user accepts everything unchanged. */
static void on_form(void *user, struct tidings_question *question)
{
    struct driver *d = user;
    struct tidings_error err = {0};
    if (d->between) {
        (void)call_with(d, d->between, "{}", &err);
    }
    if (tidings_question_accept(question, TIDINGS_STR("{}"), &err) < 0) {
        fprintf(stderr, "the form cannot be accepted as it is: %s\n", err.text);
        tidings_question_cancel(question);
    }
}

/* ---- special scenarios ----------------------------------------------------------------------- */

struct given_calls {
    struct driver *driver;
    struct tidings_error *err;
};

static int call_given(void *user, struct tidings_str key, struct tidings_str value)
{
    struct given_calls *g = user;
    char *name = tidings_json_string(value, "/name");
    char *arguments = tidings_json_get(value, "/arguments");
    (void)key;
    int rc = name && arguments ? call_with(g->driver, name, arguments, g->err)
                               : tidings_fail(g->err, TIDINGS_E_PARSE, "no call to make");
    tidings_free(name);
    tidings_free(arguments);
    return rc;
}

/* The call that the suite requires, with exactly these arguments. */
static int call_as_told(struct driver *d, struct tidings_error *err)
{
    struct given_calls g = {.driver = d, .err = err};
    int rc = list_tools(d, err);
    return rc < 0 ? rc : tidings_json_each(d->context, "/toolCalls", call_given, &g);
}

static int call_between(struct driver *d, struct tidings_error *err)
{
    d->between = "test_mrtr_unrelated";
    return call_tools(d, err);
}

/* Passes the schema of the first tool to the second. */
static int echo_schema(struct driver *d, struct tidings_error *err)
{
    struct tools t = {0};
    char *arguments = NULL;
    int rc = tidings_client_list(d->client, TIDINGS_LISTING_TOOLS, tools_add, &t, err);
    if (rc == 0 && (t.count < 2 || asprintf(&arguments, "{\"schema\":%s}", t.schemas[0]) < 0)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "there are not two tools");
    }
    if (rc == 0) {
        rc = call_with(d, t.names[1], arguments, err);
    }
    free(arguments);
    tools_free(&t);
    return rc;
}

static int read_item(void *user, struct tidings_str item)
{
    struct driver *d = user;
    char *uri = tidings_json_string(item, "/uri"), *name = tidings_json_string(item, "/name");
    tidings_free(uri ? tidings_client_read(d->client, uri, NULL)
                     : tidings_client_prompt(d->client, name ? name : "", NULL, NULL));
    tidings_free(uri);
    tidings_free(name);
    return 0;
}

/* Everything. */
static int use_everything(struct driver *d, struct tidings_error *err)
{
    int rc = call_tools(d, err);
    rc = rc < 0 ? rc : tidings_client_list(d->client, TIDINGS_LISTING_RESOURCES, read_item, d, err);
    return rc < 0 ? rc : tidings_client_list(d->client, TIDINGS_LISTING_PROMPTS, read_item, d, err);
}

/* ---- skills ---------------------------------------------------------------------------------- */

static int keep_first(void *user, struct tidings_str item)
{
    char **first = user;
    *first = *first ? *first : tidings_json_get(item, "");
    return 0;
}

/* The entry of the first skill, as a host would keep it; reads nothing. */
static int list_skills(struct driver *d, char **ret_first, struct tidings_error *err)
{
    *ret_first = NULL;
    int rc = tidings_client_list(d->client, TIDINGS_LISTING_SKILLS, keep_first, ret_first, err);
    return rc == 0 && !*ret_first ? tidings_fail(err, TIDINGS_E_NOTFOUND, "no skill is listed")
                                  : rc;
}

static int only_list_skills(struct driver *d, struct tidings_error *err)
{
    char *first;
    int rc = list_skills(d, &first, err);
    tidings_free(first);
    return rc;
}

struct loading {
    struct driver *driver;
    const char *entry;
    struct tidings_error *err;
};

static int load_file(void *user, struct tidings_str key, struct tidings_str file)
{
    struct loading *l = user;
    size_t len;
    char *uri = tidings_json_string(file, "/uri");
    char *bytes = tidings_client_skill_read(l->driver->client, l->entry, uri, &len, l->err);
    (void)key;
    int rc = bytes ? 0 : l->err->code;
    tidings_free(bytes);
    tidings_free(uri);
    return rc;
}

/* Loads SKILL.md, then the other files of the skill, until an error. */
static int load_skill(struct driver *d, struct tidings_error *err)
{
    char *entry;
    int rc = list_skills(d, &entry, err);
    struct loading l = {.driver = d, .entry = entry, .err = err};
    rc = rc < 0 ? rc : tidings_json_each(tidings_str(entry), "/resources", load_file, &l);
    tidings_free(entry);
    return rc;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *scenario; /* a trailing '/' means a prefix */
    int (*run)(struct driver *d, struct tidings_error *err);
} scenarios[] = {
    {"auth/", call_tools},
    {"elicitation-sep1034-client-defaults", call_tools},
    {"http-custom-headers", call_as_told},
    {"http-invalid-tool-headers", call_tools},
    {"http-standard-headers", use_everything},
    {"initialize", list_tools},
    {"json-schema-2020-12-preservation", echo_schema},
    {"json-schema-ref-no-deref", list_tools},
    {"request-metadata", list_tools},
    {"sep-2322-client-request-state", call_between},
    {"sep-2640-client-no-prefetch", only_list_skills},
    {"sep-2640-client-verify-digest", load_skill},
    {"sep-2640-client-verify-frontmatter", load_skill},
    {"sep-2640-client-verify-size", load_skill},
    {"sse-retry", call_tools},
    {"tools_call", call_tools},
};

static int run(const char *url, const char *scenario, struct tidings_error *err)
{
    const char *context = getenv("MCP_CONFORMANCE_CONTEXT");
    struct driver d = {.context = tidings_str(context)};
    struct tidings_client_options options = {.name = "tidings-conformance", .timeout_ms = 10000};
    int rc = tidings_fail(err, TIDINGS_E_NOTFOUND, "nothing is known of this scenario");
    struct tidings_error none = {0};
    struct tidings_oauth *login = login_create(scenario, d.context, &none);
    options.credentials = login ? tidings_oauth_credentials(login) : NULL;
    if (none.code < 0) {
        return tidings_fail(err, none.code, "%s", none.text);
    }
    d.client = tidings_client_create(url, &options, err);
    struct tidings_question_handlers handlers = {.on_form = on_form, .user = &d};
    if (!d.client || tidings_client_on_question(d.client, &handlers, err) < 0) {
        tidings_client_destroy(d.client);
        return err->code;
    }
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        const char *name = scenarios[i].scenario;
        size_t len = strlen(name);
        if (name[len - 1] == '/' ? strncmp(name, scenario, len) == 0
                                 : strcmp(name, scenario) == 0) {
            rc = scenarios[i].run(&d, err);
        }
    }
    tidings_client_destroy(d.client);
    tidings_oauth_destroy(login);
    return rc;
}

int main(int argc, char **argv)
{
    const char *scenario = getenv("MCP_CONFORMANCE_SCENARIO");
    struct tidings_error err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: MCP_CONFORMANCE_SCENARIO=… %s URL\n", argv[0]);
        return 64;
    }
    int rc = run(argv[1], scenario ? scenario : "", &err);
    if (rc < 0) {
        printf("failed: %s\n", err.text);
        return tidings_code_exit(rc);
    }
    puts("done");
    return 0;
}
