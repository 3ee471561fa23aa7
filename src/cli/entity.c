/* SPDX-License-Identifier: MIT
 *
 * `tidings entity …`: typed entities of a tidings server and their history, through its resources
 * and tools. An entity is given by its URI, or by the part after entity:///, "User@1.0/ann".
 */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "cli/answer.h"
#include "cli/call.h"
#include "cli/output.h"
#include "cli/range.h"
#include "cli/remote.h"

struct entity {
    struct cli cli;
    bool is_new;
    const char *baseline, *parent, *user, *origin, *once, *valid_from; /* of writes */
    const char *since;                                                 /* get */
    const char *from;                                                  /* log */
    uint64_t limit;
    const char *about, *keeping; /* add-type */
};

static const char root[] = "entity:///";

/* The URI of an entity with a suffix; free it. NULL: no memory. */
static char *entity_uri_of(const char *entity, const char *behind)
{
    bool is_whole = strncmp(entity, "entity:", 7) == 0 || entity[0] == '/';
    size_t size = sizeof(root) + strlen(entity) + strlen(behind);
    char *uri = malloc(size);
    if (uri) {
        snprintf(uri, size, "%s%s%s", is_whole ? "" : root, entity, behind);
    }
    return uri;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The JSON content of the resource; tidings_free it. NULL with `err`. */
static char *read_json(struct tidings_client *client, const char *uri, struct tidings_error *err)
{
    char *result = tidings_client_read(client, uri, err);
    char *text = result ? text_at(tidings_str(result), "/contents/0/text") : NULL;
    char *json = text ? tidings_json_get(tidings_str(text), "") : NULL;
    if (result && !json) {
        tidings_fail(err, TIDINGS_E_PARSE, "%.120s: the content is not JSON", uri);
    }
    tidings_free(result);
    tidings_free(text);
    return json;
}

/* Prints its value or patch, or the whole object with --json. */
static int entity_show(struct cli *cli, struct tidings_client *client, const char *behind,
                       struct tidings_error *err)
{
    char *uri = entity_uri_of(cli->args[0], behind);
    char *json = uri ? read_json(client, uri, err) : NULL;
    if (!uri) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (json && cli->json) {
        put_json(stdout, tidings_str(json));
    } else if (json) {
        char *value = tidings_json_get(tidings_str(json), "/patch");
        if (!value) {
            value = tidings_json_get(tidings_str(json), "/value");
        }
        put_pretty(stdout, tidings_str(value ? value : json));
        tidings_free(value);
    }
    int rc = json ? 0 : err->code;
    tidings_free(json);
    free(uri);
    return rc;
}

static int entity_get(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const char *since = ((struct entity *)cli)->since;
    char behind[128] = "";
    if (since) {
        snprintf(behind, sizeof(behind), "/patch/%.100s", since);
    }
    return entity_show(cli, client, behind, err);
}

static int entity_at(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    char behind[128];
    snprintf(behind, sizeof(behind), "/at/%.100s", cli->args[1]);
    return entity_show(cli, client, behind, err);
}

static int entity_print_type(void *user, struct tidings_str key, struct tidings_str type)
{
    const struct cli *cli = user;
    (void)key;
    if (cli->json) {
        put_json(stdout, type);
        return 0;
    }
    char *name = text_at(type, "/name"), *version = text_at(type, "/version");
    char *about = text_at(type, "/description");
    put_style(cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, tidings_str(name)) + 1;
    fputc('@', stdout);
    used += put_text(stdout, tidings_str(version));
    put_style(cli, stdout, STYLE_PLAIN);
    if (about && *about) {
        put_gap(stdout, used, 22);
        put_text(stdout, tidings_str(about));
    }
    fputc('\n', stdout);
    tidings_free(name);
    tidings_free(version);
    tidings_free(about);
    return 0;
}

static int types(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    char *json = read_json(client, "entity:///types", err);
    if (json) {
        tidings_json_each(tidings_str(json), "", entity_print_type, cli);
    }
    int rc = json ? 0 : err->code;
    tidings_free(json);
    return rc;
}

/* ---- history --------------------------------------------------------------------------------- */

static int put_user(void *user, struct tidings_str key, struct tidings_str value)
{
    char *id = text_at(value, "/userId");
    (void)user;
    (void)key;
    fputc(' ', stdout);
    put_text(stdout, tidings_str(id));
    tidings_free(id);
    return 0;
}

static int entity_print_version(void *user, struct tidings_str key, struct tidings_str version)
{
    const struct cli *cli = user;
    (void)key;
    if (cli->json) {
        put_json(stdout, version);
        return ferror(stdout) ? 1 : 0;
    }
    char *from = text_at(version, "/validFrom");
    char *value = tidings_json_get(version, "/value");
    bool is_deleted = is_true_at(version, "/deleted");
    put_text(stdout, tidings_str(from));
    tidings_json_each(version, "/changedBy", put_user, NULL);
    fputs(is_deleted ? " deleted\n" : " ", stdout);
    if (!is_deleted) {
        put_json(stdout, tidings_str(value));
    }
    tidings_free(from);
    tidings_free(value);
    return ferror(stdout) ? 1 : 0;
}

/* One page; the `from` of the next, tidings_free it, or NULL. */
static int log_page(struct cli *cli, struct tidings_client *client, const char *uri, char **from,
                    uint64_t *waited_ms, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    struct json_text t;
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(uri));
    if (*from) {
        fputs(",\"from\":", t.out);
        put_quoted(t.out, tidings_str(*from));
    }
    if (e->limit > 0) {
        fprintf(t.out, ",\"limit\":%u", (unsigned)e->limit);
    }
    fputc('}', t.out);
    tidings_free(*from);
    *from = NULL;
    char *arguments = json_text_take(&t);
    if (!arguments) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *answer = NULL;
    uint64_t began = now_ms();
    int rc = tool_ask(cli, client, "get-entity-history", arguments, &answer, err);
    *waited_ms += now_ms() - began;
    free(arguments);
    if (rc != 0) {
        return rc;
    }
    tidings_json_each(tidings_str(answer), "/versions", entity_print_version, cli);
    *from = tidings_json_string(tidings_str(answer), "/next");
    tidings_free(answer);
    return 0;
}

