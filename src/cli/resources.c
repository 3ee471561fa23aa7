/* SPDX-License-Identifier: MIT
 *
 * `tidings ls`, `templates`, `tools` and `prompts`: list what a server offers, one line per item,
 * as the items arrive.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "cli/call.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings stat`: metadata of resources, without their content.
 */

static int stat_put_member(void *user, struct tidings_str key, struct tidings_str value)
{
    const struct cli *cli = user;
    char *text = tidings_json_string(value, "");
    put_style(cli, stdout, STYLE_DIM);
    size_t used = put_text(stdout, key);
    put_style(cli, stdout, STYLE_PLAIN);
    put_gap(stdout, used, 14);
    put_text(stdout, text ? tidings_str(text) : value);
    fputc('\n', stdout);
    tidings_free(text);
    return 0;
}

static int stat_one(struct cli *cli, struct tidings_client *client, const char *argument,
                    struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    char *about = uri ? tidings_client_metadata(client, uri, err) : NULL;
    if (about && cli->json) {
        put_json(stdout, tidings_str(about));
    } else if (about) {
        tidings_json_each(tidings_str(about), "", stat_put_member, cli);
    }
    int rc = about ? 0 : uri ? remote_about(client, uri, err) : err->code;
    tidings_free(about);
    free(uri);
    return rc;
}

static int stat_next(struct cli *cli, struct tidings_client *client, size_t index,
                     struct tidings_error *err)
{
    if (index > 0 && !cli->json) {
        fputc('\n', stdout);
    }
    return stat_one(cli, client, cli->args[index], err);
}

static int stat_all(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return remote_each(cli, client, stat_next, err);
}

