// SPDX-License-Identifier: MIT
//
// Run a program under the system call filter of a systemd unit, without systemd: the groups come from systemd 252
// (syscalls-systemd-252.txt), the numbers from this machine's headers, and Perl installs the filter. Like systemd
// 252, it ignores an unknown group or call.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';

const here = new URL('.', import.meta.url);

/** Group -> its calls and groups, from the output of systemd-analyze or from our copy of it. */
export function parseGroups(text) {
    const groups = new Map();
    let group = [];
    for (const word of text.replace(/#.*$/gm, '').split(/\s+/).filter(Boolean)) {
        const begins = word.match(/^(@[a-z-]+):$/);
        if (begins) {
            groups.set(begins[1], (group = []));
        } else {
            group.push(word);
        }
    }
    return groups;
}

export const groups252 = parseGroups(fs.readFileSync(new URL('syscalls-systemd-252.txt', here), 'utf8'));

const expand = (word) => (word.startsWith('@') ? (groups252.get(word) ?? []).flatMap(expand) : [word]);

/** The names that the `SystemCallFilter=` lines of a unit permit; lines that start with ~ remove names. */
export function allowedCalls(unit) {
    const allowed = new Set(expand('@default'));
    for (const [, minus, words] of unit.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
        for (const name of words.split(' ').filter(Boolean).flatMap(expand)) {
            void (minus ? allowed.delete(name) : allowed.add(name));
        }
    }
    return allowed;
}

/** Name -> number, from the headers of the C library. */
function callNumbers() {
    const text = execFileSync('cc', ['-E', '-dM', '-include', 'sys/syscall.h', '-x', 'c', '/dev/null'], { encoding: 'utf8' });
    return new Map([...text.matchAll(/^#define __NR_(\w+) (\d+)$/gm)].map(([, name, number]) => [name, Number(number)]));
}

const ARCHITECTURES = { x64: 0xc000003e, arm64: 0xc00000b7 };

// A struct sock_filter is code, jump if true, jump if false, operand. Other calls fail with EPERM.
const INSTALL = String.raw`
use strict;
my ($prctl, $seccomp, $arch, $numbers, @program) = @ARGV;
my @f = ([0x20, 0, 0, 4], [0x15, 1, 0, $arch], [0x06, 0, 0, 0x80000000], [0x20, 0, 0, 0]);
push @f, [0x15, 0, 1, $_], [0x06, 0, 0, 0x7fff0000] for split /,/, $numbers;
push @f, [0x06, 0, 0, 0x00050001];
my $bytes = join '', map { pack 'S C C L', @$_ } @f;
my $list = pack 'S x6 P', scalar @f, $bytes;
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
syscall($seccomp + 0, 1, 0, $list) == 0 or die "seccomp: $!";
exec @program or die "$program[0]: $!";
`;

/** The command prefix that runs a program under the filter and the capabilities of this unit. */
export function underFilterOf(unit) {
    const numbers = callNumbers();
    const list = [...allowedCalls(unit)].map((name) => numbers.get(name)).filter((n) => n !== undefined);
    const isEmpty = process.getuid() === 0 && /^CapabilityBoundingSet=$/m.test(unit);
    const bounds = isEmpty ? ['/usr/bin/setpriv', '--bounding-set=-all'] : [];
    return [...bounds, '/usr/bin/perl', '-e', INSTALL, numbers.get('prctl'), numbers.get('seccomp'), ARCHITECTURES[process.arch], list.join(',')].map(String);
}
