/* SPDX-License-Identifier: MIT
 *
 * The table of all commands, in the order in which the help shows them.
 */
#include <stddef.h>

#include "bin/cli/command.h"

extern const struct command command_serve, command_config, command_token, command_read,
    command_tail, command_watch, command_sync, command_ls, command_tree, command_stat,
    command_templates, command_complete, command_tools, command_call, command_prompts,
    command_prompt, command_publish, command_notify, command_entity, command_entity_get,
    command_entity_at, command_entity_put, command_entity_patch, command_entity_rm,
    command_entity_undelete, command_entity_log, command_entity_types, command_entity_add_type,
    command_probe, command_bench, command_servers, command_completions, command_help,
    command_version, command_info, command_request, command_store, command_store_copy,
    command_status, command_top, command_peers, command_kick, command_limits;

const struct command *const commands[] = {
    &command_serve,
    &command_config,
    &command_token,
    &command_read,
    &command_tail,
    &command_watch,
    &command_sync,
    &command_info,
    &command_ls,
    &command_tree,
    &command_stat,
    &command_templates,
    &command_complete,
    &command_tools,
    &command_call,
    &command_prompts,
    &command_prompt,
    &command_request,
    &command_publish,
    &command_notify,
    &command_entity,
    &command_entity_get,
    &command_entity_at,
    &command_entity_put,
    &command_entity_patch,
    &command_entity_rm,
    &command_entity_undelete,
    &command_entity_log,
    &command_entity_types,
    &command_entity_add_type,
    &command_status,
    &command_top,
    &command_peers,
    &command_kick,
    &command_limits,
    &command_probe,
    &command_bench,
    &command_store,
    &command_store_copy,
    &command_servers,
    &command_completions,
    &command_help,
    &command_version,
    NULL,
};
