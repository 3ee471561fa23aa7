// SPDX-License-Identifier: MIT
//
// The console in a real browser (Chromium): every view against a real server that is busy, restarts, hides resources
// from the user, and serves hostile names.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import axe from 'axe-core';
import { chromium } from 'playwright-core';

import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, key, listen, meta } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';

const PROGRAM = '/usr/bin/chromium';
const FLAGS = [
    ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
    ...['--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage'],
];

let browser;
before(async () => {
    assert.ok(existsSync(PROGRAM), `no ${PROGRAM}: apt-get install chromium`);
    browser = await chromium.launch({ executablePath: PROGRAM, args: FLAGS });
});
after(() => browser?.close());

/** The console of a server at a view. Browser complaints (errors, policy violations) fail the test. */
async function open(t, server, view = 'overview', options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    defer(t, () => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(DEADLINE);
    page.complaints = [];
    page.on('pageerror', (error) => page.complaints.push(error.message));
    page.on('console', (message) => {
        // The browser itself logs an unreachable server and a 401.
        if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) {
            page.complaints.push(message.text());
        }
    });
    await page.goto(`${server.url.replace(/mcp$/, 'console')}#/${view}`);
    return page;
}

/** Options of a listen by a client with that name. */
const named = (name, version) => ({ params: { _meta: meta({ [key.client]: { name, version } }) } });
const isFine = (page) => assert.deepEqual(page.complaints, []);
const shows = (page, text) => page.getByText(text).first().waitFor();
const branch = async (page, uri) => {
    await page.getByRole('button', { name: uri, exact: false }).first().click();
};

test('each view opens by its link and its key without browser errors', async (t) => {
    const server = await serve(t, { files: { 'a.md': '# one\n' }, args: ['--console', '--entities', ':memory:'] });
    const page = await open(t, server);
    await page.locator('#link.on').waitFor();
    for (const name of ['Overview', 'Resources', 'Changes', 'Peers', 'Try it']) {
        await page.getByRole('link', { name, exact: true }).click();
        await page.getByRole('link', { name, exact: true }).and(page.locator('[aria-current=page]')).waitFor();
    }
    await page.locator('body').click();
    for (const [key, id] of [['1', 'overview'], ['2', 'resources'], ['3', 'changes'], ['4', 'peers'], ['5', 'try']]) {
        await page.locator('main').focus();
        await page.keyboard.press(key);
        await page.waitForURL(new RegExp(`#/${id}$`));
    }
    await page.locator('main').focus();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    isFine(page);
});

test('page is one file and its policy blocks foreign content', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console'] });
    const answer = await request(server, { method: 'GET', path: '/console' });
    assert.equal(answer.status, 200);
    const policy = answer.headers.get('content-security-policy');
    assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'self'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.doesNotMatch(answer.text, /(src|href)="(?!#|data:,)/);
    const head = await request(server, { method: 'HEAD', path: '/console' });
    assert.deepEqual([head.status, head.text], [200, '']);
    assert.equal((await request(server, { method: 'POST', path: '/console', body: '' })).status, 405);
    const without = await serve(t, { files: {} });
    assert.equal((await request(without, { method: 'GET', path: '/console' })).status, 404);

    // Only the hashed script runs.
    const page = await open(t, server);
    const ran = await page.evaluate(() => {
        const script = document.createElement('script');
        try { script.textContent = 'window.ran = true'; } catch { return 'refused'; }
        document.head.append(script);
        return window.ran ?? 'refused';
    });
    assert.equal(ran, 'refused');
});

test('overview updates while the server is busy', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console', '--publish', 'app:///', '--allow-write'] });
    await listen(server, { resourceSubscriptions: ['app:///'] });
    let busy = true;
    const load = (async () => {
        for (let i = 0; busy; i++) {
            await request(server, { method: 'PUT', path: '/resource?uri=app:///n', headers: { 'Content-Type': 'text/plain' }, body: `${i}` });
        }
    })();
    const page = await open(t, server);
    const figure = (name) => page.getByRole('figure').filter({ hasText: name });
    await page.waitForFunction(() => {
        const text = [...document.querySelectorAll('figure')].find((f) => f.textContent.includes('Changes per second'))?.querySelector('b')?.textContent;
        return text && Number.parseFloat(text) > 0;
    });
    await figure('Memory').getByText('MiB').first().waitFor();
    await figure('Changes per second').locator('path.curve[d*=L]').waitFor({ state: 'attached' });
    await shows(page, 'subscriptions');
    busy = false;
    await load;
    isFine(page);
});

