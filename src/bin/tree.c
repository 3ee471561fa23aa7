/* SPDX-License-Identifier: MIT
 *
 * `tidings tree`: resources as a drawing. Below a URI the server is asked for children of children
 * (no resource is entered twice); without one its list is drawn by the segments of the URIs.
 */
#include <stddef.h>
#include <stdlib.h>

#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"

#define DEPTH_MAX 64u
#define NODES_MAX 200000u

struct node {
    char *label;
    const char *note; /* behind it; NULL: none */
    uint32_t depth;   /* from 1 on */
    bool is_last;     /* of its siblings */
};

struct tree {
    struct cli cli;
    uint64_t max_depth; /* 0: as deep as it goes */
    struct node *nodes;
    size_t count, room;
    char **uris; /* without a URI: all, to be sorted */
    size_t uri_count, uri_room;
};

/* Room for one more; false: no memory. */
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

/* False: there are too many, or no memory. */
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

/* The segments that the URI before it did not have. */
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
    .about = "Draw what is below a URI, or all resources of a server. What can be reached twice is "
             "shown\nonce.\n\n"
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
