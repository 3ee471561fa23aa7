// SPDX-License-Identifier: MIT
//
// Debian's HAProxy, nginx and Caddy with the recipes of contrib/, in front of the nodes of a test. Only the addresses
// of the recipe (10.0.0.N:7777, port 8080) are replaced.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { defer } from './cleanup.mjs';
import { freePort, isOpen } from './port.mjs';
import { Program } from './server.mjs';
import { eventually } from './wait.mjs';

const PROGRAMS = { haproxy: '/usr/sbin/haproxy', nginx: '/usr/sbin/nginx', caddy: '/usr/bin/caddy' };
const contrib = new URL('../../../contrib/', import.meta.url);

export const RECIPES = ['haproxy/tidings.cfg', 'haproxy/sticky.cfg', 'nginx/tidings.conf', 'nginx/sticky.conf', 'caddy/Caddyfile'];

/** The reason why a recipe cannot run here, or false. */
export function skipOf(recipe) {
    const [kind] = recipe.split('/');
    return existsSync(PROGRAMS[kind]) ? false : `no ${kind} (Debian: ${kind})`;
}

/** Start one: { port, url } for clients. */
export async function balance(t, recipe, nodes) {
    const [kind] = recipe.split('/');
    const folder = mkdtempSync(join(tmpdir(), 'tidings-balancer-'));
    defer(t, () => rmSync(folder, { recursive: true, force: true }));
    const port = await freePort();
    let text = readFileSync(new URL(recipe, contrib), 'utf8');
    nodes.forEach((node, at) => {
        text = text.replaceAll(`10.0.0.${at + 1}:7777`, `127.0.0.1:${node.port}`);
    });
    text = text.replace('bind :8080', `bind 127.0.0.1:${port}`).replace('listen 8080', `listen 127.0.0.1:${port}`)
        .replace(/^:8080 \{/m, `{\n\tadmin off\n\tauto_https off\n}\nhttp://127.0.0.1:${port} {`);
    const file = join(folder, 'recipe');
    writeFileSync(file, text);
    let args = ['-db', '-f', file];
    if (kind === 'nginx') {
        const main = join(folder, 'nginx.conf');
        const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`);
        writeFileSync(main, `daemon off; master_process off; pid ${folder}/pid; error_log stderr warn;\n`
            + `events { worker_connections 1024; }\nhttp { access_log off; ${places.join(' ')} include ${file}; }\n`);
        args = ['-e', 'stderr', '-p', folder, '-c', main];
    }
    if (kind === 'caddy') {
        args = ['run', '--adapter', 'caddyfile', '--config', file];
    }
    const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    const program = new Program(t, PROGRAMS[kind], args, { mayFail: true, env });
    program.child.stdout.resume();
    await eventually(() => isOpen(port), `${kind} listens`);
    return { port, url: `http://127.0.0.1:${port}/mcp`, program };
}
