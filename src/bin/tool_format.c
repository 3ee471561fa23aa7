/* SPDX-License-Identifier: MIT
 *
 * Converts the object of a tool. The schema of its arguments is left as it is, except that it gets
 * `properties` and `required` if it lacks them, because those systems insist on both.
 */
#include "bin/tool_format.h"

#include <stdio.h>
#include <string.h>

#include <tidings/json.h>

#include "bin/cli/output.h"

#define OPENAI_NAME_MAX 64u

const char *const tool_format_names[] = {"mcp", "openai", "ollama", "ms-agent", NULL};

static void put_member(const char *name, struct tidings_str tool, const char *pointer)
{
    char *text = tidings_json_get(tool, pointer);
    printf("\"%s\":", name);
    put_json_text(stdout, tidings_str(text ? text : "\"\""));
    tidings_free(text);
}

/* Is it there? */
static bool has_at(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    tidings_free(text);
    return text != NULL;
}

static void put_parameters(struct tidings_str tool)
{
    char *schema = tidings_json_get(tool, "/inputSchema");
    struct tidings_str rest = tidings_str(schema && schema[0] == '{' ? schema : "{}");
    rest = tidings_strn(rest.ptr + 1, rest.len - 1);
    fputs("\"parameters\":{", stdout);
    fputs(has_at(tool, "/inputSchema/type") ? "" : "\"type\":\"object\",", stdout);
    fputs(has_at(tool, "/inputSchema/properties") ? "" : "\"properties\":{},", stdout);
    if (!has_at(tool, "/inputSchema/required")) {
        printf("\"required\":[]%s", rest.len > 1 ? "," : "");
    }
    put_json_text(stdout, rest);
    tidings_free(schema);
}

static bool is_openai_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= OPENAI_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

void put_tool(enum tool_format format, struct tidings_str tool)
{
    char *name = tidings_json_string(tool, "/name");
    if (format == TOOL_FORMAT_OPENAI && !is_openai_name(name ? name : "")) {
        fputs("tidings tools: OpenAI does not take the name '", stderr);
        put_text(stderr, tidings_str(name));
        fprintf(stderr, "': 1 to %u of A-Z a-z 0-9 _ -\n", OPENAI_NAME_MAX);
    }
    bool is_wrapped = format != TOOL_FORMAT_MS_AGENT;
    fputs(is_wrapped ? "{\"type\":\"function\",\"function\":{" : "{", stdout);
    put_member("name", tool, "/name");
    fputc(',', stdout);
    put_member("description", tool, "/description");
    fputc(',', stdout);
    put_parameters(tool);
    fputs(is_wrapped ? "}}" : "}", stdout);
    tidings_free(name);
}
