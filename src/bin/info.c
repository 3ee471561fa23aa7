/* SPDX-License-Identifier: MIT
 *
 * `tidings info`: who a server is, how it speaks, what it offers, and how much of it.
 */
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/remote/remote.h"

#define COUNT_MAX 1000u /* elements of a list that are counted */
#define COLUMN 14u

/* ---- who it is ------------------------------------------------------------------------------- */

static void info_put_key(const struct cli *cli, const char *key)
{
    put_style(cli, stdout, STYLE_DIM);
    fputs(key, stdout);
    put_style(cli, stdout, STYLE_PLAIN);
    put_gap(stdout, strlen(key), COLUMN);
}

static void info_put_line(const struct cli *cli, const char *key, const char *text)
{
    info_put_key(cli, key);
    put_text_wrapped(stdout, tidings_str(text), COLUMN);
    fputc('\n', stdout);
}

/* Names, one after the other. */
struct info_names {
    FILE *out;
    size_t count;
};

static int info_put_version(void *user, struct tidings_str key, struct tidings_str value)
{
    struct info_names *n = user;
    char *text = tidings_json_string(value, "");
    (void)key;
    fputs(n->count++ > 0 ? ", " : "", n->out);
    put_text(n->out, tidings_str(text));
    tidings_free(text);
    return 0;
}

/* "resources     subscribe, listChanged" */
static int info_put_flag(void *user, struct tidings_str key, struct tidings_str value)
{
    struct info_names *n = user;
    if (tidings_str_eq(value, TIDINGS_STR("false"))) {
        return 0;
    }
    fputs(n->count++ > 0 ? ", " : "(", n->out);
    put_text(n->out, key);
    return 0;
}

static int info_put_capability(void *user, struct tidings_str key, struct tidings_str value)
{
    struct info_names *n = user, flags = {n->out, 0};
    fputs(n->count++ > 0 ? ", " : "", n->out);
    put_text(n->out, key);
    fputs(value.len > 2 ? " " : "", n->out);
    tidings_json_each(value, "", info_put_flag, &flags);
    fputs(flags.count > 0 ? ")" : "", n->out);
    return 0;
}

/* The names in `json` on a line of their own, or several. */
static void info_put_names(const struct cli *cli, const char *key, const char *json,
                           int (*put)(void *, struct tidings_str, struct tidings_str))
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return;
    }
    struct info_names n = {t.out, 0};
    tidings_json_each(tidings_str(json), "", put, &n);
    char *text = json_text_take(&t);
    info_put_line(cli, key, n.count > 0 && text ? text : "none");
    free(text);
}

static void info_put_server(const struct cli *cli, const struct tidings_client_info *a)
{
    const char *era = a->era == TIDINGS_ERA_MODERN ? "modern" : "legacy";
    info_put_key(cli, "server");
    put_text(stdout, tidings_str(a->server_name[0] ? a->server_name : "(does not say)"));
    fputs(a->server_version[0] ? " " : "", stdout);
    put_text(stdout, tidings_str(a->server_version));
    fputc('\n', stdout);
    info_put_key(cli, "protocol");
    put_text(stdout, tidings_str(a->version));
    printf(" (%s), over %s\n", era, a->transport);
    char *versions = tidings_json_get(tidings_str(a->answer), "/supportedVersions");
    if (versions) {
        info_put_names(cli, "versions", versions, info_put_version);
    }
    tidings_free(versions);
    info_put_names(cli, "capabilities", a->capabilities, info_put_capability);
    if (a->session[0]) {
        info_put_line(cli, "session", "yes");
    }
}

static void info_put_object(const struct tidings_client_info *a)
{
    char *versions = tidings_json_get(tidings_str(a->answer), "/supportedVersions");
    fputs("{\"server\":{\"name\":", stdout);
    put_quoted(stdout, tidings_str(a->server_name));
    fputs(",\"version\":", stdout);
    put_quoted(stdout, tidings_str(a->server_version));
    fputs("},\"protocol\":", stdout);
    put_quoted(stdout, tidings_str(a->version));
    printf(",\"era\":\"%s\",\"transport\":\"%s\",\"versions\":",
           a->era == TIDINGS_ERA_MODERN ? "modern" : "legacy", a->transport);
    put_json_text(stdout, tidings_str(versions ? versions : "null"));
    fputs(",\"capabilities\":", stdout);
    put_json_text(stdout, tidings_str(a->capabilities));
    fputs(",\"instructions\":", stdout);
    put_quoted(stdout, tidings_str(a->instructions));
    fputs(",\"counts\":{", stdout);
    tidings_free(versions);
}

