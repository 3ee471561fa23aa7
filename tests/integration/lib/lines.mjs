// SPDX-License-Identifier: MIT
//
// Text that comes in pieces, given out in whole lines. Each piece is looked at once, so a line of many megabytes costs no more than its length.

export class LineSplitter {
    #pieces = [];

    /** The lines that this piece completes, without their newlines. */
    take(text) {
        const [end, ...lines] = text.split('\n');
        this.#pieces.push(end);
        if (lines.length === 0) {
            return [];
        }
        lines.unshift(this.rest);
        this.#pieces = [lines.pop()];
        return lines;
    }

    /** What came after the last newline. */
    get rest() {
        return this.#pieces.join('');
    }
}