const struct command command_stat = {
    .name = "stat",
    .args = "URI…",
    .help = "print metadata of resources",
    .about = "Print the metadata of each resource: name, type, size, times. If the server has "
             "no\nresources/metadata, the list is used.\n\n"
             "--json prints the resource objects of the server, one per line.\n",
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .ask = stat_all,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings tree`: draws resources as a tree. Below a URI, the command lists children of children,
 * each resource once; without a URI, it draws the server's list by the segments of the URIs.
 */

#define DEPTH_MAX 64u
#define NODES_MAX 200000u

struct node {
    char *label;
    const char *note; /* printed after the label; NULL: none */
    uint32_t depth;   /* from 1 on */
    bool is_last;     /* of its siblings */
};

struct tree {
    struct cli cli;
    uint64_t max_depth; /* 0: unlimited */
    struct node *nodes;
    size_t count, room;
    char **uris; /* without a URI: all URIs, to be sorted */
    size_t uri_count, uri_room;
};

/* Make room for one more; returns false if out of memory. */
static bool tree_grow(void **items, size_t size, size_t count, size_t *room)
{
    if (count < *room) {
        return true;
    }
    size_t more = *room > 0 ? 2 * *room : 256;
    void *larger = realloc(*items, more * size);
    if (!larger) {
        return false;
    }
    *items = larger;
    *room = more;
    return true;
}

static int tree_no_memory(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* Returns false if there are too many nodes, or no memory. */
static bool tree_add_node(struct tree *t, struct tidings_str label, uint32_t depth,
                          const char *note)
{
    if (t->count >= NODES_MAX ||
        !tree_grow((void **)&t->nodes, sizeof(*t->nodes), t->count, &t->room)) {
        return false;
    }
    char *copy = strndup(label.ptr, label.len);
    if (!copy) {
        return false;
    }
    t->nodes[t->count++] = (struct node){copy, note, depth, false};
    return true;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void find_last(struct tree *t)
{
    bool follows[DEPTH_MAX + 2] = {0};
    for (size_t i = t->count; i-- > 0;) {
        uint32_t depth = t->nodes[i].depth;
        t->nodes[i].is_last = !follows[depth];
        follows[depth] = true;
        for (uint32_t d = depth + 1; d < DEPTH_MAX + 2; d++) {
            follows[d] = false;
        }
    }
}

static void draw(struct tree *t)
{
    bool ended[DEPTH_MAX + 2] = {0};
    find_last(t);
    for (size_t i = 0; i < t->count && !ferror(stdout); i++) {
        const struct node *n = &t->nodes[i];
        for (uint32_t d = 1; d < n->depth; d++) {
            fputs(ended[d] ? "    " : "│   ", stdout);
        }
        fputs(n->is_last ? "└── " : "├── ", stdout);
        ended[n->depth] = n->is_last;
        size_t len = strlen(n->label);
        bool is_container = len > 0 && n->label[len - 1] == '/';
        put_style(&t->cli, stdout, is_container ? STYLE_NAME : STYLE_PLAIN);
        put_text(stdout, tidings_str(n->label));
        put_style(&t->cli, stdout, STYLE_PLAIN);
        puts(n->note ? n->note : "");
    }
}

/* ---- below a URI ----------------------------------------------------------------------------- */

static void put_entry(struct tidings_str uri, uint32_t depth, struct tidings_str item,
                      const struct tidings_error *failure)
{
    printf("{\"depth\":%u,\"uri\":", (unsigned)depth);
    put_quoted(stdout, uri);
    if (item.len > 0) {
        fputs(",\"resource\":", stdout);
        put_json_text(stdout, item);
    }
    if (failure) {
        fputs(",\"error\":", stdout);
        put_quoted(stdout, tidings_str(failure->text));
    }
    fputs("}\n", stdout);
}

static int tree_on_entry(void *user, const struct tidings_walk_entry *e)
{
    struct tree *t = user;
    if (t->cli.json) {
        put_entry(e->uri, e->depth, e->item, e->failure);
        return ferror(stdout) ? 1 : 0;
    }
    struct tidings_str label = e->uri;
    bool is_below = e->uri.len > e->parent.len && e->depth <= DEPTH_MAX &&
                    memcmp(e->uri.ptr, e->parent.ptr, e->parent.len) == 0;
    if (is_below) {
        label = tidings_strn(e->uri.ptr + e->parent.len, e->uri.len - e->parent.len);
    }
    uint32_t depth = e->depth <= DEPTH_MAX ? e->depth : DEPTH_MAX;
    const char *note = e->is_repeated                 ? " (shown above)"
                       : e->is_cut && e->has_children ? " …"
                       : e->failure                   ? " (cannot be listed)"
                                                      : NULL;
    return tree_add_node(t, label, depth, note) ? 0 : TIDINGS_E_LIMIT;
}

static int tree_walk(struct tree *t, struct tidings_client *client, struct tidings_error *err)
{
    struct tidings_walk_limits limits = {.depth = (uint32_t)t->max_depth};
    char *uri = uri_of_argument(t->cli.args[0], err);
    int rc = uri ? tidings_client_walk(client, uri, &limits, tree_on_entry, t, err) : err->code;
    if (rc >= 0 && !t->cli.json) {
        put_text(stdout, tidings_str(uri));
        fputc('\n', stdout);
    }
    if (rc < 0 && uri && err->code) {
        remote_about(client, uri, err);
    }
    free(uri);
    return rc < 0 ? rc : 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int tree_on_resource(void *user, struct tidings_str item)
{
    struct tree *t = user;
    char *uri = text_at(item, "/uri");
    bool is_good = uri && t->uri_count < NODES_MAX &&
                   tree_grow((void **)&t->uris, sizeof(*t->uris), t->uri_count, &t->uri_room);
    if (!is_good) {
        tidings_free(uri);
        return TIDINGS_E_LIMIT;
    }
    t->uris[t->uri_count++] = uri;
    return 0;
}

static int tree_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The length of the first segment: "file:///", "https://host/", then "name/" by "name/". */
static size_t segment(const char *uri, bool is_first)
{
    const char *slashes = is_first ? strstr(uri, "://") : NULL;
    const char *from = slashes ? slashes + 3 : uri;
    const char *slash = strchr(from, '/');
    return slash ? (size_t)(slash - uri) + 1 : strlen(uri);
}

/* Add the segments that differ from the previous URI. */
static bool add_uri(struct tree *t, const char *before, const char *uri)
{
    size_t at = 0;
    bool is_new = false;
    uint32_t most =
        t->max_depth > 0 && t->max_depth < DEPTH_MAX ? (uint32_t)t->max_depth : DEPTH_MAX;
    for (uint32_t depth = 1; depth <= most && uri[at]; depth++) {
        size_t n = segment(uri + at, at == 0);
        is_new = is_new || strncmp(before, uri, at + n) != 0;
        if (is_new && t->cli.json) {
            put_entry(tidings_strn(uri, at + n), depth, tidings_str(NULL), NULL);
        } else if (is_new && !tree_add_node(t, tidings_strn(uri + at, n), depth, NULL)) {
            return false;
        }
        at += n;
    }
    return true;
}

static int tree_list(struct tree *t, struct tidings_client *client, struct tidings_error *err)
{
    int rc = tidings_client_list(client, TIDINGS_LISTING_RESOURCES, tree_on_resource, t, err);
    if (rc < 0) {
        return rc;
    }
    if (t->uri_count > 0) {
        qsort(t->uris, t->uri_count, sizeof(*t->uris), tree_compare);
    }
    for (size_t i = 0; i < t->uri_count; i++) {
        if (!add_uri(t, i > 0 ? t->uris[i - 1] : "", t->uris[i])) {
            return tree_no_memory(err);
        }
    }
    return 0;
}

static int tree_show(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct tree *t = (struct tree *)cli;
    int rc = cli->arg_count > 0 ? tree_walk(t, client, err) : tree_list(t, client, err);
    if (rc == TIDINGS_E_LIMIT && t->count == NODES_MAX) {
        tidings_fail(err, rc, "more than %u resources", NODES_MAX);
    } else if (rc == 0 && !cli->json) {
        draw(t);
    }
    for (size_t i = 0; i < t->count; i++) {
        free(t->nodes[i].label);
    }
    for (size_t i = 0; i < t->uri_count; i++) {
        tidings_free(t->uris[i]);
    }
    free(t->nodes);
    free(t->uris);
    return rc;
}

static const struct option options[] = {
    {.name = "depth",
     .letter = 'd',
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct tree, max_depth),
     .metavar = "N",
     .help = "not deeper than this",
     .min = 1,
     .max = DEPTH_MAX},
    {0},
};

const struct command command_tree = {
    .name = "tree",
    .args = "[URI]",
    .help = "draw resources as a tree",
    .about = "Draw the resources below a URI, or all resources of a server. Each is shown once.\n\n"
             "--json prints an object per line: depth, uri, and with a URI resource, the resource "
             "object.\n",
    .options = options,
    .size = sizeof(struct tree),
    .max_args = 1,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .may_be_asked = true,
    .ask = tree_show,
};

/* -------------------------------------------------------------------------------------------------
 * `tidings info`: the identity of a server, its protocol, and what it offers, with counts.
 */

#define COUNT_MAX 1000u /* list elements that are counted */
#define COLUMN 14u

/* ---- identity -------------------------------------------------------------------------------- */

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

/* The names in `json`, on one or more separate lines. */
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

/* ---- counts ---------------------------------------------------------------------------------- */

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
    const char *capability; /* capability that a server must declare */
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
        return; /* a rare extension */
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

/* Line by line, because a terminal wraps each at blanks. */
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
    /* The next request invalidates these strings. */
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

/* ---------------------------------------------------------------------------------------------- */

/* A tool, prompt or template on one line of a list. */
struct list_row {
    char *name, *text;
};
#define LIST_ROWS 1000u /* that are aligned with each other */

struct listing {
    struct cli cli;
    struct list_row *rows;
    size_t row_count;
    bool is_long, is_recursive;
    unsigned format;    /* of tools: enum tool_format */
    size_t count;       /* tools printed in another format */
    const char *prefix; /* only URIs below it; NULL: all */
    int status;         /* of the last resource that could not be listed */
};

static int go_on(void)
{
    return ferror(stdout) ? 1 : 0;
}

/* ---- resources ------------------------------------------------------------------------------- */

static void list_put_number(struct tidings_str item)
{
    char *size = tidings_json_get(item, "/size");
    char shown[SIZE_TEXT_MAX] = "-";
    char *end = NULL;
    unsigned long long n = size ? strtoull(size, &end, 10) : 0;
    if (size && *end == '\0' && size[0] != '-') {
        size_text(n, shown);
    }
    printf("%10s", shown);
    tidings_free(size);
}

static void put_column(struct tidings_str item, const char *pointer, size_t max, size_t width)
{
    char *text = text_at(item, pointer);
    struct tidings_str s = tidings_str(text);
    s.len = s.len < max ? s.len : max;
    fputs("  ", stdout);
    size_t used = put_text(stdout, s.len > 0 ? s : TIDINGS_STR("-"));
    printf("%*s", used < width ? (int)(width - used) : 0, "");
    tidings_free(text);
}

static void put_resource(struct listing *l, struct tidings_str item)
{
    char *uri = text_at(item, "/uri");
    bool is_container = is_true_at(item, "/capabilities/list");
    if (l->is_long) {
        list_put_number(item);
        put_column(item, "/annotations/lastModified", 19, 19);
        put_column(item, "/mimeType", 40, 24);
        fputs("  ", stdout);
    }
    put_style(&l->cli, stdout, is_container ? STYLE_NAME : STYLE_PLAIN);
    put_text(stdout, tidings_str(uri));
    put_style(&l->cli, stdout, STYLE_PLAIN);
    fputc('\n', stdout);
    tidings_free(uri);
}

static int list_on_resource(void *user, struct tidings_str item)
{
    struct listing *l = user;
    if (l->prefix) {
        char *uri = text_at(item, "/uri");
        bool is_below = uri && strncmp(uri, l->prefix, strlen(l->prefix)) == 0;
        tidings_free(uri);
        if (!is_below) {
            return 0;
        }
    }
    if (l->cli.json) {
        put_json(stdout, item);
    } else {
        put_resource(l, item);
    }
    return go_on();
}

static int list_on_entry(void *user, const struct tidings_walk_entry *entry)
{
    struct listing *l = user;
    int rc = entry->is_repeated ? 0 : list_on_resource(user, entry->item);
    if (rc == 0 && entry->failure) {
        l->status = command_fail(l->cli.command->name, entry->failure, NULL);
    }
    return rc;
}

static int ls(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    if (cli->arg_count == 0) {
        int rc = tidings_client_list(client, TIDINGS_LISTING_RESOURCES, list_on_resource, l, err);
        return rc < 0 ? rc : 0;
    }
    char *uri = uri_of_argument(cli->args[0], err);
    if (!uri) {
        return err->code;
    }
    int rc = l->is_recursive ? tidings_client_walk(client, uri, NULL, list_on_entry, l, err)
                             : tidings_client_children(client, uri, list_on_resource, l, err);
    if (rc == TIDINGS_E_UNSUPPORTED) {
        /* Such a server offers only its list. */
        l->prefix = uri;
        rc = tidings_client_list(client, TIDINGS_LISTING_RESOURCES, list_on_resource, l, err);
    }
    if (rc < 0 && err->code) {
        remote_about(client, uri, err);
    }
    free(uri);
    return rc < 0 ? rc : l->status;
}

/* ---- other lists ----------------------------------------------------------------------------- */

/* The first line of a string. */
static struct tidings_str first_line(const char *text)
{
    return tidings_strn(text, strcspn(text, "\n"));
}

static int list_put_argument(void *user, struct tidings_str key, struct tidings_str value)
{
    const struct tidings_str *required = user;
    char *type = text_at(value, "/type"), *about = text_at(value, "/description");
    char *name = text_at(value, "/name"); /* of a prompt's */
    struct tidings_str shown = key.len > 0 ? key : tidings_str(name);
    char *quoted = tidings_json_quote(key);
    bool is_required = is_true_at(value, "/required") ||
                       (key.len > 0 && quoted && required && strstr(required->ptr, quoted));
    fputs("    ", stdout);
    size_t used = put_text(stdout, shown);
    fputs(is_required ? "*" : " ", stdout);
    put_gap(stdout, used, 20);
    used = put_text(stdout, tidings_str(type));
    put_gap(stdout, used, 10);
    put_text_wrapped(stdout, first_line(about), 4 + 1 + 20 + 10);
    fputc('\n', stdout);
    tidings_free(type);
    tidings_free(about);
    tidings_free(name);
    tidings_free(quoted);
    return go_on();
}

/* The arguments of a tool (by its schema) or of a prompt. */
static void list_put_arguments(struct tidings_str item)
{
    char *required = tidings_json_get(item, "/inputSchema/required");
    struct tidings_str names = tidings_str(required);
    if (tidings_json_each(item, "/inputSchema/properties", list_put_argument, &names) ==
        TIDINGS_E_NOTFOUND) {
        tidings_json_each(item, "/arguments", list_put_argument, NULL);
    }
    tidings_free(required);
}

static void list_put_row(const struct listing *l, const struct list_row *row, size_t column)
{
    put_style(&l->cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, tidings_str(row->name));
    put_style(&l->cli, stdout, STYLE_PLAIN);
    if (used >= column && is_terminal(stdout)) {
        used = column = 4; /* continue on a new line */
        fputs("\n    ", stdout);
    } else {
        put_gap(stdout, used, column);
    }
    put_text_wrapped(stdout, tidings_str(row->text), used > column ? used + 1 : column);
    fputc('\n', stdout);
}

/* Names in one column, as wide as the widest, but at most half of a terminal. */
static void list_put_rows(struct listing *l)
{
    size_t most = is_terminal(stdout) ? output_width(stdout) / 2 : 80, column = 0;
    for (size_t i = 0; i < l->row_count; i++) {
        size_t columns = text_columns(tidings_str(l->rows[i].name)) + 2;
        column = columns > column && columns <= most ? columns : column;
    }
    for (size_t i = 0; i < l->row_count; i++) {
        list_put_row(l, &l->rows[i], column);
        tidings_free(l->rows[i].name);
        free(l->rows[i].text);
    }
    l->row_count = 0;
}

/* Takes `name`. 1: no memory. */
static int list_keep_row(struct listing *l, char *name, struct tidings_str text)
{
    char *copy = strndup(text.ptr ? text.ptr : "", text.len);
    if (!l->rows) {
        l->rows = calloc(LIST_ROWS, sizeof(*l->rows));
    }
    if (!l->rows || !copy || !name) {
        tidings_free(name);
        free(copy);
        return 1;
    }
    l->rows[l->row_count++] = (struct list_row){name, copy};
    if (l->row_count == LIST_ROWS) {
        list_put_rows(l);
    }
    return go_on();
}

static int on_item(void *user, struct tidings_str item)
{
    struct listing *l = user;
    if (l->cli.json) {
        put_json(stdout, item);
        return go_on();
    }
    char *template = tidings_json_string(item, "/uriTemplate");
    char *name = template ? template : text_at(item, "/name");
    char *about = text_at(item, "/description"), *title = text_at(item, "/title");
    struct tidings_str text = first_line(about && *about ? about : title && *title ? title : "");
    int rc = 0;
    if (l->is_long) {
        put_style(&l->cli, stdout, STYLE_NAME);
        put_text(stdout, tidings_str(name));
        put_style(&l->cli, stdout, STYLE_PLAIN);
        fputc('\n', stdout);
        fputs(about && *about ? "    " : "", stdout);
        put_text_wrapped(stdout, tidings_str(about), 4);
        fputs(about && *about ? "\n" : "", stdout);
        list_put_arguments(item);
        tidings_free(name);
        rc = go_on();
    } else {
        rc = list_keep_row(l, name, text);
    }
    tidings_free(about);
    tidings_free(title);
    return rc;
}

static int list_items(struct cli *cli, struct tidings_client *client, enum tidings_listing which,
                      struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    int rc = tidings_client_list(client, which, on_item, cli, err);
    list_put_rows(l);
    free(l->rows);
    return rc < 0 ? rc : 0;
}

static int list_templates(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return list_items(cli, client, TIDINGS_LISTING_TEMPLATES, err);
}

/* Those systems expect an array. */
static int list_on_tool(void *user, struct tidings_str item)
{
    struct listing *l = user;
    fputs(l->count++ == 0 ? "[" : ",\n", stdout);
    put_tool((enum tool_format)l->format, item);
    return go_on();
}

static int list_tools(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    if (l->format == TOOL_FORMAT_MCP) {
        return list_items(cli, client, TIDINGS_LISTING_TOOLS, err);
    }
    int rc = tidings_client_list(client, TIDINGS_LISTING_TOOLS, list_on_tool, cli, err);
    if (rc >= 0) {
        fputs(l->count == 0 ? "[]\n" : "]\n", stdout);
    }
    return rc < 0 ? rc : 0;
}

static int list_prompts(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return list_items(cli, client, TIDINGS_LISTING_PROMPTS, err);
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define LONG(text)                                                                                 \
    {                                                                                              \
        .name = "long", .letter = 'l', .kind = OPTION_FLAG,                                        \
        .offset = offsetof(struct listing, is_long), .help = (text)                                \
    }

static const struct option ls_options[] = {
    LONG("size, time of the last change and type too"),
    {.name = "recursive",
     .letter = 'R',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct listing, is_recursive),
     .help = "everything below the URI, not only its children"},
    {0},
};

static const struct option item_options[] = {
    LONG("the whole description, and the arguments; * marks those that are required"),
    {0},
};

static const struct option tool_options[] = {
    LONG("the whole description, and the arguments; * marks those that are required"),
    {.name = "format",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct listing, format),
     .metavar = "FORMAT",
     .help = "print one JSON array as another system takes it",
     .choices = tool_format_names,
     .value = "mcp"},
    {0},
};

static const struct option template_options[] = {LONG("the whole description"), {0}};

const struct command command_ls = {
    .name = "ls",
    .args = "[URI]",
    .help = "list resources",
    .refused =
        "'tidings ls' without a URI lists what the server has at the top; a path is one of this "
        "machine, from the present directory on",
    .about = "List the resources of a server, or what is below one of them. Where a server cannot "
             "list\nchildren, those of its resources whose URI begins so.\n\n"
             "--json prints the resource objects of the server, one per line.\n",
    .options = ls_options,
    .size = sizeof(struct listing),
    .max_args = 1,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .may_be_asked = true,
    .ask = ls,
};

const struct command command_templates = {
    .name = "templates",
    .help = "list templates of resources",
    .about = "List the URI templates of a server.\n\n"
             "--json prints the template objects of the server, one per line.\n",
    .options = template_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_templates,
};

const struct command command_tools = {
    .name = "tools",
    .help = "list tools",
    .about = "List the tools of a server; 'tidings call' calls one.\n\n"
             "--json prints the tool objects of the server, one per line. --format prints an array "
             "for the\n'tools' of OpenAI (chat completions), Ollama, or Microsoft's agents "
             "(Microsoft.Extensions.AI).\n",
    .options = tool_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_tools,
};

const struct command command_prompts = {
    .name = "prompts",
    .help = "list prompts",
    .about = "List the prompts of a server; 'tidings prompt' gets one.\n\n"
             "--json prints the prompt objects of the server, one per line.\n",
    .options = item_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_prompts,
};
