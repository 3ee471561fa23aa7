// SPDX-License-Identifier: MIT
//
// A password in a store URL appears nowhere: not in `tidings config`, messages, log lines, server resources or the
// process list.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Postgres, skip } from './lib/postgres.mjs';
import { call, modern } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const SECRET = 'hunter2';
const secretly = (url) => url.replace('tidings@', `tidings:${SECRET}@`);
const isSilent = (text, where) => assert.ok(!text.includes(SECRET), `${where}: ${text}`);

test('configuration and messages do not contain the password', async (t) => {
    const bad = [
        ['config', '--print', '--store', `postgres://app:${SECRET}@db.example/tidings`],
        ['config', '--json', '--entities', `postgres://db.example/tidings?password=${SECRET}`],
        ['serve', '--store', `postgre://app:${SECRET}@db.example/tidings`],
        ['serve', '--store', `postgres://app:${SECRET}@127.0.0.1:1/tidings`],
        ['serve', '--store', `postgres://app:${SECRET}%zz@127.0.0.1:1/tidings`],
        ['serve', '--store', `postgres://app:${SECRET}@127.0.0.1:1/a`, '--entities', `postgres://app:${SECRET}@127.0.0.1:1/b`],
        ['store', 'copy', `postgres://app:${SECRET}@127.0.0.1:1/a`, '/nowhere/x.db'],
        ['store', 'copy', `postgre://app:${SECRET}@127.0.0.1:1/a`, '/nowhere/x.db'],
        ['store', 'copy', `host=x password=${SECRET}`, '/nowhere/x.db'],
    ];
    for (const args of bad) {
        const { stdout, stderr } = await run(t, args, { ms: 20_000 });
        isSilent(stdout + stderr, args[0]);
        assert.ok((stdout + stderr).length > 0);
    }
    const { stdout, stderr } = await run(t, ['config'], { env: { TIDINGS_STORE: `postgres://app:${SECRET}@db.example/tidings` } });
    isSilent(stdout + stderr, 'the environment');
    assert.match(stdout, /postgres:\/\/app:\*\*\*@db\.example\/tidings/);
});

test('process list does not show the password of a server', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const server = await serve(t, {
        mounts: [], args: ['--entities', secretly(database.url()), '--node', 'a', '--self', '--allow-write', '--log-level', 'debug'],
    });
    const list = readFileSync(`/proc/${server.child.pid}/cmdline`, 'utf8').split('\0');
    assert.equal(list.find((word) => word.startsWith('postgres://')).replaceAll('*', ''), 'postgres://', 'what is left of it');
    isSilent(list.join(' '), 'the list of processes');
    const publish = () => modern(server, 'tools/call', { name: 'publish', arguments: { uri: 'published:///x', text: 'x' } });
    assert.ok(!(await publish()).json.result.isError, 'it is what it connects with all the same');
    const { resources } = await call(server, 'resources/list');
    const own = resources.filter(({ uri }) => uri.startsWith('tidings://'));
    assert.ok(own.length > 2);
    for (const { uri } of own) {
        isSilent((await modern(server, 'resources/read', { uri })).text, uri);
    }
    await database.stop();
    const { text } = await eventually(async () => {
        const answer = await publish();
        return answer.json.result.isError && answer;
    }, 'the database to be away');
    isSilent(text, 'what clients are told');
    await eventually(() => /store cannot be reached/.test(server.stderr), 'the log to say so');
    isSilent(server.stderr, 'the log');
    await database.begin();
});
