// SPDX-License-Identifier: MIT
//
// Pages of other sites in a real browser (Chromium) try every way to embed, fetch or open server resources. The
// browser's own protection of local addresses is off, so each rejection comes from the server or its headers.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { defer } from './lib/cleanup.mjs';
import { serve } from './lib/server.mjs';
import { DEADLINE } from './lib/wait.mjs';

const PROGRAM = '/usr/bin/chromium';
const FLAGS = [
    ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
    ...['--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage'],
    '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
    '--host-resolver-rules=MAP *.example 127.0.0.1',
];

const SECRET = 'only for this machine';
const files = {
    'note.txt': SECRET,
    'picture.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="3"></svg>',
    'code.js': 'globalThis.ran = true;',
    'style.css': 'body { --loaded: yes }',
    'page.html': `<!doctype html><p>${SECRET}</p>`,
};

let browser;
before(async () => {
    assert.ok(existsSync(PROGRAM), `no ${PROGRAM}: apt-get install chromium`);
    browser = await chromium.launch({ executablePath: PROGRAM, args: FLAGS });
});
after(() => browser?.close());

/** A site with one empty page, under any name. Returns its port. */
async function site(t) {
    const server = http.createServer((_, response) => {
        response.setHeader('Content-Type', 'text/html');
        response.end('<!doctype html><title>another site</title>');
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    defer(t, () => server.close());
    return server.address().port;
}

/** A page of `origin`, and the server's answers to it. */
async function visit(t, origin) {
    const context = await browser.newContext();
    defer(t, () => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(DEADLINE);
    const answers = [];
    page.on('response', (response) => answers.push({ url: response.url(), status: response.status() }));
    await page.goto(`${origin}/`);
    return { page, answers };
}

const place = (server, name) =>
    `http://${server.host ?? '127.0.0.1'}:${server.port}/resource?uri=${encodeURIComponent(server.uri(name))}`;

/** Runs in the page: adds an element that loads `url`. Returns whether it loaded. */
function embed([tag, attribute, url, more]) {
    return new Promise((resolve) => {
        const element = Object.assign(document.createElement(tag), more);
        element.onload = () => resolve('loaded');
        element.onerror = () => resolve('failed');
        element[attribute] = url;
        document.body.append(element);
    });
}

/** Runs in the page. */
const fetched = ([url, options]) =>
    fetch(url, options).then(
        async (response) => (response.type === 'opaque' ? 'opaque' : `${response.status} ${await response.text()}`),
        () => 'failed',
    );

/** Runs in the page. Returns true if an EventSource or a WebSocket opens. */
const opened = ([kind, url]) =>
    new Promise((resolve) => {
        const stream = kind === 'EventSource' ? new EventSource(url) : new WebSocket(url, 'mcp');
        stream.onopen = () => resolve('open');
        stream.onerror = () => resolve('failed');
    });

/** Requests without an Origin, forbidden to all other sites. */
const EMBEDDING = {
    'an image': (page, server) => page.evaluate(embed, ['img', 'src', place(server, 'picture.svg')]),
    'a script': (page, server) => page.evaluate(embed, ['script', 'src', place(server, 'code.js')]),
    'a style sheet': (page, server) =>
        page.evaluate(embed, ['link', 'href', place(server, 'style.css'), { rel: 'stylesheet' }]),
    'an object': (page, server) => page.evaluate(embed, ['object', 'data', place(server, 'page.html')]),
    'a fetch without CORS': (page, server) =>
        page.evaluate(fetched, [place(server, 'note.txt'), { mode: 'no-cors' }]),
};

/** Requests with an Origin. */
const READING = {
    'a fetch': [(page, server) => page.evaluate(fetched, [place(server, 'note.txt')]), `200 ${SECRET}`],
    'an image with CORS': [
        (page, server) =>
            page.evaluate(embed, ['img', 'src', place(server, 'picture.svg'), { crossOrigin: 'anonymous' }]),
        'loaded',
    ],
    'an event stream': [
        (page, server) => page.evaluate(opened, ['EventSource', `http://127.0.0.1:${server.port}/sse`]),
        'open',
    ],
    'a WebSocket': [
        (page, server) => page.evaluate(opened, ['WebSocket', `ws://127.0.0.1:${server.port}/mcp`]),
        'open',
    ],
};

const start = (t, ...args) => serve(t, { files, args: ['--legacy-sse', ...args] });

async function refusesEmbedding(page, answers, server) {
    for (const [name, way] of Object.entries(EMBEDDING)) {
        assert.equal(await way(page, server), 'failed', name);
    }
    assert.equal(await page.evaluate(() => globalThis.ran), undefined, 'the script ran');
    const ours = answers.filter(({ url }) => url.startsWith(`http://127.0.0.1:${server.port}/`));
    ours.forEach(({ url, status }) => assert.equal(status, 403, url));
}

/** Frames load any content, so the test compares the displayed content. */
async function refusesFrames(page, server) {
    await page.evaluate(embed, ['iframe', 'src', place(server, 'page.html')]);
    const frame = page.frames().find((one) => one.url().includes('page.html') || one.parentFrame());
    assert.ok(frame, 'there is a frame');
    assert.ok(!(await frame.content()).includes(SECRET), 'a frame shows it');
}

for (const [name, host] of [['another site', 'evil.example'], ['a page that is our neighbour by name', '127.0.0.1.example']]) {
    test(`browser: ${name} can neither embed nor read resources`, async (t) => {
        const server = await start(t);
        const { page, answers } = await visit(t, `http://${host}:${await site(t)}`);
        await refusesEmbedding(page, answers, server);
        await refusesFrames(page, server);
        for (const [way, [run]] of Object.entries(READING)) {
            assert.equal(await run(page, server), 'failed', way);
        }
    });
}

for (const host of ['localhost', '127.0.0.1']) {
    test(`browser: local page (${host}) at another port can read but not embed`, async (t) => {
        const server = await start(t);
        const { page, answers } = await visit(t, `http://${host}:${await site(t)}`);
        await refusesEmbedding(page, answers, server);
        await refusesFrames(page, server);
        for (const [way, [run, expected]] of Object.entries(READING)) {
            assert.equal(await run(page, server), expected, way);
        }
    });
}

test('browser: page permitted by --allow-origin can read but not embed', async (t) => {
    const port = await site(t);
    const server = await start(t, '--allow-origin', `http://app.example:${port}`);
    const { page, answers } = await visit(t, `http://app.example:${port}`);
    await refusesEmbedding(page, answers, server);
    await refusesFrames(page, server);
    for (const [way, [run, expected]] of Object.entries(READING)) {
        assert.equal(await run(page, server), expected, way);
    }
});

// Over plain HTTP beyond loopback, browsers omit the site of a request.
test('browser: server with another name cannot be embedded', async (t) => {
    const server = await start(t, '--allow-host', 'files.example');
    server.host = 'files.example';
    const { page } = await visit(t, `http://evil.example:${await site(t)}`);
    for (const [name, way] of Object.entries(EMBEDDING)) {
        assert.equal(await way(page, server), 'failed', name);
    }
    assert.equal(await page.evaluate(() => globalThis.ran), undefined, 'the script ran');
    await refusesFrames(page, server);
    assert.equal((await page.goto(place(server, 'note.txt'))).status(), 200, 'it is there');
});

test('browser: typed address is shown, a link from another site is not', async (t) => {
    const server = await start(t);
    const typed = await visit(t, `http://evil.example:${await site(t)}`);
    assert.equal((await typed.page.goto(place(server, 'note.txt'))).status(), 200);
    assert.equal(await typed.page.textContent('body'), SECRET);
    const linked = await visit(t, `http://evil.example:${await site(t)}`);
    const [response] = await Promise.all([
        linked.page.waitForResponse((one) => one.url() === place(server, 'note.txt')),
        linked.page.evaluate((url) => {
            location.href = url;
        }, place(server, 'note.txt')),
    ]);
    assert.equal(response.status(), 403);
});

test('browser: page of the server itself has full access', async (t) => {
    const server = await start(t);
    const { page } = await visit(t, `http://127.0.0.1:${server.port}`); // 404, but a page of this origin
    assert.equal(await page.evaluate(embed, ['img', 'src', place(server, 'picture.svg')]), 'loaded');
    assert.equal(await page.evaluate(fetched, [place(server, 'note.txt')]), `200 ${SECRET}`);
    for (const [way, [run, expected]] of Object.entries(READING)) {
        assert.equal(await run(page, server), expected, way);
    }
});
