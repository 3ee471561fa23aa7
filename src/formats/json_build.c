/* SPDX-License-Identifier: MIT
 *
 * Builds JSON documents: their blocks, and the stack of incomplete values.
 *
 * A container with many values does not copy them from the stack: the stack's memory becomes a
 * block of the document, and the few values below the container move to a new stack.
 */
#include "formats/json_build.h"

#include <string.h>

#include "base/mem.h"

#define LARGE_STACK 4096u          /* minimum number of values to keep in place */
#define BLOCK_BYTES_MIN 2048u      /* size of the second and later blocks, doubling … */
#define BLOCK_BYTES_MAX (1u << 18) /* … up to here */

static void build_fail(struct build *b)
{
    build_discard(b);
}

static void add_block(struct value_document *d, struct value_block *block)
{
    block->document = d;
    block->next = d->block.next;
    d->block.next = block;
}

int build_init(struct build *b, size_t values, size_t text_bytes)
{
    const size_t head = sizeof(struct value_document) / sizeof(struct json);
    b->stack = b->small;
    b->top = 0;
    b->cap = BUILD_SMALL_STACK;
    b->depth = 0;
    b->may_repeat = false;
    b->repeated = 0;
    b->document = NULL;
    if (values < VALUE_BLOCK_MAX - head && text_bytes < UINT32_MAX) {
        b->document = mem_alloc((head + values) * sizeof(struct json) + text_bytes);
    }
    if (!b->document) {
        return TIDINGS_E_NOMEM;
    }
    b->document->block = (struct value_block){.document = b->document};
    atomic_init(&b->document->refs, 1);
    b->block = &b->document->block;
    b->slots = (struct json *)(void *)b->document + head;
    b->slots_end = b->slots + values;
    b->text = (char *)b->slots_end;
    b->text_end = b->text + text_bytes;
    return 0;
}

static void free_stack(struct build *b)
{
    if (b->stack != b->small) {
        mem_free(b->stack - 1);
    }
    b->stack = b->small;
    b->top = b->cap = 0;
}

void build_discard(struct build *b)
{
    for (unsigned i = 0; i < b->depth; i++) {
        mem_free(b->open[i].index);
    }
    b->depth = 0;
    free_stack(b);
    if (b->document) {
        value_free(b->document);
        b->document = NULL;
    }
    b->slots = b->slots_end = NULL;
    b->text = b->text_end = NULL;
}

struct json *build_finish(struct build *b)
{
    struct value_document *d = b->document;
    if (!d) {
        return NULL;
    }
    d->root = b->stack[0];
    d->root.tag |= (uint32_t)(&d->root - (struct json *)(void *)d) << VALUE_TYPE_BITS;
    free_stack(b);
    return &d->root;
}

/* A separate stack reserves room for a block header at its start. */
struct json *build_grow(struct build *b)
{
    size_t cap = 2 * b->cap;
    bool is_own = b->stack != b->small;
    struct json *memory = NULL;
    if (b->document && cap < VALUE_BLOCK_MAX) {
        memory = mem_realloc(is_own ? b->stack - 1 : NULL, (cap + 1) * sizeof(*memory));
    }
    if (!memory) {
        build_fail(b);
        return NULL;
    }
    if (!is_own) {
        memcpy(memory + 1, b->small, b->top * sizeof(*memory));
    }
    b->stack = memory + 1;
    b->cap = cap;
    return &b->stack[b->top++];
}

/* A block with room for this many bytes plus its header. */
static struct value_block *new_block(struct build *b, size_t bytes)
{
    struct value_block *block = b->document ? mem_alloc(sizeof(*block) + bytes) : NULL;
    if (!block) {
        build_fail(b);
        return NULL;
    }
    add_block(b->document, block);
    return block;
}

