/* SPDX-License-Identifier: MIT
 *
 * The configuration from outside the file: arguments, environment; and the text of --help. Because
 * a higher source wins whatever the order, arguments are read first (they name the file) and the
 * file last.
 */
#include "server/config.h"

#include <stdio.h>

#include <tidings/server.h>

#include "base/error.h"
#include "base/mem.h"
#include "server/config_private.h"

/* ---- environment ----------------------------------------------------------------------------- */

/* Foreign names below our prefix are normal (an orchestrator sets TIDINGS_PORT, a user
 * TIDINGS_HOME), so only what is nearly one of ours is taken for a slip. */
static int judge_foreign(struct tidings_str name, struct tidings_error *err)
{
    if (str_eq(name, STR("TIDINGS_SERVER")) || str_eq(name, STR("TIDINGS_TOKEN")) ||
        str_eq(name, STR("TIDINGS_LAUNCHED"))) {
        return 0; /* of the commands that talk to a server */
    }
    const size_t prefix = sizeof("TIDINGS_") - 1;
    unsigned distance = name.len - prefix <= 6 ? 1 : 2;
    if (!config_nearest(name, CONFIG_AS_VARIABLE, distance)) {
        return 0;
    }
    return config_unknown(name, CONFIG_AS_VARIABLE, "variable", err);
}

static int take_variable(struct config *c, const struct config_row *row, const char *value,
                         struct tidings_error *err)
{
    struct config_origin origin = {CONFIG_ENVIRONMENT, 0};
    struct tidings_str rest = tidings_str(value);
    int rc = 0;
    bool is_json = row->type == CONFIG_RULES || row->type == CONFIG_ACCESS; /* it has commas */
    bool splits = config_is_list(row->type) && !is_json;
    if (!splits) {
        rc = config_assign(c, row, rest, origin, err);
    }
    while (splits && rc == 0 && rest.len > 0) {
        struct tidings_str item = str_trim(str_cut(rest, ',', &rest, NULL), " \t");
        rc = item.len > 0 ? config_assign(c, row, item, origin, err) : 0;
    }
    if (rc < 0) {
        char name[CONFIG_NAME_MAX];
        config_spell(row, CONFIG_AS_VARIABLE, name);
        return error_wrap(err, rc, "%s", name);
    }
    return 0;
}