static int entity_log(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    char *uri = entity_uri_of(cli->args[0], "");
    char *quoted = e->from ? tidings_json_quote(tidings_str(e->from)) : NULL;
    char *from = quoted ? tidings_json_string(tidings_str(quoted), "") : NULL;
    int rc = uri ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    struct pages pages = {0};
    do {
        rc = rc == 0 ? log_page(cli, client, uri, &from, &pages.waited_ms, err) : rc;
        rc = rc == 0 && from ? pages_next(&pages, from, cli->timeout_ms, err) : rc;
    } while (rc == 0 && from && e->limit == 0 && !ferror(stdout));
    pages_deinit(&pages);
    if (rc == 0 && from && e->limit > 0 && !cli->quiet) {
        fputs("tidings entity log: more begin at ", stderr);
        put_text(stderr, tidings_str(from));
        fputc('\n', stderr);
    }
    tidings_free(from);
    tidings_free(quoted);
    free(uri);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void entity_put_member(FILE *out, const char *name, const char *value)
{
    if (value) {
        fprintf(out, ",\"%s\":", name);
        put_quoted(out, tidings_str(value));
    }
}

/* The common part of all writes, with `more` appended. */
static int write_entity(struct cli *cli, struct tidings_client *client, const char *tool,
                        const char *more, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    struct json_text t;
    char *uri = entity_uri_of(cli->args[0], "");
    if (!uri || !json_text_begin(&t)) {
        free(uri);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(uri));
    entity_put_member(t.out, "baseline", e->baseline);
    entity_put_member(t.out, "origin", e->origin);
    entity_put_member(t.out, "idempotencyKey", e->once);
    entity_put_member(t.out, "parentId", e->parent);
    entity_put_member(t.out, "validFrom", e->valid_from);
    if (e->user) {
        fputs(",\"changedBy\":[{\"userId\":", t.out);
        put_quoted(t.out, tidings_str(e->user));
        fputs("}]", t.out);
    }
    fprintf(t.out, "%s}", more);
    free(uri);
    char *arguments = json_text_take(&t);
    char *answer = NULL;
    int rc = arguments ? tool_ask(cli, client, tool, arguments, &answer, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (answer && cli->json) {
        put_json(stdout, tidings_str(answer));
    } else if (answer && !cli->quiet) {
        char *from = text_at(tidings_str(answer), "/validFrom");
        put_text(stdout, tidings_str(from));
        puts(is_true_at(tidings_str(answer), "/changed") ? "" : " (it was so already)");
        tidings_free(from);
    }
    tidings_free(answer);
    free(arguments);
    return rc;
}

/* With the second argument as `member`. */
static int entity_write_value(struct cli *cli, struct tidings_client *client, const char *member,
                              const char *more, struct tidings_error *err)
{
    struct json_text t;
    char *json = input_json(cli->arg_count > 1 ? cli->args[1] : "-", err);
    if (!json) {
        return err->code;
    }
    int rc = TIDINGS_E_NOMEM;
    if (json_text_begin(&t)) {
        fprintf(t.out, ",\"%s\":%s%s", member, json, more);
        char *text = json_text_take(&t);
        rc = text ? write_entity(cli, client, "upsert-entity", text, err) : rc;
        free(text);
    }
    tidings_free(json);
    return rc;
}

static int entity_put(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    return entity_write_value(cli, client, "value", e->is_new ? ",\"ifAbsent\":true" : "", err);
}

static int patch(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    return entity_write_value(cli, client, "patch", e->baseline ? "" : ",\"onConflict\":\"rebase\"",
                              err);
}

static int rm(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return write_entity(cli, client, "delete-entity", "", err);
}

static int undelete(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return write_entity(cli, client, "undelete-entity", "", err);
}

static int add_type(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct entity *e = (const struct entity *)cli;
    const char *sign = strrchr(cli->args[0], '@');
    struct json_text t;
    if (!sign) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a type is NAME@VERSION, not '%.80s'",
                            cli->args[0]);
    }
    char *schema = input_json(cli->arg_count > 1 ? cli->args[1] : "-", err);
    if (!schema || !json_text_begin(&t)) {
        tidings_free(schema);
        return err->code ? err->code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"name\":", t.out);
    put_quoted(t.out, tidings_strn(cli->args[0], (size_t)(sign - cli->args[0])));
    entity_put_member(t.out, "version", sign + 1);
    entity_put_member(t.out, "description", e->about);
    fprintf(t.out, ",\"jsonSchema\":%s%s%s}", schema, e->keeping ? ",\"options\":" : "",
            e->keeping ? e->keeping : "");
    char *text = json_text_take(&t);
    char *arguments = text ? tidings_json_compact(tidings_str(text), err) : NULL;
    char *answer = NULL;
    int rc =
        arguments ? tool_ask(cli, client, "add-entity-type", arguments, &answer, err) : err->code;
    if (answer && cli->json) {
        put_json(stdout, tidings_str(answer));
    } else if (answer && !cli->quiet) {
        char *said = text_at(tidings_str(answer), "/message");
        put_text(stdout, tidings_str(said));
        fputc('\n', stdout);
        tidings_free(said);
    }
    tidings_free(answer);
    tidings_free(arguments);
    free(text);
    tidings_free(schema);
    return rc;
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define TEXT(n, member, mv, h)                                                                     \
    {                                                                                              \
        .name = (n), .kind = OPTION_TEXT, .offset = offsetof(struct entity, member),               \
        .metavar = (mv), .help = (h)                                                               \
    }
#define MARK                                                                                       \
    TEXT("baseline", baseline, "INSTANT", "only if the version that begins there is current"),     \
        TEXT("changed-by", user, "USER", "who changes it"),                                        \
        TEXT("origin", origin, "TEXT", "subscriptions with this origin are not notified"),         \
        TEXT("idempotency-key", once, "TEXT", "repeated, it gives the first result again")
#define UPSERT                                                                                     \
    MARK, TEXT("parent", parent, "ID", "the entity it belongs to"),                                \
        TEXT("valid-from", valid_from, "INSTANT", "when the version begins (default now)")

static const struct option get_options[] = {
    TEXT("since", since, "INSTANT", "the patch from the version that begins there instead"),
    {0},
};
static const struct option put_options[] = {
    UPSERT,
    {.name = "if-absent",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct entity, is_new),
     .help = "only where nothing is"},
    {0},
};
static const struct option patch_options[] = {UPSERT, {0}};
static const struct option mark_options[] = {MARK, {0}};
static const struct option log_options[] = {
    TEXT("from", from, "INSTANT", "from the version that begins there on"),
    {.name = "limit",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct entity, limit),
     .metavar = "N",
     .help = "maximum (default: all)",
     .min = 1,
     .max = 1000},
    {0},
};
static const struct option type_options[] = {
    TEXT("description", about, "TEXT", "description for people"),
    TEXT("options", keeping, "JSON", "history, debounceMs, maxAgeMs, maxVersions"),
    {0},
};

