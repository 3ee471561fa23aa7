/* SPDX-License-Identifier: MIT
 *
 * Root reads and writes files of all users by capabilities. Reading is kept where directories are
 * served, as any user may own their files; writing only if the directory of the store or of a
 * socket is not root's own. Ports below 1024 are bound after the others are given up.
 */
#include "server/rights.h"

#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "provider/command.h"
#include "server/config.h"

#define PRIVILEGED_PORTS 1024u
#define ALL_RIGHTS UINT64_MAX

/* True if we own it and its mode lets us write. A missing file: true. */
static bool rights_is_own(const char *path)
{
    struct stat st;
    mode_t wanted = S_IRUSR | S_IWUSR;
    if (stat(path, &st) < 0) {
        return true;
    }
    wanted |= S_ISDIR(st.st_mode) ? S_IXUSR : 0u;
    return st.st_uid == geteuid() && (st.st_mode & wanted) == wanted;
}

static bool rights_is_folder_own(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash ? (int)(slash - path) + 1 : 1;
    return (size_t)snprintf(folder, sizeof folder, "%.*s", len, slash ? path : ".") <
               sizeof folder &&
           rights_is_own(folder);
}

/* SQLite gives what it makes beside a file to the owner of that. */
static uint64_t rights_to_store(const struct config *c)
{
    const char *store = config_store(c);
    bool is_file = store && !config_store_is_shared(c) && strcmp(store, ":memory:") != 0;
    return !is_file || (rights_is_folder_own(store) && rights_is_own(store))
               ? 0
               : CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_CHOWN);
}

static uint64_t rights_to_sockets(const struct config *c)
{
    const struct config_list *paths[] = {&c->unix_sockets, &c->http_unix};
    uint64_t rights = 0;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < paths[k]->count; i++) {
            rights |= rights_is_folder_own(paths[k]->items[i]) ? 0 : CAPABILITY(CAP_DAC_OVERRIDE);
        }
    }
    return rights;
}

static uint64_t rights_to_bind(const char *address)
{
    struct config_address a;
    bool is_privileged = address && config_parse_address(tidings_str(address), &a, NULL) == 0 &&
                         a.port > 0 && a.port < PRIVILEGED_PORTS;
    return is_privileged ? CAPABILITY(CAP_NET_BIND_SERVICE) : 0;
}

uint64_t rights_of_server(const struct config *c, bool serves_http)
{
    uint64_t rights = rights_to_store(c) | rights_to_sockets(c) | rights_to_bind(c->metrics);
    if (serves_http && c->http.port > 0 && c->http.port < PRIVILEGED_PORTS) {
        rights |= CAPABILITY(CAP_NET_BIND_SERVICE);
    }
    for (size_t i = 0; i < c->tcp.count; i++) {
        rights |= rights_to_bind(c->tcp.items[i]);
    }
    for (size_t i = 0; i < c->mount_count; i++) {
        rights |= c->mounts[i].path ? CAPABILITY(CAP_DAC_READ_SEARCH) : 0;
    }
    return rights;
}

uint64_t rights_of_helper(const struct config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        if (c->mounts[i].ops == &provider_command_ops) {
            return ALL_RIGHTS; /* commands run with the rights of the operator */
        }
    }
    bool has_log = c->log_file[0] != '\0' || c->access_log_file[0] != '\0';
    return CAPABILITY(CAP_DAC_READ_SEARCH) | (has_log ? CAPABILITY(CAP_DAC_OVERRIDE) : 0);
}
