/* SPDX-License-Identifier: MIT
 *
 * Keeps the output schemas of a server's tools and judges results by them.
 */
#include "client/tool_schemas.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/json_text.h"
#include "client/state.h"

#define SCHEMA_COST 7000000u /* of compiling one, in steps: 18 ms */

struct tool_schema {
    char *text;
    struct json_schema *schema; /* NULL: not compiled yet, or … */
    bool is_useless;            /* … it cannot be */
    size_t name_len;
    char name[];
};

struct tool_schemas {
    struct map by_name;
    size_t bytes;
    bool is_listed; /* the whole list was asked for */
};

static void tool_schema_free(struct tool_schema *t)
{
    schema_destroy(t->schema);
    mem_free(t->text);
    mem_free(t);
}

void tool_schemas_forget(struct tidings_client *c)
{
    struct tool_schemas *all = c->tool_schemas;
    struct tool_schema *t;
    size_t at = 0;
    c->tool_schemas = NULL;
    while (all && (t = map_next(&all->by_name, &at)) != NULL) {
        tool_schema_free(t);
    }
    if (all) {
        map_deinit(&all->by_name);
        mem_free(all);
    }
}

static struct tool_schemas *tool_schemas_of(struct tidings_client *c)
{
    if (!c->tool_schemas) {
        c->tool_schemas = mem_zalloc(sizeof(*c->tool_schemas));
        if (c->tool_schemas) {
            map_init(&c->tool_schemas->by_name);
        }
    }
    return c->tool_schemas;
}

static void tool_schemas_drop(struct tool_schemas *all, struct tidings_str name)
{
    struct tool_schema *t = map_find(&all->by_name, name);
    if (t) {
        map_remove(&all->by_name, name);
        all->bytes -= strlen(t->text);
        tool_schema_free(t);
    }
}

void tool_schemas_note(struct tidings_client *c, struct json *tool)
{
    struct tidings_str name = jv_str(jv_get(tool, "name"));
    struct json *output = jv_get(tool, "outputSchema");
    struct tool_schemas *all = tool_schemas_of(c);
    size_t len = 0;
    if (!all || name.len == 0) {
        return;
    }
    tool_schemas_drop(all, name);
    char *text =
        output && all->by_name.count < TOOL_SCHEMAS_MAX ? json_text_of(c, output, &len) : NULL;
    struct tool_schema *t =
        text && len <= TOOL_SCHEMAS_BYTES - all->bytes ? mem_zalloc(sizeof(*t) + name.len) : NULL;
    if (!t) {
        mem_free(text);
        return;
    }
    t->text = text;
    t->name_len = name.len;
    memcpy(t->name, name.ptr, name.len);
    if (map_put(&all->by_name, tidings_strn(t->name, name.len), t, NULL) < 0) {
        tool_schema_free(t);
        return;
    }
    all->bytes += len;
}

void tool_schemas_complete(struct tidings_client *c)
{
    if (tool_schemas_of(c)) {
        c->tool_schemas->is_listed = true;
    }
}

static void tool_schema_compile(struct tool_schema *t)
{
    const struct schema_options options = {.max_cost = SCHEMA_COST};
    struct json *root = NULL;
    t->is_useless = jv_parse_peer(tidings_str(t->text), &root, NULL, NULL) < 0 ||
                    schema_compile(root, &options, &t->schema, NULL) < 0;
    jv_unref(root);
}

enum schema_verdict tool_schemas_judge(struct tidings_client *c, struct tidings_str tool,
                                       struct json *content, struct schema_error *e)
{
    struct tool_schema *t = c->tool_schemas ? map_find(&c->tool_schemas->by_name, tool) : NULL;
    if (t && !t->schema && !t->is_useless) {
        tool_schema_compile(t);
    }
    if (!t || t->is_useless) {
        return SCHEMA_VALID;
    }
    if (!content) {
        *e = (struct schema_error){.text = "there is no structuredContent"};
        return SCHEMA_NOT_VALID;
    }
    uint64_t steps = schema_max_steps(t->schema);
    return schema_judge_within(t->schema, content, e, &steps);
}

bool tool_schemas_is_complete(const struct tidings_client *c)
{
    return c->tool_schemas && c->tool_schemas->is_listed;
}
