// SPDX-License-Identifier: MIT
//
// The table of Autobahn's cases (tests/data/autobahn.tsv, which explains its columns), as writes to a socket.

import { readFileSync } from 'node:fs';

import { encodeFrame } from './websocket.mjs';

const table = readFileSync(new URL('../../data/autobahn.tsv', import.meta.url), 'utf8');

const payloadOf = (text) => {
    const [, count, unit] = /^(\d+)\*((?:..)+)$/.exec(text) ?? [];
    return count ? Buffer.alloc(Number(count), unit, 'hex') : Buffer.from(text, 'hex');
};

const chopped = (bytes, size) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));

/** The writes of one frame; if the outcome is due before its end, only those until then. */
function writesOf(frame, chop, masked) {
    const [, first, text, times = '1'] = /^(..):([^^]*)(?:\^(\d+))?$/.exec(frame);
    const [before, after] = text.split('!');
    const bytes = encodeFrame(Number.parseInt(first, 16), payloadOf(text.replace(/[|!]/g, '')), { masked });
    const late = after === undefined ? 0 : after.length / 2;
    const ends = before.split('|').slice(1).map((piece) => piece.length / 2);
    const writes = [];
    let rest = bytes.subarray(0, bytes.length - late);
    for (let i = ends.length - 1; i >= 0; i -= 1) {
        const at = rest.length - ends[i];
        writes.unshift(rest.subarray(at));
        rest = rest.subarray(0, at);
    }
    writes.unshift(rest);
    const whole = chop > 0 ? writes.flatMap((piece) => chopped(piece, chop)) : writes;
    return Array.from({ length: Number(times) }, () => whole).flat().filter(({ length }) => length > 0);
}

/** The writes of frames without waits between them. */
function writesOfAll(frames, chop, masked) {
    const writes = frames.trim().split(' ').flatMap((frame) => writesOf(frame, Number(chop), masked));
    return chop === '-' && !frames.includes('|') ? [Buffer.concat(writes)] : writes;
}

const wordsOf = (outcome) => outcome.trim().split(' ').filter((word) => word !== '').flatMap((word) => {
    const [what, times = '1'] = word.split('*');
    return Array.from({ length: Number(times) }, () => what);
});

/**
 * { number, outcome: ['T', 'F1007', ...], pongs: [payload, ...], parts(masked): [{ writes, outcome }, ...] } for each
 * case: it waits between two parts. Omits everything after the expected failure.
 */
export const cases = table.split('\n').filter((line) => line !== '' && !line.startsWith('#')).map((line) => {
    const [number, chop, outcome, frames] = line.split('\t');
    const outcomes = outcome.split('~').map(wordsOf);
    const pings = frames.split(' ').filter((frame) => frame.startsWith('89:')).map((frame) => payloadOf(frame.slice(3)));
    return {
        number,
        outcome: outcomes.flat(),
        pongs: pings.slice(0, outcomes.flat().filter((word) => word === 'P').length),
        parts: (masked) => frames.split(' ! ')[0].split('~').map((part, i) =>
            ({ writes: writesOfAll(part, chop, masked), outcome: outcomes[i] })),
    };
});

const DEFLATE = 'permessage-deflate; client_no_context_takeover; client_max_window_bits';

/** Its compression offers: group 12 uses the first, group 13 each of them, in 18 message sizes. */
export const offers = [
    '',
    '; server_no_context_takeover',
    '; server_max_window_bits=8',
    '; server_max_window_bits=15',
    '; server_no_context_takeover; server_max_window_bits=8',
    '; server_no_context_takeover; server_max_window_bits=15',
    `; server_no_context_takeover; server_max_window_bits=8, ${DEFLATE}; server_no_context_takeover, ${DEFLATE}`,
].map((rest) => DEFLATE + rest);
