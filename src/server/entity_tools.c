/* SPDX-License-Identifier: MIT
 *
 * Registers the tools that write entities, with their descriptions and schemas.
 */
#include "server/entity_tools.h"

#include <tidings/tool.h>

#include "base/error.h"
#include "server/entity_call.h"

#define TEXT_PROPERTY(name, about)                                                                 \
    "\"" name "\":{\"type\":\"string\",\"description\":\"" about "\"}"
#define TIME_PROPERTY(name, about)                                                                 \
    "\"" name "\":{\"type\":\"string\",\"description\":\"" about                                   \
    ", RFC 3339 such as 2024-01-01T10:00:00.000Z\"}"
#define VERSION "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":0}]}"
#define TARGET                                                                                     \
    TEXT_PROPERTY("uri",                                                                           \
                  "the entity: entity:///{type}@{version}/{id} or /entity/…; or name it by "     \
                  "entityId")                                                                      \
    "," TEXT_PROPERTY("entityId", "its id") "," TEXT_PROPERTY(                                     \
        "entityTypeName", "its type") ",\"entityTypeVersion\":" VERSION
#define CHANGED_BY                                                                                 \
    "\"changedBy\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":16,\"description\":\"who, "     \
    "anonymous when absent\",\"items\":{\"type\":\"object\",\"properties\":{\"userId\":{\"type\":" \
    "\"string\"},\"impersonatedBy\":{\"type\":\"string\"}},\"required\":[\"userId\"],"             \
    "\"additionalProperties\":false}}"
#define BASELINE TIME_PROPERTY("baseline", "validFrom of the version this starts from")
#define ORIGIN                                                                                     \
    "\"origin\":{\"type\":\"string\",\"maxLength\":256,\"description\":\"subscriptions with this " \
    "origin and echo false do not hear of it\"}"
#define ONCE                                                                                       \
    "\"idempotencyKey\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":512,\"description\":"   \
    "\"the same request with the same key gives the first result again\"}"
#define UPSERT                                                                                     \
    TARGET                                                                                         \
    ",\"value\":{\"description\":\"the whole value\"},\"patch\":{\"type\":\"object\","             \
    "\"description\":\"or a merge patch (RFC 7396); needs baseline\"}," BASELINE ","               \
    "\"onConflict\":{\"enum\":[\"fail\",\"rebase\"],\"description\":\"rebase: apply the "          \
    "patch to what is current\"},\"ifAbsent\":{\"type\":\"boolean\",\"description\":\"only "       \
    "where nothing is\"},\"parentId\":{\"type\":[\"string\",\"null\"]}," CHANGED_BY                \
    "," TIME_PROPERTY("validFrom", "when it begins, now when absent") "," TIME_PROPERTY(           \
        "validTo", "only with validFrom and after it; it ends when the next version begins")
#define MARK TARGET "," BASELINE "," CHANGED_BY
#define OBJECT(properties, more)                                                                   \
    "{\"type\":\"object\",\"properties\":{" properties "}" more ",\"additionalProperties\":false}"

#define SNAPSHOT                                                                                   \
    "\"entityId\":{\"type\":\"string\"},\"validFrom\":{\"type\":\"string\"},\"validTo\":{"         \
    "\"type\":\"string\"},\"changedBy\":{\"type\":\"array\"},\"principal\":{\"type\":\"object\"}," \
    "\"deleted\":{\"type\":\"boolean\"},"                                                          \
    "\"parentId\":{\"type\":[\"string\",\"null\"]},\"entityTypeName\":{\"type\":\"string\"},"      \
    "\"entityTypeVersion\":{\"type\":\"string\"},\"value\":{}"
#define WRITTEN                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},\"uri\":{\"type\":"         \
    "\"string\"},\"newValidFrom\":{\"type\":\"string\"},\"changed\":{\"type\":\"boolean\"},"       \
    "\"replayed\":{\"const\":true}," SNAPSHOT                                                      \
    "},\"required\":[\"success\",\"uri\",\"entityId\",\"validFrom\",\"newValidFrom\","             \
    "\"validTo\",\"deleted\",\"value\",\"changed\"]}"

