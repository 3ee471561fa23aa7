// SPDX-License-Identifier: MIT
//
// The table of Autobahn's cases (tests/data/autobahn.tsv, which says what its columns mean), as writes to a socket.

import { readFileSync } from 'node:fs';

import { encodeFrame } from './websocket.mjs';

const table = readFileSync(new URL('../../data/autobahn.tsv', import.meta.url), 'utf8');

const payloadOf = (text) => {
    const [, count, byte] = /^(\d+)\*(..)$/.exec(text) ?? [];
    return count ? Buffer.alloc(Number(count), byte, 'hex') : Buffer.from(text, 'hex');
};

/** The writes of one frame; where the outcome is due before its end, those until then. */
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
    const whole = chop === 0 ? writes : writes.flatMap((piece) =>
        Array.from({ length: Math.ceil(piece.length / chop) }, (_, i) => piece.subarray(i * chop, (i + 1) * chop)));
    return Array.from({ length: Number(times) }, () => whole).flat().filter(({ length }) => length > 0);
}

/** { number, outcome: ['T', 'F1007', …], writes(masked) } for each; what comes after it must have failed is left out. */
export const cases = table.split('\n').filter((line) => line !== '' && !line.startsWith('#')).map((line) => {
    const [number, chop, outcome, frames] = line.split('\t');
    return {
        number,
        outcome: outcome.split(' ').flatMap((word) => {
            const [what, times = '1'] = word.split('*');
            return Array.from({ length: Number(times) }, () => what);
        }),
        writes: (masked) => frames.split(' ! ')[0].split(' ').flatMap((frame) => writesOf(frame, Number(chop), masked)),
    };
});