test('resources: branches open, changes light up and the difference is shown', async (t) => {
    const server = await serve(t, { files: { 'a.json': '{"n": 1}', 'sub/b.txt': 'b' }, args: ['--console'] });
    const page = await open(t, server, 'resources');
    await branch(page, server.uri(''));
    await page.getByRole('button', { name: 'a.json' }).click();
    await page.locator('pre .n', { hasText: '1' }).waitFor();
    await shows(page, 'live');
    server.tree.write('a.json', '{"n": 2}');
    await page.locator('.tree .lit').first().waitFor();
    await shows(page, 'What changed since');
    await page.locator('pre .add', { hasText: '"n": 2' }).waitFor();
    await page.locator('pre .del', { hasText: '"n": 1' }).waitFor();
    // By keys only.
    await page.getByRole('button', { name: 'sub' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('button', { name: 'b.txt' }).waitFor();
    server.tree.write('sub/c.txt', 'new');
    await page.getByRole('button', { name: 'c.txt' }).waitFor();
    isFine(page);
});

test('entity history has a slider through time', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console', '--entities', ':memory:', '--allow-write'] });
    const tool = (name, args) => call(server, 'tools/call', { name, arguments: args });
    await tool('add-entity-type', { name: 'User', version: '1', jsonSchema: { type: 'object' } });
    for (const age of [7, 8, 9]) {
        await tool('upsert-entity', { uri: 'entity:///User@1/ann', value: { age } });
    }
    const page = await open(t, server, 'resources');
    await branch(page, 'entity:///');
    await branch(page, 'User@1');
    await page.getByRole('button', { name: 'ann' }).click();
    await shows(page, 'version 3 of 3, the newest');
    await shows(page, 'What version 3 changed from version 2');
    await page.locator('#history').focus();
    await page.keyboard.press('ArrowLeft');
    await shows(page, 'version 2 of 3');
    await shows(page, 'What version 2 changed from version 1');
    await page.locator('section[aria-label=History] .add', { hasText: '"age": 8' }).waitFor();
    isFine(page);
});

test('changes: filtered by pattern, paused and resumed; each shows its recipients', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1', 'b.txt': '1' }, args: ['--console'] });
    const client = new ModernClient({ name: 'listener of a', version: '7' });
    await client.connect(new ModernHttp(new URL(server.url)));
    defer(t, () => client.close());
    const page = await open(t, server, 'changes');
    await page.getByLabel('URI or pattern').fill(server.uri('a*'));
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await shows(page, `subscribed to ${server.uri('a*')}`);
    server.tree.write('b.txt', '2');
    server.tree.write('a.txt', '2');
    const row = page.locator('tbody tr', { hasText: server.uri('a.txt') });
    await row.first().waitFor();
    assert.equal(await page.locator('tbody tr', { hasText: 'b.txt' }).count(), 0);
    await row.first().getByRole('button', { name: 'Who hears' }).click();
    await row.first().getByText('told').waitFor();

    await page.getByLabel('filter').fill('not json');
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await shows(page, 'the filter is not JSON');
    await page.getByLabel('filter').fill('{"type": "no such type"}');
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await shows(page, 'refused');
    isFine(page);
});

test('peers: list shows connected clients and disconnects one', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--console'] });
    const stream = await listen(server, { resourceSubscriptions: [server.uri('a.txt')] }, named('a slow one', '3'));
    const page = await open(t, server, 'peers');
    const row = page.locator('tbody tr', { hasText: 'a slow one 3' });
    await row.waitFor();
    await row.getByRole('button', { name: 'Subscriptions of' }).click();
    await shows(page, server.uri('a.txt'));
    await page.getByLabel('Search peers').fill('nobody is called so');
    await shows(page, '0 of');
    await page.getByLabel('Search peers').fill('a.txt');
    await shows(page, '1 of');
    await page.getByLabel('Search peers').fill('slow one');
    await page.getByRole('button', { name: /^lag/ }).click();
    await row.getByRole('button', { name: 'End' }).click();
    await page.getByRole('button', { name: 'End it' }).click();
    await stream.events.over;
    await shows(page, '0 of');
    isFine(page);
});