static struct json *new_slots(struct build *b, size_t n)
{
    size_t bytes = (size_t)((char *)b->slots_end - (char *)b->block) * 2;
    bytes = bytes < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : bytes;
    bytes = bytes > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : bytes;
    size_t values = bytes / sizeof(struct json);
    values = values < n ? n : values;
    struct value_block *block = new_block(b, values * sizeof(struct json));
    if (!block) {
        return NULL;
    }
    b->block = block;
    b->slots = (struct json *)(void *)(block + 1);
    b->slots_end = b->slots + values;
    return b->slots;
}

static struct json *take_slots(struct build *b, size_t n)
{
    struct json *slots = (size_t)(b->slots_end - b->slots) >= n ? b->slots : new_slots(b, n);
    if (slots) {
        b->slots = slots + n;
    }
    return slots;
}

static char *build_text(struct build *b, size_t n)
{
    if ((size_t)(b->text_end - b->text) < n) {
        size_t bytes = n < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : n;
        struct value_block *block = n < UINT32_MAX ? new_block(b, bytes) : NULL;
        if (!block) {
            build_fail(b);
            return NULL;
        }
        b->text = (char *)(block + 1);
        b->text_end = b->text + bytes;
    }
    char *text = b->text;
    b->text += n;
    return text;
}

/* ---- values ---------------------------------------------------------------------------------- */

int build_check_key(struct build *b)
{
    struct build_open *open = &b->open[b->depth - 1];
    const struct json *items = b->stack + open->base;
    const struct json *key = b->stack + b->top - 2;
    size_t number = (size_t)(key - items) / 2;
    if (number < VALUE_FEW) {
        for (const struct json *other = items; other < key; other += 2) {
            if (other->len == key->len && memcmp(other->text, key->text, key->len) == 0) {
                return 0;
            }
        }
        return 1;
    }
    if (!open->index || number > open->index->mask / 4 * 3) {
        mem_free(open->index);
        open->index = value_index_create(items, number);
        if (!open->index) {
            build_fail(b);
            return TIDINGS_E_NOMEM;
        }
    }
    return value_index_add(open->index, items, number) ? 1 : 0;
}

static bool put_string(struct build *b, struct json *v, struct tidings_str s)
{
    char *text = build_text(b, s.len + 1);
    if (!text) {
        return false;
    }
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    *v = (struct json){.text = text, .len = (uint32_t)s.len, .tag = JV_STRING};
    return true;
}

bool build_begin(struct build *b, enum jv_type type)
{
    struct json *v = build_push(b);
    if (!v || b->depth == BUILD_MAX_DEPTH) {
        build_fail(b);
        return false;
    }
    v->tag = type;
    b->open[b->depth].base = b->top;
    b->open[b->depth].index = NULL;
    b->depth++;
    return true;
}

bool build_key(struct build *b, struct tidings_str key)
{
    struct json *v = build_push(b);
    return v && put_string(b, v, key);
}

bool build_null(struct build *b)
{
    struct json *v = build_push(b);
    if (v) {
        *v = (struct json){.tag = JV_NULL};
    }
    return v != NULL;
}

/* The first member with the same key as member `i`, from 0. */
static size_t first_like(const struct value_index *index, const struct json *items, size_t i)
{
    struct tidings_str key = value_text(&items[2 * i]);
    size_t at = 0;
    if (index) {
        return value_index_find(index, items, key) - 1;
    }
    while (!tidings_str_eq(value_text(&items[2 * at]), key)) {
        at++;
    }
    return at;
}

/* Merges members with the same key into one, with the last value. Returns the number of members
 * left; on failure 0, and `b` has failed. */
