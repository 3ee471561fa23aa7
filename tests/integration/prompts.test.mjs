// SPDX-License-Identifier: MIT
//
// Prompts and completion with the official clients of both eras, over HTTP and a pipe, on examples/conformance; and
// path completion by the program itself.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LATEST_LEGACY, LEGACY, listen, modern, Session } from './lib/rpc.mjs';
import { legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { serve, serveExample } from './lib/server.mjs';

const example = 'conformance';
const CLIENTS = { 'SDK 1.x': legacyClient, 'client 2.x': modernClient };
const promptsChanged = (message) => message.method === 'notifications/prompts/list_changed';

const failure = async (promise) => {
    const error = await promise.then(
        (value) => assert.fail(`it succeeded: ${JSON.stringify(value)}`),
        (reason) => reason,
    );
    return error;
};

for (const [name, open] of Object.entries(CLIENTS)) {
    for (const transport of TRANSPORTS) {
        const it = (title, body) => test(`${name} over ${transport}: ${title}`, body);

        it('prompts are listed with their arguments', async (t) => {
            const { client } = await open(t, transport, { example });
            assert.equal(client.getServerCapabilities().prompts.listChanged, true);
            assert.deepEqual(client.getServerCapabilities().completions, {});
            const { prompts } = await client.listPrompts();
            const names = prompts.map((prompt) => prompt.name);
            assert.deepEqual(names, [...names].sort());
            const prompt = prompts.find((row) => row.name === 'test_prompt_with_arguments');
            assert.equal(prompt.description, 'Repeats its arguments');
            assert.deepEqual(
                prompt.arguments.map((argument) => [argument.name, argument.required]),
                [['arg1', true], ['arg2', true]],
            );
        });

        it('prompt returns messages with text, images and resources', async (t) => {
            const { client } = await open(t, transport, { example });
            const simple = await client.getPrompt({ name: 'test_simple_prompt' });
            assert.deepEqual(simple.messages, [
                { role: 'user', content: { type: 'text', text: 'This is a simple prompt for testing.' } },
            ]);
            const values = { arg1: 'ä "quoted"', arg2: '' };
            const filled = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: values });
            assert.equal(
                filled.messages[0].content.text,
                `Prompt with arguments: arg1='ä "quoted"', arg2=''`,
            );
            const image = await client.getPrompt({ name: 'test_prompt_with_image' });
            assert.deepEqual(image.messages.map((message) => message.content.type), ['image', 'text']);
            assert.match(Buffer.from(image.messages[0].content.data, 'base64').toString('latin1'), /PNG/);
            const embedded = await client.getPrompt({
                name: 'test_prompt_with_embedded_resource',
                arguments: { resourceUri: 'test://example' },
            });
            const { resource } = embedded.messages[0].content;
            assert.equal(resource.uri, 'test://example');
            assert.equal(resource.text, 'Embedded resource content for testing.');
        });

        it('missing or unknown arguments return an error with their name', async (t) => {
            const { client } = await open(t, transport, { example });
            const missing = await failure(
                client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'x' } }),
            );
            assert.equal(missing.code, -32602);
            assert.match(missing.message, /'arg2'/);
            const unknown = await failure(client.getPrompt({ name: 'none' }));
            assert.equal(unknown.code, -32602);
            assert.match(unknown.message, /unknown prompt 'none'$/);
            const near = await failure(client.getPrompt({ name: 'test_simple_promt' }));
            assert.match(near.message, /unknown prompt 'test_simple_promt'; did you mean 'test_simple_prompt'\?$/);
            assert.deepEqual(near.data.suggestions, ['test_simple_prompt']);
        });

        it('arguments and variables are completed from context', async (t) => {
            const { client } = await open(t, transport, { example });
            const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
            const argument = { name: 'arg1', value: 'par' };
            const all = await client.complete({ ref, argument });
            assert.deepEqual(all.completion.values, ['paris', 'parga', 'parma', 'paracas']);
            assert.equal(all.completion.hasMore, false);
            assert.equal(all.completion.total, 4);
            const context = { arguments: { arg2: 'Italy' } };
            const one = await client.complete({ ref, argument, context });
            assert.deepEqual(one.completion.values, ['parma']);
            const template = { type: 'ref/resource', uri: 'test://template/{id}/data' };
            const ids = await client.complete({ ref: template, argument: { name: 'id', value: '' } });
            assert.equal(ids.completion.values.length, 100);
            assert.equal(ids.completion.hasMore, true);
            const few = await client.complete({ ref: template, argument: { name: 'id', value: '14' } });
            assert.deepEqual(few.completion.values, ['14', ...Array.from({ length: 10 }, (_, i) => `14${i}`)]);
            const wrong = await failure(
                client.complete({ ref: template, argument: { name: 'nr', value: '' } }),
            );
            assert.equal(wrong.code, -32602);
        });

        it('paths below a directory are completed', async (t) => {
            const files = { 'docs/a.md': '1', 'docs/b c.md': '2', 'dog.txt': '3', 'docs/what?.md': '4' };
            const { client, tree } = await open(t, transport, { files });
            const { resourceTemplates } = await client.listResourceTemplates();
            const uri = resourceTemplates[0].uriTemplate;
            const ref = { type: 'ref/resource', uri };
            const suggest = async (value) => {
                const { completion } = await client.complete({ ref, argument: { name: 'path', value } });
                return completion.values;
            };
            assert.deepEqual(await suggest('do'), ['docs/', 'dog.txt']);
            const paths = await suggest('docs/');
            assert.deepEqual(paths, ['docs/a.md', 'docs/b c.md', 'docs/what%3F.md']);
            for (const path of paths) {
                const { contents } = await client.readResource({
                    uri: tree.uri('') + path.replaceAll(' ', '%20'),
                });
                assert.match(contents[0].text, /^[124]$/);
            }
            assert.deepEqual(await suggest('../'), []);
        });
    }
}

