// SPDX-License-Identifier: MIT
//
// Waits without sleep: every wait has a deadline and a description of its event. Invariant: no test waits for time to
// pass if it can await an event.

/** TIDINGS_SLOW=1 (sanitizer builds, loaded machines) stretches every deadline. */
export const slow = process.env.TIDINGS_SLOW && process.env.TIDINGS_SLOW !== '0' ? 6 : 1;

/** The deadline in ms for anything that should happen at once. */
export const DEADLINE = 10_000 * slow;

/** Resolve with `promise`, or fail with "timed out waiting for `what`". */
export async function within(promise, what, ms = DEADLINE) {
    let timer;
    const late = new Promise((_, reject) => {
        const text = typeof what === 'function' ? what : () => what;
        timer = setTimeout(() => {
            reject(new Error(`timed out after ${ms} ms waiting for ${text()}`));
        }, ms);
    });
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}

/** For states without an event (an expiry): poll until `probe` is truthy. */
export async function eventually(probe, what, ms = DEADLINE) {
    const end = Date.now() + ms;
    for (;;) {
        const value = await probe();
        if (value) {
            return value;
        }
        if (Date.now() > end) {
            throw new Error(`timed out after ${ms} ms waiting until ${what}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

/**
 * A queue with waiting readers. `next(match)` takes the first matching item, now or later; other items remain.
 * `end()` makes every later wait fail with its reason.
 */
export class Inbox {
    items = [];
    seen = [];
    #waiters = new Set();
    #ended;

    #over;

    /** Resolves at the end of the queue. */
    over = new Promise((resolve) => {
        this.#over = resolve;
    });

    constructor(name) {
        this.name = name;
    }

    get ended() {
        return this.#ended !== undefined;
    }

    push(item) {
        this.seen.push(item);
        for (const waiter of this.#waiters) {
            if (waiter.match(item)) {
                this.#waiters.delete(waiter);
                waiter.resolve(item);
                return;
            }
        }
        this.items.push(item);
    }

    end(reason = 'it ended') {
        this.#ended ??= reason;
        for (const waiter of this.#waiters) {
            waiter.reject(
                new Error(`${this.name}: ${this.#ended} while waiting for ${waiter.what}`),
            );
        }
        this.#waiters.clear();
        this.#over();
    }

    next(match = () => true, what = 'the next item', ms = DEADLINE) {
        const at = this.items.findIndex(match);
        if (at >= 0) {
            return Promise.resolve(this.items.splice(at, 1)[0]);
        }
        if (this.ended) {
            return Promise.reject(new Error(`${this.name}: ${this.#ended}, never saw ${what}`));
        }
        let waiter;
        const arrival = new Promise((resolve, reject) => {
            waiter = { match, what, resolve, reject };
            this.#waiters.add(waiter);
        });
        const text = () => `${what} from ${this.name}; seen: ${summary(this.seen)}`;
        return within(arrival, text, ms).finally(() => this.#waiters.delete(waiter));
    }
}

function summary(items) {
    const shown = items.slice(-12).map((item) => JSON.stringify(item));
    const text = shown.join('\n    ');
    return items.length === 0 ? 'nothing' : `${items.length} item(s), last:\n    ${text}`;
}
