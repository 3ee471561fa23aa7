// SPDX-License-Identifier: MIT
//
// The network transports over TLS: the contract does not change. Each file creates its own certificate.

import { after } from 'node:test';

import { Certificates } from '../../integration/lib/certs.mjs';
import { http, tcp } from './adapters.mjs';
import { SocketPeer } from './lines.mjs';
import { websocket } from './websocket.mjs';

const certs = new Certificates({ after }).make('server');

const secured = (name, adapter) => ({
    ...adapter,
    name,
    async serve(t, options = {}) {
        const args = [...certs.args('server'), ...(options.args ?? [])];
        const server = await adapter.serve(t, { ...options, args });
        server.secure = certs.client();
        return server;
    },
});

export const https = secured('https', http);
export const wss = secured('wss', websocket);

export const tls = {
    ...secured('tls', tcp),
    connect(t, server) {
        const { hostname, port } = new URL(server.doors[0]);
        const where = { host: hostname, port: Number(port), secure: server.secure };
        return SocketPeer.connect(t, where);
    },
};