test('both eras receive prompt list changes', async (t) => {
    const server = await serveExample(t, example);
    const session = await Session.open(server);
    const legacy = await session.stream();
    const { events, ack } = await listen(server, { promptsListChanged: true });
    assert.deepEqual(ack.notifications, { promptsListChanged: true });
    const tools = await listen(server, { toolsListChanged: true });
    await session.call('tools/call', { name: 'test_trigger_prompt_change', arguments: {} });
    await legacy.message(promptsChanged, 'list_changed on the session');
    await events.message(promptsChanged, 'list_changed on the listen');
    assert.equal(tools.events.messages.filter(promptsChanged).length, 0);
    const { prompts } = await session.call('prompts/list');
    assert.ok(prompts.some((prompt) => prompt.name === 'test_extra_prompt'));
});

for (const version of LEGACY) {
    test(`${version}: prompts and completion are supported`, async (t) => {
        const server = await serveExample(t, example);
        const session = await Session.open(server, version);
        const { messages } = await session.call('prompts/get', { name: 'test_simple_prompt' });
        assert.equal(messages[0].role, 'user');
        const { completion } = await session.call('completion/complete', {
            ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
            argument: { name: 'arg1', value: 'pari' },
        });
        assert.deepEqual(completion, { values: ['paris'], total: 1, hasMore: false });
    });
}

test('server without prompts has an empty list and rejects prompts/get', async (t) => {
    const server = await serve(t, { files: {} });
    const session = await Session.open(server, LATEST_LEGACY);
    assert.deepEqual(session.result.capabilities.prompts, { listChanged: true });
    assert.deepEqual((await session.call('prompts/list')).prompts, []);
    assert.deepEqual((await modern(server, 'prompts/list')).json.result.prompts, []);
    assert.equal((await session.send('prompts/get', { name: 'x' })).json.error.code, -32602);
    assert.equal((await modern(server, 'prompts/get', { name: 'x' })).json.error.code, -32602);
});
