// SPDX-License-Identifier: MIT
//
// Splits chunks of text into complete lines. It scans each chunk once, so the cost of a line of many megabytes is
// proportional to its length.

export class LineSplitter {
    #pieces = [];

    /** The lines that this chunk completes, without their newlines. */
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

    /** The rest after the last newline. */
    get rest() {
        return this.#pieces.join('');
    }
}