#define SCHEMA(literal)                                                                            \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const struct {
    struct tidings_tool about;
    tidings_call_fn handler;
} tools[] = {
    {{.name = SCHEMA("add-entity-type"),
      .title = SCHEMA("Add a type of entities"),
      .description = SCHEMA("Registers a type, or a new version of one, with the JSON Schema its "
                            "entities obey"),
      .input_schema = SCHEMA(OBJECT(
          TEXT_PROPERTY(
              "name",
              "letters, digits, - and _") ",\"version\":" VERSION
                                          ",\"jsonSchema\":{\"type\":\"object\"}," TEXT_PROPERTY(
                                              "description",
                                              "for people") ",\"options\":{\"type\":\"object\","
                                                            "\"description\":\"history, "
                                                            "debounceMs, maxAgeMs, "
                                                            "maxVersions\"}," ORIGIN,
          ",\"required\":[\"name\",\"version\",\"jsonSchema\"]")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},"
                              "\"name\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"},"
                              "\"message\":{\"type\":\"string\"}},\"required\":[\"success\","
                              "\"name\",\"version\",\"message\"]}"),
      .annotations = SCHEMA("{\"destructiveHint\":false,\"openWorldHint\":false}")},
     entity_call_add_type},
    {{.name = SCHEMA("upsert-entity"),
      .title = SCHEMA("Create or change an entity"),
      .description = SCHEMA("Writes a new version of an entity, from a whole value or a merge "
                            "patch; nothing is written when nothing changes"),
      .input_schema = SCHEMA(OBJECT(UPSERT "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":false,"
                            "\"openWorldHint\":false}")},
     entity_call_upsert},
    {{.name = SCHEMA("delete-entity"),
      .title = SCHEMA("Delete an entity"),
      .description = SCHEMA("Writes a version that says it is deleted; its history stays"),
      .input_schema = SCHEMA(OBJECT(MARK "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":true,"
                            "\"openWorldHint\":false}")},
     entity_call_delete},
    {{.name = SCHEMA("undelete-entity"),
      .title = SCHEMA("Undelete an entity"),
      .description = SCHEMA("Brings a deleted entity back with its last value"),
      .input_schema = SCHEMA(OBJECT(MARK "," ORIGIN "," ONCE, "")),
      .output_schema = SCHEMA(WRITTEN),
      .annotations = SCHEMA("{\"idempotentHint\":true,\"destructiveHint\":false,"
                            "\"openWorldHint\":false}")},
     entity_call_undelete},
    {{.name = SCHEMA("get-entity-history"),
      .title = SCHEMA("The versions of an entity"),
      .description = SCHEMA("All versions, oldest first, also those that say it is deleted"),
      .input_schema = SCHEMA(OBJECT(
          TARGET "," TIME_PROPERTY(
              "from",
              "the first validFrom wanted") ",\"limit\":{\"type\":\"integer\",\"minimum\":1,"
                                            "\"maximum\":1000},"
                                            "\"values\":{\"type\":\"boolean\",\"description\":"
                                            "\"with their values, the default\"}",
          "")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"entityId\":{\"type\":"
                              "\"string\"},\"versions\":{\"type\":\"array\",\"items\":{\"type\":"
                              "\"object\",\"properties\":{" SNAPSHOT "}}},\"next\":{\"type\":"
                              "\"string\"}},\"required\":[\"entityId\",\"versions\"]}"),
      .annotations = SCHEMA("{\"readOnlyHint\":true,\"openWorldHint\":false}")},
     entity_call_history},
    {{.name = SCHEMA("transact"),
      .title = SCHEMA("Write several entities at once"),
      .description = SCHEMA("All operations or none; a repeated idempotencyKey gives the first "
                            "result again"),
      .input_schema = SCHEMA(OBJECT(
          "\"operations\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":" OBJECT(
              "\"op\":{\"enum\":[\"upsert\",\"delete\",\"undelete\"]}," UPSERT,
              ",\"required\":[\"op\"]") ",\"description\":\"each entity at most once\"}," ONCE
                                        "," ORIGIN,
          ",\"required\":[\"operations\"]")),
      .output_schema = SCHEMA("{\"type\":\"object\",\"properties\":{\"success\":{\"const\":true},"
                              "\"replayed\":{\"type\":\"boolean\"},\"results\":{\"type\":\"array\","
                              "\"items\":" WRITTEN "}},\"required\":[\"success\",\"replayed\","
                              "\"results\"]}"),
      .annotations = SCHEMA("{\"destructiveHint\":true,\"openWorldHint\":false}")},
     entity_call_transact},
};

#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

static void remove_first(struct tidings_server *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)tidings_server_remove_tool(s, tools[i].about.name, NULL);
    }
}

int entity_tools_add(struct tidings_server *s, struct tidings_provider *entities,
                     struct tidings_error *err)
{
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        int rc = tidings_server_add_tool(s, &tools[i].about, tools[i].handler, entities, err);
        if (rc < 0) {
            remove_first(s, i);
            return error_wrap(err, rc, "entities");
        }
    }
    return 0;
}

void entity_tools_remove(struct tidings_server *s)
{
    remove_first(s, TOOL_COUNT);
}