int config_load_env(struct config *c, char *const *environment, struct tidings_error *err)
{
    for (char *const *e = environment; e && *e; e++) {
        struct tidings_str value;
        struct tidings_str name = str_cut(tidings_str(*e), '=', &value, NULL);
        if (!str_starts(name, STR("TIDINGS_")) || value.len == 0 ||
            str_eq(name, STR("TIDINGS_CONFIG"))) {
            continue;
        }
        const struct config_row *row = config_find(name, CONFIG_AS_VARIABLE);
        int rc = row ? take_variable(c, row, value.ptr, err) : judge_foreign(name, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static const char *environment_find(char *const *environment, struct tidings_str name)
{
    for (char *const *e = environment; e && *e; e++) {
        struct tidings_str value;
        if (str_eq(str_cut(tidings_str(*e), '=', &value, NULL), name) && value.len > 0) {
            return value.ptr;
        }
    }
    return NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct args {
    struct config *config;
    char *const *argv;
    int argc, next;
    const char *file; /* --config */
    bool no_file;     /* --no-config */
};

/* The value of an option: behind '=' or the next argument. */
static int option_value(struct args *a, struct tidings_str name, const char *inline_value,
                        const char **ret, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    if (inline_value) {
        *ret = inline_value;
        return 0;
    }
    if (a->next >= a->argc) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s needs a value", config_quote(name, shown));
    }
    *ret = a->argv[a->next++];
    return 0;
}

/* "--no-name" of a boolean row; NULL: not such a thing. */
static const struct config_row *negated(struct tidings_str name)
{
    if (!str_starts(name, STR("--no-"))) {
        return NULL;
    }
    const struct config_row *row = config_find(str_skip(name, 5), CONFIG_AS_NAME);
    return row && row->type == CONFIG_BOOL ? row : NULL;
}

/* Is the next argument the value of an option that need not have one? What is served are
 * directories, and one that looks like an address is written ./HOST:PORT. */
static bool is_value_next(const struct args *a)
{
    const char *next = a->next < a->argc ? a->argv[a->next] : "";
    return strcmp(next, "path") == 0 || (next[0] != '-' && strchr(next, ':') && !strchr(next, '/'));
}

static int take_option(struct args *a, const char *arg, struct tidings_error *err)
{
    bool has_value;
    struct tidings_str rest;
    struct tidings_str name = str_cut(tidings_str(arg), '=', &rest, &has_value);
    const char *given = has_value ? rest.ptr : NULL;
    const char *value = NULL;
    int rc = 0;
    if (str_eq(name, STR("--config"))) {
        return option_value(a, name, given, &a->file, err);
    }
    if (str_eq(name, STR("--no-config")) && !has_value) {
        a->no_file = true;
        return 0;
    }
    const struct config_row *row = config_find(name, CONFIG_AS_FLAG);
    if (!row && !has_value && (row = negated(name)) != NULL) {
        return config_set(a->config, row->name, "false", CONFIG_FLAG, err);
    }
    if (!row) {
        return config_unknown(name, CONFIG_AS_FLAG, "option", err);
    }
    if (row->type == CONFIG_BOOL) {
        value = given ? given : "true";
    } else if (row->bare && !given && !is_value_next(a)) {
        value = row->bare;
    } else {
        rc = option_value(a, name, given, &value, err);
    }
    return rc < 0 ? rc : config_set(a->config, row->name, value, CONFIG_FLAG, err);
}

static int load_named_file(const struct args *a, char *const *environment,
                           struct tidings_error *err)
{
    const char *variable = environment_find(environment, STR("TIDINGS_CONFIG"));
    if (a->file) {
        int rc = config_load_file(a->config, a->file, TIDINGS_FILE_NAMED, err);
        return rc == TIDINGS_E_NOTFOUND ? error_wrap(err, rc, "--config") : rc;
    }
    if (a->no_file) {
        return 0;
    }
    if (variable) {
        int rc = config_load_file(a->config, variable, TIDINGS_FILE_NAMED, err);
        return rc == TIDINGS_E_NOTFOUND ? error_wrap(err, rc, "TIDINGS_CONFIG") : rc;
    }
    struct tidings_error why = {0};
    int rc = config_load_file(a->config, CONFIG_FILE_NAME, TIDINGS_FILE_FOUND, &why);
    if (rc == TIDINGS_E_NOTFOUND && !a->config->file) {
        return 0;
    }
    if (rc == TIDINGS_E_DENIED && !a->config->file) { /* going on would be another server */
        error_wrap(&why, rc, "found here, but not named by --config (--no-config reads none)");
    }
    if (rc < 0 && err) {
        *err = why;
    }
    return rc;
}

int config_args(struct config *c, int argc, char *const *argv, char *const *environment,
                struct tidings_error *err)
{
    struct args a = {.config = c, .argv = argv, .argc = argc};
    bool only_directories = false;
    while (a.next < a.argc) {
        const char *arg = a.argv[a.next++];
        int rc = 0;
        if (!only_directories && strcmp(arg, "--") == 0) {
            only_directories = true;
        } else if (!only_directories && arg[0] == '-' && arg[1] != '\0') {
            rc = take_option(&a, arg, err);
        } else {
            rc = config_add_dir(c, arg, CONFIG_FLAG, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    int rc = config_load_env(c, environment, err);
    if (rc == 0) {
        rc = load_named_file(&a, environment, err);
    }
    rc = rc < 0 ? rc : config_mount_skills(c, err);
    return rc < 0 ? rc : config_check(c, err);
}
