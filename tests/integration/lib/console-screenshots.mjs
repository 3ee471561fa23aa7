// SPDX-License-Identifier: MIT
//
// Screenshots of the console for the documentation: `node console-screenshots.mjs FOLDER` (by
// tools/console-screenshots). Uses its own server, some readers, a writer and Chromium.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

const folder = process.argv[2];
const program = fileURLToPath(new URL('../../../build/release/tidings', import.meta.url));
const tree = mkdtempSync(path.join(tmpdir(), 'notes-'));
const note = (n) => writeFileSync(path.join(tree, 'plan.md'), `# Plan\n\n- harvest: ${n} apples\n- press the cider\n`);
note(3);
writeFileSync(path.join(tree, 'stock.json'), '{"apples": 3, "pears": 5}\n');

const server = spawn(program, ['serve', '--http', '127.0.0.1:0', '--console', '--system', '--mount', `file:///notes/=${tree}`], { stdio: ['ignore', 'ignore', 'pipe'] });
const url = await new Promise((resolve, reject) => {
    let said = '';
    server.stderr.on('data', (text) => {
        said += text;
        const found = /http:\/\/\S+\/mcp/.exec(said);
        if (found) resolve(found[0]);
    });
    server.on('exit', () => reject(new Error(said)));
});
const watchers = ['first', 'second', 'third'].map(() => spawn(program, ['watch', url, 'file:///notes/'], { stdio: 'ignore' }));

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-dev-shm-usage'] });
try {
    const page = await browser.newPage({ viewport: { width: 1180, height: 720 }, colorScheme: 'light' });
    const writing = setInterval(() => note(Math.floor(Math.random() * 90)), 60);
    await page.goto(url.replace(/mcp$/, 'console'));
    await page.waitForFunction(() => document.querySelector('path.curve')?.getAttribute('d').split('L').length > 25, null, { timeout: 60_000 });
    await page.screenshot({ path: path.join(folder, 'console-overview.png') });
    clearInterval(writing);

    await page.goto(`${url.replace(/mcp$/, 'console')}#/resources`);
    await page.getByRole('button', { name: 'file:///notes/' }).click();
    await page.getByRole('button', { name: 'plan.md' }).click();
    await page.getByRole('heading', { name: 'Content' }).waitFor();
    await page.getByText('live', { exact: true }).waitFor();
    note(100);
    await page.getByText('What changed since').waitFor();
    await page.screenshot({ path: path.join(folder, 'console-resources.png') });

    await page.goto(`${url.replace(/mcp$/, 'console')}#/peers`);
    await page.locator('tbody tr').nth(2).waitFor();
    await page.screenshot({ path: path.join(folder, 'console-peers.png') });
} finally {
    await browser.close();
    for (const child of [...watchers, server]) child.kill();
    rmSync(tree, { recursive: true });
}