test('try it: form calls a tool and shows the messages and the equal curl command', async (t) => {
    const server = await serve(t, { files: { "it's.txt": 'content' }, args: ['--console', '--publish', 'app:///', '--allow-write'] });
    const page = await open(t, server, 'try');
    await page.getByLabel('URI').fill(server.uri("it's.txt"));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('pre', { hasText: '"text": "content"' }).waitFor();
    const curl = await page.locator('pre', { hasText: /^curl/ }).textContent();
    const answer = JSON.parse(execFileSync('/bin/sh', ['-c', curl], { encoding: 'utf8' }));
    assert.equal(answer.result.contents[0].text, 'content');

    const choice = page.getByLabel('What to do');
    const publish = page.locator('option', { hasText: /^publish/ });
    await publish.waitFor({ state: 'attached' });
    await choice.selectOption(await publish.getAttribute('value'));
    await page.getByLabel(/^uri/).fill('app:///tried');
    await page.getByLabel(/^text/).fill('from the form');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('pre', { hasText: 'app:///tried' }).first().waitFor();
    const read = await call(server, 'resources/read', { uri: 'app:///tried' });
    assert.equal(read.contents[0].text, 'from the form');
    isFine(page);
});

test('console reconnects after a server restart', async (t) => {
    const tree = new Tree(t, { 'a.txt': '1' });
    const first = await serve(t, { tree, args: ['--console'] });
    const page = await open(t, first, 'changes');
    await page.getByLabel('URI or pattern').fill(first.uri('a.txt'));
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await shows(page, 'subscribed to');
    await first.stop();
    await page.locator('#link.off').waitFor();
    const second = await serve(t, { tree, http: `127.0.0.1:${first.port}`, args: ['--console'] });
    await page.locator('#link.on').waitFor();
    tree.write('a.txt', '2');
    await page.locator('tbody tr', { hasText: second.uri('a.txt') }).first().waitFor();
    isFine(page);
});

test('console shows little with few rights and asks for a missing token', async (t) => {
    const tokens = new TokenFile(t);
    const ada = tokens.give('ada'), root = tokens.give('root');
    const server = await serve(t, {
        files: {},
        args: [...tokens.args, '--console', '--publish', 'app:///', '--allow-write',
            '--access', JSON.stringify({ principal: 'ada', uri: 'app:///open/**', allow: ['list', 'read', 'subscribe'] }),
            '--access', JSON.stringify({ principal: 'root', allow: ['list', 'read', 'subscribe', 'write'] })],
    });
    const put = (uri, body) => request(as(server, root), { method: 'PUT', path: `/resource?uri=${uri}`, headers: { 'Content-Type': 'text/plain' }, body });
    await put('app:///open/x', 'for all');
    await put('app:///hidden/y', 'not for ada');
    const page = await open(t, server);
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Access token').fill('wrong');
    await dialog.getByRole('button', { name: 'Use it' }).click();
    await shows(page, 'That token is not accepted here');
    await dialog.getByLabel('Access token').fill(ada);
    await dialog.getByRole('button', { name: 'Use it' }).click();
    await shows(page, "The server's own state is not shown to you");
    await page.getByRole('link', { name: 'Peers' }).click();
    await shows(page, 'Who is connected is not shown to you');
    assert.equal(await page.getByRole('button', { name: /^End/ }).count(), 0);
    await page.getByRole('link', { name: 'Changes' }).click();
    await shows(page, 'subscribed to');
    await put('app:///hidden/y', 'changed');
    await put('app:///open/x', 'changed');
    const row = page.locator('tbody tr', { hasText: 'app:///open/x' });
    await row.first().waitFor();
    assert.equal(await page.locator('tbody tr', { hasText: 'hidden' }).count(), 0);
    await row.first().getByRole('button', { name: 'Who hears' }).click();
    await row.first().getByText('not shown to you').waitFor();
    const everything = await page.evaluate(() => JSON.stringify({ ...localStorage }) + document.body.innerText);
    assert.ok(!everything.includes('hidden'));
    assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage }))).includes(ada), 'the token is not kept beyond the tab');
    isFine(page);
});

