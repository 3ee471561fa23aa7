// SPDX-License-Identifier: MIT
//
// Tasks (the extension io.modelcontextprotocol/tasks) for a client that can answer their questions.

import assert from 'node:assert/strict';

import { key, meta, modern } from './rpc.mjs';

export const TASKS = 'io.modelcontextprotocol/tasks';
export const _meta = meta({ [key.capabilities]: { elicitation: {}, extensions: { [TASKS]: {} } } });
export const uriOf = (id) => `tidings://tasks/${id}`;
export const say = async (who, method, params = {}) => (await modern(who, method, { _meta, ...params })).json;
export const task = (who, verb, taskId, more = {}) => say(who, `tasks/${verb}`, { taskId, ...more });
export const read = (who, id) => say(who, 'resources/read', { uri: uriOf(id) });

/** Call a tool that becomes a task. Returns its id. */
export async function begin(who, name, args = {}) {
    const { result, error } = await say(who, 'tools/call', { name, arguments: args });
    assert.equal(result?.resultType, 'task', JSON.stringify(error ?? result));
    return result.taskId;
}
