/* SPDX-License-Identifier: MIT
 *
 * `tidings servers`: the names by which servers are known here.
 */
#include <stdlib.h>

#include "output.h"
#include "target.h"

#define SEEN_MAX 1000u

struct listing {
    const struct cli *cli;
    char *seen[SEEN_MAX]; /* names told: a later one is hidden */
    size_t count;
};

static bool is_seen(struct listing *l, struct tidings_str name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (tidings_str_eq(tidings_str(l->seen[i]), name)) {
            return true;
        }
    }
    if (l->count < SEEN_MAX && (l->seen[l->count] = strndup(name.ptr, name.len)) != NULL) {
        l->count++;
    }
    return false;
}

/* A name that no shell takes for anything else: what --quiet prints goes into scripts. */
static bool is_plain(struct tidings_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return name.len > 0 && name.ptr[0] != '-';
}

static void show(void *user, const char *path, struct tidings_str name, const char *kind,
                 struct tidings_str what)
{
    struct listing *l = user;
    if (is_seen(l, name) || (l->cli->quiet && !l->cli->json && !is_plain(name))) {
        return;
    }
    if (l->cli->json) {
        fputs("{\"name\":", stdout);
        put_quoted(stdout, name);
        printf(",\"%s\":", kind);
        put_quoted(stdout, what);
        fputs(",\"file\":", stdout);
        put_quoted(stdout, tidings_str(path));
        fputs("}\n", stdout);
        return;
    }
    put_style(l->cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, name);
    put_style(l->cli, stdout, STYLE_PLAIN);
    if (!l->cli->quiet) {
        put_gap(stdout, used, 18);
        used = put_text(stdout, what);
        put_gap(stdout, used, 44);
        put_style(l->cli, stdout, STYLE_DIM);
        put_text(stdout, tidings_str(path));
        put_style(l->cli, stdout, STYLE_PLAIN);
    }
    fputc('\n', stdout);
}

static int run(struct cli *cli)
{
    struct listing *l = calloc(1, sizeof(*l));
    if (!l) {
        return tidings_code_exit(TIDINGS_E_NOMEM);
    }
    l->cli = cli;
    target_each("servers", show, l);
    if (l->count == 0 && !cli->quiet) {
        fputs("tidings servers: none; 'tidings help servers' says where names come from\n", stderr);
    }
    for (size_t i = 0; i < l->count; i++) {
        free(l->seen[i]);
    }
    free(l);
    return output_finish("servers");
}

const struct command command_servers = {
    .name = "servers",
    .help = "list the servers that are known by name",
    .about =
        "List the names that may stand for SERVER, what each stands for, and the file that says "
        "so:\n\n"
        "  ~/.config/tidings/servers.json   (or in $XDG_CONFIG_HOME) your own\n"
        "  .mcp.json, .vscode/mcp.json      the project's: in this directory and those above it, "
        "up to\n"
        "                                   the one with .git, or your home\n\n"
        "They hold {\"mcpServers\": {NAME: …}} or {\"servers\": {NAME: …}}, each with 'command', "
        "'args',\n'env', 'cwd', or with 'url', 'headers'. ${VAR}, ${VAR:-text} and ${env:VAR} are "
        "replaced.\nYour own names win. Nothing is launched but what you name; files of "
        "others,\nor that others can write, are not used.\n\n"
        "--quiet prints the names alone, for scripts: those of letters, digits, '.', '_' and '-'.\n"
        "--json prints one object per line: name, url or command, file.\n",
    .run = run,
};