#define ROW(n, a, least, most, h, o, f)                                                            \
    .name = (n), .args = (a), .min_args = (least), .max_args = (most), .help = (h),                \
    .options = (o), .size = sizeof(struct entity), .has_target = true, .ask = (f)

const struct command command_entity = {
    .name = "entity",
    .help = "read and write typed entities with their history",
    .about = "Entities of a tidings server (tidings serve --entities FILE). An ENTITY is its URI, "
             "or what is\nbehind entity:///, as User@1.0/ann. JSON is given as it is, as @FILE, or "
             "on standard input as -,\nwhich is also meant when it is left out.\n",
};
const struct command command_entity_get = {
    ROW("entity get", "ENTITY", 1, 1, "print the current value", get_options, entity_get),
    .about = "Print the value of an entity.\n\n--json prints all of the version: entityId, "
             "validFrom, validTo, changedBy, value, …\n",
};
const struct command command_entity_at = {
    ROW("entity at", "ENTITY INSTANT", 2, 2, "print the value it had", NULL, entity_at),
    .about = "Print the value an entity had at an instant, as 2026-07-28T10:00:00Z.\n\n--json "
             "prints all of the version.\n",
};
const struct command command_entity_put = {
    ROW("entity put", "ENTITY [VALUE|@FILE|-]", 1, 2, "write a value", put_options, entity_put),
    .about = "Write a new version of an entity with this value, JSON. Prints when it begins.\n\n"
             "--json prints the version.\n",
};
const struct command command_entity_patch = {
    ROW("entity patch", "ENTITY [PATCH|@FILE|-]", 1, 2, "change a value by a merge patch",
        patch_options, patch),
    .about = "Apply a merge patch (RFC 7396) to an entity: to the current version, or with "
             "--baseline only\nif that one is current. Prints when the new version begins.\n\n"
             "--json prints the version.\n",
};
const struct command command_entity_rm = {
    ROW("entity rm", "ENTITY", 1, 1, "delete an entity; its history stays", mark_options, rm),
    .about = "Write a version that says that the entity is deleted. Prints when it begins.\n\n"
             "--json prints the version.\n",
};
const struct command command_entity_undelete = {
    ROW("entity undelete", "ENTITY", 1, 1, "bring a deleted entity back", mark_options, undelete),
    .about = "Bring a deleted entity back with its last value. Prints when the version begins.\n\n"
             "--json prints the version.\n",
};
const struct command command_entity_log = {
    ROW("entity log", "ENTITY", 1, 1, "print its versions", log_options, entity_log),
    .about = "Print all versions of an entity, the oldest first: when each began, who made it, "
             "its value.\n\n--json prints a version per line.\n",
};
const struct command command_entity_types = {
    ROW("entity types", NULL, 0, 0, "list the types", NULL, types),
    .about = "List the types of entities.\n\n--json prints a type per line, with its schema.\n",
};
const struct command command_entity_add_type = {
    ROW("entity add-type", "NAME@VERSION [SCHEMA|@FILE|-]", 1, 2, "add a type with its schema",
        type_options, add_type),
    .about = "Add a type of entities, or a new version of one, with the JSON Schema that their "
             "values obey.\n\n--json prints the answer of the tool.\n",
};
