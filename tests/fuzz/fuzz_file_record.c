/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the record of a directory, with the sum that belongs to them: refused, or read into
 * a tree whose record says the same.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "sources/file_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tidings_str target(const struct file_node *node)
{
    return node->extra ? tidings_str(node->extra) : STR_EMPTY;
}

static int lead(void *user, struct file_node *node, struct tidings_str to)
{
    (void)user;
    node->extra = str_dup(to);
    return node->extra ? 0 : TIDINGS_E_NOMEM;
}

static void forget(struct file_tree *t)
{
    for (struct file_node *node = t->root->children; node; node = node->next) {
        mem_free(node->extra);
        node->extra = NULL;
    }
    file_tree_deinit(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct tidings_str path = STR("a");
    struct file_tree first, second;
    struct buf record, again;
    if (file_tree_init(&first, 1000) < 0 || file_tree_init(&second, 1000) < 0) {
        abort();
    }
    buf_init(&record, SIZE_MAX / 2);
    buf_init(&again, SIZE_MAX / 2);
    (void)file_record_read(&first, first.root, path, tidings_strn((const char *)data, size), lead,
                           NULL);
    forget(&first);
    if (file_tree_init(&first, 1000) < 0) {
        abort();
    }
    uint64_t sum =
        str_hash(tidings_strn((const char *)data, size), str_hash(path, FILE_RECORD_SEED));
    buf_put(&record, data, size);
    for (int i = 0; i < 8; i++) {
        buf_putc(&record, (char)(sum >> 8 * i & 0xff));
    }
    if (file_record_read(&first, first.root, path, buf_str(&record), lead, NULL) == 0) {
        file_record_write(first.root, path, target, &again);
        if (file_record_read(&second, second.root, path, buf_str(&again), lead, NULL) < 0 ||
            again.len != record.len || second.count != first.count) {
            abort();
        }
    }
    forget(&first);
    forget(&second);
    buf_deinit(&record);
    buf_deinit(&again);
    return 0;
}
