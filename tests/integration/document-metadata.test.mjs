// SPDX-License-Identifier: MIT
//
// "SEP-2093: Resource Contents Metadata and Resource Capabilities", replayed in both eras. It needs no profile. Its
// printed answers name some members of each element; those must match, and more are allowed ("servers SHOULD provide
// metadata fields when available"). hierarchy.test.mjs and reads.test.mjs test the rest of the behaviour.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { printed, serveDocuments } from './lib/document.mjs';
import { call, modern, Session } from './lib/rpc.mjs';
import { Tree } from './lib/tree.mjs';

const FILES = {
    'src/main.ts': "import { app } from './app';\n...",
    'src/app.ts': 'export const app = ...',
};

async function start(t) {
    const tree = new Tree(t, FILES);
    const mount = `file:///projects/=${path.resolve(tree.path)}`;
    const server = await serveDocuments(t, 'none', ['--mount', mount]);
    return { server, tree };
}

const ERAS = {
    legacy: async (server) => {
        const session = await Session.open(server);
        return {
            result: (method, params) => session.call(method, params),
            error: async (method, params) => (await session.send(method, params)).json.error,
        };
    },
    modern: async (server) => ({
        result: (method, params) => call(server, method, params),
        error: async (method, params) => (await modern(server, method, params)).json.error,
    }),
};

/** The members of `element` that are printed; a printed value that ends in "..." is a prefix. */
function asPrinted(element, example) {
    return Object.fromEntries(
        Object.entries(example).map(([name, value]) => {
            const elided = typeof value === 'string' && name !== 'uri' && value.endsWith('...');
            const begins = elided && element[name]?.startsWith(value.slice(0, -3));
            return [name, begins ? value : element[name]];
        }),
    );
}

function check(contents, text) {
    for (const example of printed(text).result.contents) {
        const same = contents.filter((each) => each.uri === example.uri && each.mimeType === example.mimeType);
        assert.equal(same.length, 1, `one element for ${example.uri} as ${example.mimeType}`);
        assert.deepEqual(asPrinted(same[0], example), example);
    }
}

for (const [era, join] of Object.entries(ERAS)) {
    test(`${era}: reading a listable resource returns children with their own metadata`, async (t) => {
        const { server } = await start(t);
        const { result } = await join(server);
        const { contents } = await result('resources/read', { uri: 'file:///projects/src/' });
        check(
            contents,
            `{
  "jsonrpc": "2.0",
  "id": 2,
  "result": {
    "contents": [
      {
        "uri": "file:///projects/src/main.ts",
        "name": "main.ts",
        "mimeType": "text/typescript",
        "text": "import { app } from './app';\\n..."
      },
      {
        "uri": "file:///projects/src/app.ts",
        "name": "app.ts",
        "mimeType": "text/typescript",
        "text": "export const app = ..."
      }
    ]
  }
}`,
        );
    });

    test(`${era}: metadata names all formats, the preferred one first`, async (t) => {
        const { server } = await start(t);
        const { result } = await join(server);
        const { resource } = await result('resources/metadata', { uri: 'file:///docs/report.pdf' });
        assert.equal(resource.mimeType, 'application/pdf');
        assert.deepEqual(resource._meta['dev.tidings/formats'], ['application/pdf', 'text/plain']);
        const { contents } = await result('resources/read', { uri: 'file:///docs/report.pdf' });
        assert.deepEqual(contents.map(({ mimeType }) => mimeType), resource._meta['dev.tidings/formats']);
    });

    test(`${era}: registered container lists the children that a template creates, in pages`, async (t) => {
        const { server } = await start(t);
        const { result } = await join(server);
        const uri = 'postgres://db/users';
        const first = await result('resources/list', { uri, pageSize: 2 });
        assert.deepEqual(first.resources.map((r) => r.uri), [`${uri}/1`, `${uri}/2`]);
        const rest = await result('resources/list', { uri, pageSize: 2, cursor: first.nextCursor });
        assert.deepEqual(rest.resources.map((r) => r.uri), [`${uri}/3`]);
        assert.equal(rest.nextCursor, undefined);
        const { contents } = await result('resources/read', { uri: rest.resources[0].uri });
        assert.equal(contents[0].uri, `${uri}/3`);
    });

    test(`${era}: reading another resource returns its formats, all under the requested URI`, async (t) => {
        const { server } = await start(t);
        const { result } = await join(server);
        const { contents } = await result('resources/read', { uri: 'file:///docs/report.pdf' });
        check(
            contents,
            `{
  "jsonrpc": "2.0",
  "id": 2,
  "result": {
    "contents": [
      {
        "uri": "file:///docs/report.pdf",
        "name": "Quarterly Report",
        "mimeType": "application/pdf",
        "size": 102400,
        "blob": "JVBERi0xLjQK..."
      },
      {
        "uri": "file:///docs/report.pdf",
        "name": "Quarterly Report",
        "mimeType": "text/plain",
        "size": 8192,
        "text": "Extracted text content of the PDF..."
      }
    ]
  }
}`,
        );
        assert.equal(contents.length, 2);
        // "Resource.mimeType in resources/list represents the primary or preferred format"
        const { resources } = await result('resources/list');
        assert.equal(resources.find((r) => r.uri === 'file:///docs/report.pdf').mimeType, 'application/pdf');
    });

    test(`${era}: metadata without content equals that of a list and a read`, async (t) => {
        const { server } = await start(t);
        const { result, error } = await join(server);
        const uri = 'file:///projects/src/main.ts';
        const { resource } = await result('resources/metadata', { uri });
        assert.deepEqual(
            [resource.uri, resource.name, resource.mimeType, resource.size, resource.text],
            [uri, 'main.ts', 'text/typescript', FILES['src/main.ts'].length, undefined],
        );
        assert.deepEqual(resource.capabilities, { list: false, subscribe: true });
        assert.ok(resource.annotations.lastModified);
        const { contents } = await result('resources/read', { uri });
        const { text, _meta: own, ...metadata } = contents[0];
        const { _meta: other, ...same } = resource;
        assert.deepEqual(metadata, same);
        assert.equal(text, FILES['src/main.ts']);
        assert.ok(await error('resources/metadata', { uri: `${uri}x` }));
    });

    test(`${era}: list below a URI has its direct children and needs a listable URI`, async (t) => {
        const { server } = await start(t);
        const { result, error } = await join(server);
        const below = async (uri) => (await result('resources/list', { uri })).resources.map((r) => r.uri);
        assert.deepEqual(await below('file:///projects/'), ['file:///projects/src/']);
        assert.deepEqual(await below('file:///projects/src/'), [
            'file:///projects/src/app.ts',
            'file:///projects/src/main.ts',
        ]);
        const { resource } = await result('resources/metadata', { uri: 'file:///projects/src/' });
        assert.equal(resource.capabilities.list, true);
        assert.equal(resource.mimeType, 'inode/directory');
        assert.ok(await error('resources/list', { uri: 'file:///projects/src/app.ts' }), 'not listable');
        assert.ok(await error('resources/list', { uri: 'file:///projects/none/' }), 'not there');
    });
}