static size_t drop_repeated(struct build *b, struct json *items, size_t count)
{
    struct value_index *index = count > VALUE_FEW ? value_index_create(items, count) : NULL;
    size_t left = 0;
    if (count > VALUE_FEW && !index) {
        build_fail(b);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        size_t first = first_like(index, items, i);
        items[2 * first + 1] = items[2 * i + 1];
        if (first < i) {
            items[2 * i].tag = JV_NULL; /* no longer a key */
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (items[2 * i].tag == JV_STRING) {
            items[2 * left] = items[2 * i];
            items[2 * left + 1] = items[2 * i + 1];
            left++;
        }
    }
    b->repeated += (unsigned)(count - left);
    if (left == count) {
        b->open[b->depth - 1].index = index; /* keep it */
    } else {
        mem_free(index);
    }
    return left;
}

/* Turns the stack into a block, whose values from `base` on stay in place. */
static struct json *keep_stack(struct build *b, size_t base)
{
    struct json *memory = b->stack - 1;
    struct json *smaller = mem_realloc(memory, (b->top + 1) * sizeof(*memory));
    memory = smaller ? smaller : memory;
    memcpy(b->small, memory + 1, base * sizeof(*memory));
    add_block(b->document, (struct value_block *)(void *)memory);
    b->stack = b->small;
    b->cap = BUILD_SMALL_STACK;
    return memory + 1 + base;
}

bool build_end(struct build *b)
{
    if (!b->document) {
        return false;
    }
    struct build_open *open = &b->open[b->depth - 1];
    size_t base = open->base, n = b->top - base;
    bool is_object = value_type(&b->stack[base - 1]) == JV_OBJECT;
    if (is_object && b->may_repeat && n > 0) {
        n = 2 * drop_repeated(b, b->stack + base, n / 2);
        b->top = base + n;
        if (n == 0) {
            return false;
        }
    }
    size_t count = is_object ? n / 2 : n;
    bool is_large = is_object && count > VALUE_FEW;
    if (is_large && !open->index) {
        open->index = value_index_create(b->stack + base, count);
        if (!open->index) {
            build_fail(b);
            return false;
        }
    }
    struct json *items;
    const struct json *block;
    if (n >= LARGE_STACK && base <= BUILD_SMALL_STACK) {
        items = keep_stack(b, base);
        block = items - base - 1;
    } else {
        items = take_slots(b, n + is_large);
        if (!items) {
            return false;
        }
        items += is_large;
        memcpy(items, b->stack + base, n * sizeof(*items));
        block = (const struct json *)(const void *)b->block;
    }
    for (size_t i = 0; i < n; i++) {
        items[i].tag |= (uint32_t)(items + i - block) << VALUE_TYPE_BITS;
    }
    if (is_large) {
        items[-1].index = open->index;
        add_block(b->document, &open->index->block);
    }
    b->stack[base - 1].items = items;
    b->stack[base - 1].len = (uint32_t)count;
    b->top = base;
    b->depth--;
    return true;
}

static bool copy_value(struct build *b, struct json *to, const struct json *from);

/* Copies the items of a container to contiguous places, which precede the contents of nested
 * containers. */
static bool copy_items(struct build *b, struct json *to, const struct json *from)
{
    bool is_object = value_type(from) == JV_OBJECT;
    size_t n = is_object ? 2 * (size_t)from->len : from->len;
    bool is_large = is_object && from->len > VALUE_FEW;
    struct json *items = take_slots(b, n + is_large);
    const struct json *block = (const struct json *)(const void *)b->block;
    if (!items) {
        return false;
    }
    items += is_large;
    to->items = items;
    to->len = from->len;
    for (size_t i = 0; i < n; i++) {
        if (!copy_value(b, &items[i], &from->items[i])) {
            return false;
        }
        items[i].tag |= (uint32_t)(items + i - block) << VALUE_TYPE_BITS;
    }
    if (is_large) {
        struct value_index *index = value_index_create(items, from->len);
        if (!index) {
            build_fail(b);
            return false;
        }
        items[-1].index = index;
        add_block(b->document, &index->block);
    }
    return true;
}

static bool copy_value(struct build *b, struct json *to, const struct json *from)
{
    enum jv_type type = value_type(from);
    if (type == JV_STRING || value_is_written(from)) {
        bool ok = put_string(b, to, value_text(from));
        to->tag = type;
        return ok;
    }
    *to = *from;
    to->tag = type;
    return type != JV_ARRAY && type != JV_OBJECT ? true : copy_items(b, to, from);
}

bool build_copy(struct build *b, const struct json *v)
{
    struct json *to = build_push(b);
    return to && copy_value(b, to, v);
}
