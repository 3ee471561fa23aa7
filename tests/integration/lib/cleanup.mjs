// SPDX-License-Identifier: MIT
//
// Undo the steps of a test in reverse order (node:test runs its hooks in forward order), and run all of them even if
// one fails.

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
