/* SPDX-License-Identifier: MIT
 *
 * Notifications by what they say of themselves; whether that is so shows when one is opened.
 */
#include "store/heard.h"

#include "base/mem.h"

void heard_clear(struct heard *h)
{
    while (h->count > 0) {
        mem_free(h->texts[--h->count]);
    }
    h->notified = 0;
}

bool heard_add(struct heard *h, struct tidings_str text, uint64_t followed)
{
    struct row_notice_head head = {0};
    bool is_notice = row_notice_parse(text, &head);
    if (!is_notice && !str_to_u64(text, &head.to)) {
        return false;
    }
    if (head.to <= followed) {
        return true;
    }
    h->notified = head.to > h->notified ? head.to : h->notified;
    char *copy = is_notice && h->count < HEARD_MAX ? str_dup(text) : NULL;
    if (copy) {
        h->texts[h->count++] = copy;
    }
    return true;
}

bool heard_find(const struct heard *h, uint64_t followed, struct row_notice_head *ret)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (row_notice_parse(tidings_str(h->texts[i]), ret) && ret->from == followed + 1) {
            return true;
        }
    }
    return false;
}