test('hostile names are shown as text without effect', async (t) => {
    const evil = '<img src=x onerror="window.pwned=1">';
    const tree = new Tree(t, { [`${evil}.json`]: `{"<script>window.pwned=1</script>": "${'</script>'}"}`, 'turned\u202etxt.exe': 'x' });
    const server = await serve(t, { tree, args: ['--console', '--publish', 'app:///', '--allow-write'] });
    await call(server, 'tools/call', { name: 'publish', arguments: { uri: "app:///x'%22%3E%3Cscript%3E", text: '<b>', title: evil, description: evil } });
    await listen(server, { resourceSubscriptions: ['app:///'] }, named(`${evil}\u202e`, '</td><script>window.pwned=1</script>'));
    const page = await open(t, server, 'resources');
    await branch(page, server.uri(''));
    await shows(page, evil);
    await page.getByRole('button', { name: evil }).first().click();
    await page.locator('pre', { hasText: '</script>' }).waitFor();
    await shows(page, 'turned\\u202etxt.exe');
    await page.getByRole('link', { name: 'Peers' }).click();
    await page.locator('tbody tr', { hasText: evil }).first().waitFor();
    await page.getByRole('link', { name: 'Changes' }).click();
    await shows(page, 'subscribed to');
    await call(server, 'tools/call', { name: 'publish', arguments: { uri: "app:///x'%22%3E%3Cscript%3E", text: '<i>', title: evil } });
    await page.locator('tbody tr', { hasText: 'app:///x' }).first().waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('main img, main script').count(), 0);
    isFine(page);
});

