// SPDX-License-Identifier: MIT
//
// `tidings tail` and partial `tidings read`: the last lines, appended data, truncated, replaced and absent logs,
// servers without ranges, lying servers, and hostile log text on a terminal.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { bad, good, objects } from './lib/cli.mjs';
import { Lossy } from './lib/lossy.mjs';
import { freePort } from './lib/port.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => `line ${from + i}\n`).join('');

/** A `tail -f` that runs until stopped; tests await `out` and its `lines` (standard error). */
function follow(t, args) {
    const program = new Program(t, BIN, ['tail', '-f', ...args], { mayFail: true });
    const out = program.output();
    const next = (text) => out.next((line) => line === text, `'${text}'`);
    const said = (pattern) => program.lines.next((line) => pattern.test(line), `${pattern}`);
    return { program, out, next, said, printed: () => out.seen };
}

async function stranger(t) {
    const file = fileURLToPath(new URL('./lib/stranger-quiet.mjs', import.meta.url));
    const program = new Program(t, process.execPath, [file]);
    const line = await program.lines.next((text) => text.startsWith('at '), 'that it serves');
    const url = line.slice(3);
    const change = (body) => fetch(new URL('/change', url), { method: 'POST', body });
    return { url, change };
}

/** A server on standard input and output. `code` computes the content of reads: `part(from, to, total)`, `count`. */
const liar = (code) => ['--', process.execPath, '-e', `
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
    const part = (from, to, total) => ({ uri: 'x:y', text: 'x'.repeat(to - from), _meta: { 'dev.tidings/range': { from, to, total } } });
    let count = -1;
    require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        count += method === 'resources/read' ? 1 : 0;
        const answers = {
            initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { resources: {} }, serverInfo: { name: 'l', version: '1' } }),
            'resources/read': () => ({ contents: [${code}] }),
        };
        if (id !== undefined) {
            say(answers[method] ? { id, result: answers[method]() } : { id, error: { code: -32601, message: 'no' } });
        }
    });`];

test('tail prints the requested number of last lines', async (t) => {
    const server = await serve(t, { files: {
        log: numbers(1, 20), open: 'a\nb', empty: '', wide: `${numbers(1, 30_000)}`, umlauts: 'ä\nö\nü\n',
    } });
    const tail = (name, ...args) => good(t, ['tail', ...args, server.url, server.uri(name)]);
    assert.equal(await tail('log'), numbers(11, 20));
    assert.equal(await tail('log', '-n', '3'), numbers(18, 20));
    assert.equal(await tail('log', '-n0'), '');
    assert.equal(await tail('log', '--lines', '500'), numbers(1, 20));
    assert.equal(await tail('open', '-n1'), 'b');
    assert.equal(await tail('empty'), '');
    assert.equal(await tail('umlauts', '-n2'), 'ö\nü\n');
    assert.equal(await tail('wide', '-n', '20000'), numbers(10_001, 30_000), 'further back than the first look');
    assert.equal(await tail('wide', '-n', '40000'), numbers(1, 30_000));
});

test('several files have headers and a missing file delays no other', async (t) => {
    const server = await serve(t, { files: { a: 'a\n', b: '' } });
    const [a, missing, b] = ['a', 'missing', 'b'].map(server.uri);
    const end = await bad(t, 66, /missing/, ['tail', server.url, a, missing, b]);
    assert.equal(end.stdout, `==> ${a} <==\na\n\n==> ${b} <==\n`);
    assert.equal(await good(t, ['tail', '-q', server.url, a, b]), 'a\n');
});

test('tail -f prints appended data and reads nothing else', async (t) => {
    const server = await serve(t, { files: { log: numbers(1, 5000) } });
    const net = await Lossy.open(t, server);
    const size = fs.statSync(server.tree.at('log')).size;
    const tail = follow(t, ['-n2', net.url, server.uri('log')]);
    await tail.next('line 5000');
    fs.appendFileSync(server.tree.at('log'), 'new\n');
    await tail.next('new');
    fs.appendFileSync(server.tree.at('log'), 'newer');
    fs.appendFileSync(server.tree.at('log'), ' still\n');
    await tail.next('newer still');
    assert.deepEqual(tail.printed(), ['line 4999', 'line 5000', 'new', 'newer still']);
    const ranges = net.requests.filter(({ method }) => method === 'resources/read')
        .map(({ params }) => params._meta['dev.tidings/range']);
    assert.ok(ranges.length >= 3);
    assert.deepEqual(Object.keys(ranges[0]), ['unit', 'last']);
    assert.ok(ranges.slice(1).every(({ from }) => from >= size - 256), JSON.stringify(ranges));
});

