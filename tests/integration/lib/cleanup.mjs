// SPDX-License-Identifier: MIT
//
// Undo what a test did, last thing first (node:test itself runs its hooks first thing first), and
// all of it even when one step fails.

const stacks = new WeakMap();

export function defer(t, step) {
    if (!stacks.has(t)) {
        stacks.set(t, []);
        t.after(() => unwind(stacks.get(t)));
    }
    stacks.get(t).push(step);
}

async function unwind(stack) {
    const failures = [];
    while (stack.length > 0) {
        try {
            await stack.pop()();
        } catch (error) {
            failures.push(error);
        }
    }
    if (failures.length > 0) {
        throw failures[0];
    }
}