test('layout fits narrow screens, dark and light modes and screen readers', async (t) => {
    const server = await serve(t, { files: { 'a.md': '# one\n' }, args: ['--console'] });
    const page = await open(t, server, 'overview', { viewport: { width: 390, height: 800 }, colorScheme: 'dark', bypassCSP: true });
    await page.locator('#link.on').waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    for (const id of ['overview', 'resources', 'changes', 'peers', 'try']) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, id);
        await page.locator(`#nav [data-view=${id}][aria-current=page]`).waitFor();
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${id} is wider than the screen`);
        for (const theme of ['dark', 'light']) {
            await page.evaluate((to) => { document.documentElement.dataset.theme = to; }, theme);
            await page.addScriptTag({ content: axe.source });
            const found = await page.evaluate(() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
            assert.deepEqual(found.violations.map((v) => `${id} ${theme}: ${v.id} ${v.nodes.map((n) => n.html).join(' ')}`), []);
        }
    }
});

/** Gives the page this history and status in place of the server's. */
async function remember(page, samples, status) {
    await page.route('**/mcp', async (route) => {
        const sent = route.request().postDataJSON();
        if (sent.method === 'subscriptions/listen') {
            const subscribed = sent.params.notifications.resourceSubscriptions;
            const update = { uri: subscribed[0], _meta: { 'dev.tidings/data': [{ text: JSON.stringify(status) }] } };
            const told = [{ method: 'notifications/subscriptions/acknowledged', params: { notifications: sent.params.notifications } },
                { method: 'notifications/resources/updated', params: update }];
            return route.fulfill({ contentType: 'text/event-stream', body: told.map((m) => `data: ${JSON.stringify(m)}\n\n`).join('') });
        }
        if (sent.params?.uri !== 'tidings://self/history') return route.fallback();
        const text = JSON.stringify({ everyMs: 5000, samples });
        return route.fulfill({ json: { jsonrpc: '2.0', id: sent.id, result: { contents: [{ uri: sent.params.uri, text }] } } });
    });
}

test('charts start with the server history, with gaps, a scale and lag below a millisecond', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console'] });
    let history;
    await eventually(async () => { // the first sample is taken after the server starts
        history = JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/history' })).contents[0].text);
        return history.samples.length > 0;
    }, 'a first sample');
    assert.equal(history.everyMs, 5000);
    assert.deepEqual(Object.keys(history.samples[0]), ['nowMs', 'changes', 'deliveries', 'requests', 'streams', 'memoryBytes', 'lagMs']);

    // Ten minutes with three missing in the middle.
    const now = Date.now();
    const past = Array.from({ length: 120 }, (_, i) => ({ nowMs: now - 600_000 + i * 5000, changes: i * 10, deliveries: 0, requests: i, streams: 1, memoryBytes: 9 << 20, lagMs: { now: 0, p99: 0.25 } }))
        .filter((_, i) => i < 40 || i > 76);
    const page = await open(t, server);
    const status = JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/status' })).contents[0].text);
    await remember(page, past, { ...status, ...past.at(-1), nowMs: now });
    await page.reload();
    const figure = (name) => page.getByRole('figure').filter({ hasText: name });
    await figure('Changes per second').getByText(/^(9|10) min .*ago$/).waitFor();
    const runs = async (name) => (await figure(name).locator('path.curve').getAttribute('d')).split('M').length - 1;
    assert.ok(await runs('Changes per second') >= 2, 'the gap is left open');
    await figure('Delivery lag').getByText('most 250 µs').waitFor();
    assert.deepEqual(await figure('Delivery lag').locator('.scale span').allTextContents(), ['500 µs', '250 µs', '0']);
    assert.deepEqual(await figure('Changes per second').locator('.scale span').allTextContents(), ['2', '1', '0']);
    isFine(page);
});

test('numbers are grey while the server is unreachable', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console'] });
    const page = await open(t, server);
    const colour = (selector) => page.locator(selector).first().evaluate((node) => getComputedStyle(node).color);
    await page.locator('.tile b').first().waitFor();
    const present = await colour('.tile b');
    assert.notEqual(present, await colour('.tile span'));
    await server.stop();
    await page.locator('body.away').waitFor();
    assert.equal(await colour('.tile b'), await colour('.tile span'));
    await shows(page, /not reachable since \d/);
    isFine(page);
});

test('changes omit the server state and link to the resource', async (t) => {
    const server = await serve(t, { files: { 'a b.txt': 'the content' }, args: ['--console'] });
    const page = await open(t, server, 'changes');
    await shows(page, 'subscribed to');
    const own = page.locator('tbody tr', { hasText: 'tidings://self/status' });
    await page.getByLabel("with the server's own state").check();
    await own.first().waitFor();
    await page.getByLabel("with the server's own state").uncheck();
    await page.getByRole('button', { name: 'Clear' }).click();
    const status = await listen(server, { resourceSubscriptions: ['tidings://self/status'] });
    await status.events.message();
    await status.events.message();
    server.tree.write('a b.txt', 'the new content');
    const link = page.getByRole('link', { name: server.uri('a b.txt') });
    await link.first().waitFor();
    assert.equal(await own.count(), 0);
    await link.first().click();
    await page.locator('pre', { hasText: 'the new content' }).first().waitFor();
    await page.getByRole('link', { name: 'Resources' }).and(page.locator('[aria-current=page]')).waitFor();
    isFine(page);
});

test('invisible and bidirectional characters are shown by their number', async (t) => {
    const server = await serve(t, { files: {}, args: ['--console'] });
    const page = await open(t, server, 'overview', { bypassCSP: true });
    await page.addScriptTag({ path: fileURLToPath(new URL('../../src/server/console/dom.js', import.meta.url)) });
    const hidden = [0x00, 0x1b, 0x7f, 0x9f, 0xad, 0x61c, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2060, 0x2066, 0x206f, 0xfeff, 0xe0000, 0xe0041, 0xe007f];
    const kept = [0x09, 0x0a, 0x20, 0xe9, 0x627, 0x200a, 0x2010, 0x2070, 0x1f600, 0xe0080];
    const shown = (codes) => page.evaluate((all) => all.map((code) => h('p', { title: String.fromCodePoint(code) }, String.fromCodePoint(code))).map((p) => [p.textContent, p.title]), codes);
    for (const [i, [text, title]] of (await shown(hidden)).entries()) {
        const digits = hidden[i].toString(16);
        const number = digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
        assert.deepEqual([text, title], [number, number]);
    }
    assert.deepEqual((await shown(kept)).map(([text]) => text.codePointAt(0)), kept);
});

test('every view at 390 pixels works by pointer and key without a cut table', async (t) => {
    const server = await serve(t, { files: { 'a-file-with-quite-a-long-name.md': '# one\n' }, args: ['--console'] });
    await listen(server, { resourceSubscriptions: [server.uri('')] }, named('a client with a long name', '10.11.12'));
    const page = await open(t, server, 'overview', { viewport: { width: 390, height: 800 } });
    await page.locator('.tile b').first().waitFor();
    for (const id of ['overview', 'resources', 'changes', 'peers', 'try']) {
        const box = await page.locator(`#nav [data-view=${id}]`).boundingBox();
        assert.ok(box.x >= 0 && box.x + box.width <= 390, `${id} lies from ${box.x} to ${box.x + box.width}`);
        await page.locator(`#nav [data-view=${id}]`).focus();
        await page.keyboard.press('Enter');
        await page.locator(`#nav [data-view=${id}][aria-current=page]`).waitFor();
        if (id === 'changes') {
            await shows(page, 'subscribed to');
            server.tree.write('a-file-with-quite-a-long-name.md', '# two\n');
        }
        if (id === 'changes' || id === 'peers') await page.locator('tbody tr').first().waitFor();
        const cut = await page.evaluate(() => [...document.querySelectorAll('main .scroll')].filter((n) => n.scrollWidth > n.clientWidth).length);
        assert.equal(cut, 0, `a table of ${id} is wider than the screen`);
    }
    isFine(page);
});