test('truncated, replaced or absent log is followed and reported', async (t) => {
    const server = await serve(t, { files: { log: numbers(1, 3) } });
    const at = server.tree.at('log');
    const tail = follow(t, [server.url, server.uri('log')]);
    await tail.next('line 3');
    fs.writeFileSync(at, 'short\n');
    await tail.said(/log: truncated; reading from its start/);
    await tail.next('short');
    server.tree.replace('log', 'another one, and longer than what there was\n');
    await tail.said(/log: replaced; reading the new file/);
    await tail.next('another one, and longer than what there was');
    fs.renameSync(at, server.tree.at('log.1'));
    await tail.said(/log: is gone; waiting/);
    fs.writeFileSync(at, 'rotated\n');
    await tail.said(/log: exists again/);
    await tail.next('rotated');
    fs.appendFileSync(at, 'and on\n');
    await tail.next('and on');
    const half = new Promise((done) => { tail.program.child.stdout.once('data', done); }); // no line yet
    fs.appendFileSync(at, 'half a line');
    await half;
    server.tree.replace('log', 'a line of the next one\n');
    await tail.next('a line of the next one');
    assert.equal(tail.printed().length, 9, tail.printed().join('\n'));
});

test('--json prints an object for each piece and each state of the log', async (t) => {
    const server = await serve(t, { files: { log: 'a\nb\n', bytes: Buffer.from([255, 0, 10]) } });
    const uri = server.uri('log');
    const [piece, blob] = objects(await good(t, ['tail', '--json', '-n1', server.url, uri, server.uri('bytes')]));
    assert.deepEqual(piece, { uri, from: 2, to: 4, text: 'b\n' });
    assert.deepEqual(blob, { uri: server.uri('bytes'), from: 0, to: 3, blob: '/wAK' });
    const tail = follow(t, ['--json', '-n1', server.url, uri]);
    assert.deepEqual(JSON.parse(await tail.out.next()), piece);
    fs.appendFileSync(server.tree.at('log'), 'c\n');
    assert.deepEqual(JSON.parse(await tail.out.next()), { uri, from: 4, to: 6, text: 'c\n' });
    fs.writeFileSync(server.tree.at('log'), 'x');
    assert.deepEqual(JSON.parse(await tail.out.next()), { uri, event: 'truncated' });
    assert.deepEqual(JSON.parse(await tail.out.next()), { uri, from: 0, to: 1, text: 'x' });
});

test('header names the file that grew', async (t) => {
    const server = await serve(t, { files: { a: 'a\n', b: 'b\n' } });
    const tail = follow(t, [server.url, server.uri('a'), server.uri('b')]);
    await tail.next('b');
    fs.appendFileSync(server.tree.at('a'), 'more\n');
    await tail.next('more');
    fs.appendFileSync(server.tree.at('a'), 'yet more\n');
    await tail.next('yet more');
    const head = (name) => `==> ${server.uri(name)} <==`;
    assert.deepEqual(tail.printed(), [head('a'), 'a', '', head('b'), 'b', '', head('a'), 'more', 'yet more']);
});

test('third-party server without ranges: only the new end is printed', async (t) => {
    const { url, change } = await stranger(t);
    await change(numbers(1, 20));
    assert.equal(await good(t, ['tail', '-n2', url, 'note://it']), numbers(19, 20));
    const tail = follow(t, ['-n1', url, 'note://it']);
    await tail.next('line 20');
    await change(numbers(1, 21));
    await tail.next('line 21');
    await change('anew\n');
    await tail.said(/truncated/);
    await tail.next('anew');
    assert.deepEqual(tail.printed(), ['line 20', 'line 21', 'anew']);
});

test('tail resumes after a server outage', async (t) => {
    const port = await freePort();
    const first = await serve(t, { files: { log: 'one\n' }, http: `127.0.0.1:${port}` });
    const tail = follow(t, [first.url, first.uri('log')]);
    await tail.next('one');
    fs.appendFileSync(first.tree.at('log'), 'two\n');
    await tail.next('two');
    await first.stop();
    await tail.said(/disconnected/);
    fs.appendFileSync(first.tree.at('log'), 'three\n');
    await serve(t, { tree: first.tree, http: `127.0.0.1:${port}` });
    await tail.next('three');
    assert.deepEqual(tail.printed(), ['one', 'two', 'three']);
});