/* ---- how much of it -------------------------------------------------------------------------- */

struct info_count {
    unsigned count;
    bool is_offered, is_more;
};

static int info_count_one(void *user, struct tidings_str item)
{
    struct info_count *c = user;
    (void)item;
    c->is_more = c->count == COUNT_MAX;
    c->count += c->is_more ? 0 : 1;
    return c->is_more ? 1 : 0;
}

static const struct info_list {
    const char *name;
    const char *capability; /* where a server says that it has such */
    enum tidings_listing list;
} lists[] = {
    {"resources", "/resources", TIDINGS_LISTING_RESOURCES},
    {"templates", "/resources", TIDINGS_LISTING_TEMPLATES},
    {"tools", "/tools", TIDINGS_LISTING_TOOLS},
    {"prompts", "/prompts", TIDINGS_LISTING_PROMPTS},
    {"skills", "/extensions/io.modelcontextprotocol~1skills", TIDINGS_LISTING_SKILLS},
};

static void info_put_count(const struct cli *cli, const struct info_list *l,
                           const struct info_count *c, const struct tidings_error *why)
{
    if (cli->json) {
        printf("%s\"%s\":", l == lists ? "" : ",", l->name);
        if (why->code) {
            fputs("{\"error\":", stdout);
            put_quoted(stdout, tidings_str(why->text));
            fputc('}', stdout);
        } else if (!c->is_offered) {
            fputs("null", stdout);
        } else {
            printf("{\"count\":%u,\"isMore\":%s}", c->count, c->is_more ? "true" : "false");
        }
        return;
    }
    if (!c->is_offered && l->list == TIDINGS_LISTING_SKILLS) {
        return; /* an extension that few have */
    }
    info_put_key(cli, l->name);
    if (why->code) {
        put_text(stdout, tidings_str(why->text));
        fputc('\n', stdout);
    } else if (!c->is_offered) {
        fputs("not offered\n", stdout);
    } else {
        printf("%u%s\n", c->count, c->is_more ? " and more" : "");
    }
}

static void info_put_counts(const struct cli *cli, struct tidings_client *client,
                            struct tidings_str capabilities)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct tidings_error why = {0};
        char *offered = tidings_json_get(capabilities, lists[i].capability);
        struct info_count c = {.is_offered = offered != NULL};
        tidings_free(offered);
        if (c.is_offered) {
            (void)tidings_client_list(client, lists[i].list, info_count_one, &c, &why);
        }
        if (why.code == TIDINGS_E_UNSUPPORTED) { /* resources, but no templates */
            c.is_offered = false;
            why.code = 0;
        }
        info_put_count(cli, &lists[i], &c, &why);
    }
}

/* Line by line, because a terminal breaks each at blanks. */
static void info_put_instructions(const char *text)
{
    for (const char *end = strchr(text, '\n'); end; end = strchr(text, '\n')) {
        put_text_wrapped(stdout, tidings_strn(text, (size_t)(end - text)), 0);
        fputc('\n', stdout);
        text = end + 1;
    }
    put_text_wrapped(stdout, tidings_str(text), 0);
    fputc('\n', stdout);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int info_print(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    int rc = tidings_client_connect(client, err);
    const struct tidings_client_info *a = rc < 0 ? NULL : tidings_client_info(client);
    /* What it points to goes with the next question. */
    char *capabilities = a ? strdup(a->capabilities) : NULL;
    char *instructions = a ? strdup(a->instructions) : NULL;
    if (a && (!capabilities || !instructions)) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (a && cli->json) {
        info_put_object(a);
        info_put_counts(cli, client, tidings_str(capabilities));
        fputs("}}\n", stdout);
    } else if (a) {
        info_put_server(cli, a);
        info_put_counts(cli, client, tidings_str(capabilities));
        if (instructions[0]) {
            info_put_key(cli, "instructions");
            fputc('\n', stdout);
            info_put_instructions(instructions);
        }
    }
    free(capabilities);
    free(instructions);
    return rc;
}

const struct command command_info = {
    .name = "info",
    .help = "print who a server is and what it offers",
    .about =
        "Print a server's name and version, how it speaks, its capabilities, how many "
        "resources, templates, tools, prompts and skills it lists (counted up to 1000), and its "
        "instructions.\n\n"
        "--json prints one object: server, protocol, era, transport, versions, capabilities, "
        "instructions, and counts, each with count and isMore, or error; null: not offered.\n",
    .has_target = true,
    .may_be_asked = true,
    .ask = info_print,
};