test('remote clients reach the console only with authentication', async (t) => {
    const open = await run(t, ['serve', '--console', '--http', '0.0.0.0:0', '--allow-remote', new Tree(t).path]);
    assert.notEqual(open.code, 0);
    assert.match(open.stderr, /--console: '0\.0\.0\.0' can be reached by other machines.*ask for tokens/);
});

test('nodes of a shared store are shown with version and lag, and a killed node as gone', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const nodes = await startNodes(t, 2, { databases: [database], args: ['--console', '--workers', '1'], isDirect: true });
    const page = await open(t, nodes[0].program);
    const version = (await run(t, ['version'])).stdout.match(/\d+\.\d+\.\d+/)[0];
    const own = page.getByRole('row').filter({ hasText: '(this one)' });
    await own.filter({ hasText: version }).filter({ hasText: 'up to date' }).waitFor({ timeout: 2 * DEADLINE });
    await page.getByText('up to date').nth(1).waitFor();
    await nodes[1].kill();
    await page.getByText(/^gone for/).waitFor({ timeout: 4 * DEADLINE });
    isFine(page);
});

test('hostile node names, versions and addresses from the store are shown without effect', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const [node] = await startNodes(t, 1, { databases: [database], args: ['--console', '--workers', '1'], isDirect: true });
    const evil = '<img src=x onerror="window.pwned=1">';
    const names = [evil, '</td></tr></table><script>window.pwned=1</script>', 'turned\u202eedon', '\x1b]0;pwned\x07\x1b[2J', 'x'.repeat(128)];
    const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
    for (const name of names) {
        await database.sql(`INSERT INTO tidings_nodes(name, instance, version, state, epoch, followed, begun, until, layout, behind)
            VALUES(${quoted(name)}, 7, ${quoted(evil)}, ${quoted(JSON.stringify({ address: `javascript:${evil}` }))}, 7, 0, 0, (extract(epoch FROM now()) * 1000)::int8 + 600000, 1, 0)`);
    }
    const page = await open(t, node.program, 'overview', { viewport: { width: 390, height: 800 } });
    const shown = [evil, names[1], 'turned\\u202eedon', '\\u001b]0;pwned\\u0007\\u001b[2J', names[4]];
    for (const text of shown) {
        await page.getByRole('row').filter({ hasText: text }).filter({ hasText: `javascript:${evil}` }).first().waitFor({ timeout: 2 * DEADLINE });
    }
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('main img, main script, main a[href^="javascript:"]').count(), 0);
    assert.ok(!(await page.evaluate(() => document.body.innerText)).includes('\u202e'));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the screen');
    isFine(page);
});