test('tail of a GiB log costs only the bytes read', async (t) => {
    const server = await serve(t, { files: { log: '' } });
    fs.truncateSync(server.tree.at('log'), 2 ** 30);
    fs.appendFileSync(server.tree.at('log'), `\n${numbers(1, 3)}`);
    const tail = follow(t, ['-n3', server.url, server.uri('log')]);
    await tail.next('line 3');
    fs.appendFileSync(server.tree.at('log'), 'new\n');
    await tail.next('new');
    const peak = (pid) => Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
    assert.ok(peak(tail.program.child.pid) < 64 * 1024, `${peak(tail.program.child.pid)} KiB`);
    assert.ok(tail.printed().length === 4);
});

test('interrupt ends tail by the signal', async (t) => {
    const server = await serve(t, { files: { log: 'x\n' } });
    const tail = follow(t, [server.url, server.uri('log')]);
    await tail.next('x');
    tail.program.child.kill('SIGINT');
    assert.equal((await tail.program.exited).signal, 'SIGINT');
});

const LIES = [
    ['parts that do not meet', "part(...[[90, 93, 93], [0, 90, 93], [50, 53, 93]][count])"],
    ['parts without end', "part(...[[90, 93, 93], [0, 90, 93], [0, 0, 9e15]][count])"],
    ['a part that is not as long as it says', "{ uri: 'x:y', text: 'abc', _meta: { 'dev.tidings/range': { from: 0, to: 9e15, total: 9e15 } } }"],
    ['negative numbers', "{ uri: 'x:y', text: 'abc', _meta: { 'dev.tidings/range': { from: -3, to: 0, total: 0 } } }"],
    ['no content', "{ uri: 'x:y' }"],
];
for (const [what, code] of LIES) {
    test(`lying server ends tail: ${what}`, async (t) => {
        await bad(t, 65, /tidings tail: /, ['tail', '-q', 'x:y', ...liar(code)]);
    });
}

test('log cannot control the terminal', { skip: noTerminal }, async (t) => {
    const server = await serve(t, { files: { log: 'red \x1b[31m\x07\n' } });
    const screen = new Terminal(t, [BIN, 'tail', '-f', server.url, server.uri('log')]);
    await screen.shows('red \\x1b[31m\\x07');
    fs.appendFileSync(server.tree.at('log'), 'title \x1b]0;x\x07 \u202e\n');
    await screen.shows('title \\x1b]0;x\\x07 \\u202e');
    fs.appendFileSync(server.tree.at('log'), Buffer.from([0, 255, 0x1b]));
    await screen.shows('3 B that are not text');
    assert.ok(!screen.screen.includes('\x1b]0'));
    screen.type('\x03');
    await screen.ended();
});

test('read prints the requested bytes or lines of a resource', async (t) => {
    const server = await serve(t, { files: { log: numbers(1, 9), big: 'x'.repeat(5000) }, args: ['--max-read', '4K'] });
    const { url: other, change } = await stranger(t);
    await change(numbers(1, 9));
    for (const [url, uri] of [[server.url, server.uri('log')], [other, 'note://it']]) {
        const read = (...args) => good(t, ['read', ...args, url, uri]);
        assert.equal(await read('--range', '0-3'), 'line');
        assert.equal(await read('--range=5-5'), '1');
        assert.equal(await read('--range', '56-'), 'line 9\n');
        assert.equal(await read('--range', '-2'), '9\n');
        assert.equal(await read('--lines', '2-3'), numbers(2, 3));
        assert.equal(await read('--lines', '4'), numbers(4, 4));
        assert.equal(await read('--lines', '8-'), numbers(8, 9));
        assert.equal(await read('--lines', '-1'), numbers(9, 9));
        assert.equal(await read('--last', '2'), numbers(8, 9));
        assert.equal(objects(await read('--json', '--last', '1'))[0].contents[0].text, 'line 9\n');
        await bad(t, 64, /63|it has/, ['read', '--range', '1000-', url, uri]);
    }
    const refused = await bad(t, 69, /--range, --lines or --last/, ['read', server.url, server.uri('big')]);
    assert.match(refused.stderr, /4096|4000|range/);
    assert.equal((await good(t, ['read', '--range', '0-9', server.url, server.uri('big')])).length, 10);
});

for (const args of [['--range', '9-3'], ['--range', 'x'], ['--range', '-0'], ['--lines', '0-1'], ['--lines', '1-2x'], ['--last', '0'], ['--last', '1', '--lines', '1']]) {
    test(`read refuses ${args.join(' ')} and names accepted values`, async (t) => {
        await bad(t, 64, /--(range|lines|last) /, ['read', ...args, 'http://127.0.0.1:1/mcp', 'x:y']);
    });
}
