/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the log of a database and as a mark of commits. Then a log that is made as the bytes
 * say: with an end that a crash tore it is never damaged, with a byte changed before the last two
 * commits it always is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite_damage.h"
#include "support/wal_made.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wal_made made;

static void check(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

static void scan_bytes(const uint8_t *data, size_t size)
{
    struct wal_facts f;
    struct commit_mark mark;
    unsigned char again[COMMIT_MARK_SIZE];
    made.size = size < sizeof made.bytes ? size : sizeof made.bytes;
    memcpy(made.bytes, data, made.size);
    wal_made_scan(&made, &f);
    check(f.committed <= f.frames && f.frames <= made.size / (WAL_FRAME_SIZE + 512));
    check(f.is_damaged == (f.proof != 0) && (!f.is_damaged || f.proof > f.frames));
    if (commit_mark_decode(data, size, &mark)) {
        commit_mark_encode(&mark, again);
        struct commit_mark back;
        check(commit_mark_decode(again, sizeof again, &back) && back.position == mark.position);
    }
}

/* The first byte: byte order; then what is changed; then transactions, each a byte. */
static void scan_made(const uint8_t *data, size_t size)
{
    struct wal_facts f;
    unsigned ends[WAL_MADE_MAX] = {0}, count = 0;
    struct wal_identity id = {data[1], {data[1] * 77u, 5}};
    memset(&made, 0, sizeof made);
    wal_made_begin(&made, &id, (data[0] & 1) != 0);
    for (size_t i = 4; i < size && made.at + 4 <= WAL_MADE_MAX; i++) {
        wal_made_add(&made, 1 + data[i] % 4, true, data[i]);
        ends[count++] = made.at;
    }
    unsigned last = count > 1 ? ends[count - 2] : 0, all = made.at;
    uint32_t change = data[2] | (uint32_t)data[3] << 8;
    if (data[0] & 2) {
        for (unsigned i = last; i < all; i++) {
            if (change >> (i - last) & 1) {
                memset(made.bytes + wal_made_offset(i), data[1], WAL_MADE_FRAME);
            }
        }
        wal_made_scan(&made, &f);
        check(!f.is_damaged && f.committed >= last);
    } else if (count > 3) {
        size_t at = change % wal_made_offset(ends[count - 3]);
        made.bytes[at] = (unsigned char)(made.bytes[at] ^ 1u << (data[0] >> 5));
        wal_made_scan(&made, &f);
        check(f.is_damaged);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scan_bytes(data, size);
    if (size > 4) {
        scan_made(data, size);
    }
    return 0;
}
