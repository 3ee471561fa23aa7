/* SPDX-License-Identifier: MIT
 *
 * Copying a store into another, in batches, and the digest by which the two are compared.
 */
#include "store/transfer.h"

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"

#define BATCH_ROWS 1000u
#define BATCH_BYTES (8u << 20)

/* ---- digest ---------------------------------------------------------------------------------- */

static void transfer_add_number(struct sha256 *s, int64_t n)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    }
    sha256_put(s, bytes, sizeof bytes);
}

/* Each text behind its length, so that no two rows are written alike. */
static void transfer_add_texts(struct sha256 *s, const struct tidings_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        transfer_add_number(s, (int64_t)texts[i].len);
        sha256_put(s, texts[i].ptr, texts[i].len);
    }
}

static void transfer_add_numbers(struct sha256 *s, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        transfer_add_number(s, numbers[i]);
    }
}

#define TEXTS(...)                                                                                 \
    transfer_add_texts(s, (const struct tidings_str[]){__VA_ARGS__},                               \
                       sizeof((const struct tidings_str[]){__VA_ARGS__}) /                         \
                           sizeof(struct tidings_str))
#define NUMBERS(...)                                                                               \
    transfer_add_numbers(s, (const int64_t[]){__VA_ARGS__},                                        \
                         sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void transfer_add_row(struct sha256 *s, const struct transfer_row *r)
{
    const struct entity_version *v = &r->version;
    const struct tidings_resource *a = &r->published.about;
    NUMBERS(r->kind, r->number);
    switch (r->kind) {
    case TRANSFER_TYPE:
        TEXTS(r->type.name, r->type.version, r->type.schema, r->type.description, r->type.options);
        break;
    case TRANSFER_VERSION:
        TEXTS(v->id, v->type, v->type_version, v->parent, v->value, v->changed_by, v->principal,
              v->previous);
        NUMBERS(v->from, v->since, v->deleted, v->created, r->at_ms);
        break;
    case TRANSFER_MOVED:
        TEXTS(v->id, v->type, v->type_version, v->old_type_version);
        NUMBERS(v->from);
        break;
    case TRANSFER_PUBLISHED:
        TEXTS(a->uri, a->etag, a->name, a->title, a->description, a->mime_type, a->icons,
              a->audience, a->meta, r->published.content, r->published.metadata);
        NUMBERS(r->removed, r->published.created, a->size, a->modified_ms, a->not_subscribable,
                kept_priority(a), r->at_ms);
        break;
    case TRANSFER_RUN:
        NUMBERS((int64_t)r->epoch, r->first, r->last);
        break;
    case TRANSFER_TASK:
        TEXTS(r->task.id, r->task.client, r->task.status, r->task.message, r->task.payload);
        NUMBERS(r->task.created_ms, r->task.updated_ms, r->task.ttl_ms);
        break;
    case TRANSFER_KINDS:
        break;
    }
}

struct transfer_counting {
    struct transfer_figures *figures;
    struct sha256 digest;
};

static int transfer_count_row(void *user, const struct transfer_row *row, struct tidings_error *err)
{
    struct transfer_counting *c = user;
    (void)err;
    c->figures->rows[row->kind]++;
    transfer_add_row(&c->digest, row);
    return 0;
}

int transfer_count(struct entity_rows *rows, struct transfer_figures *ret,
                   struct tidings_error *err)
{
    struct transfer_counting c = {.figures = ret};
    struct transfer_state state;
    *ret = (struct transfer_figures){.position = 0};
    sha256_init(&c.digest);
    int rc = rows->kept->transfer->state(rows, &state, err);
    rc = rc == 0 ? rows->kept->transfer->each(rows, TRANSFER_BEGINNING, transfer_count_row, &c, err)
                 : rc;
    ret->position = rc == 0 ? state.position : 0;
    sha256_end(&c.digest, ret->digest);
    return rc;
}

/* ---- copying --------------------------------------------------------------------------------- */

struct transfer_copying {
    struct entity_rows *to;
    struct transfer_figures figures;
    size_t rows, bytes; /* of the batch */
    bool is_open;
    transfer_progress_fn progress;
    void *user;
};

static int transfer_commit(struct transfer_copying *c, struct tidings_error *err)
{
    if (!c->is_open) {
        return 0;
    }
    c->is_open = false;
    c->rows = c->bytes = 0;
    int rc = c->to->ops->commit(c->to, err);
    if (rc == 0 && c->progress && !c->progress(c->user, &c->figures)) {
        rc = tidings_fail(err, TIDINGS_E_CANCELLED, "stopped; the same command goes on from here");
    }
    return rc;
}

static int transfer_put_row(void *user, const struct transfer_row *row, struct tidings_error *err)
{
    struct transfer_copying *c = user;
    int rc = c->is_open ? 0 : c->to->ops->begin(c->to, err);
    c->is_open = rc == 0;
    rc = rc == 0 ? c->to->kept->transfer->put(c->to, row, err) : rc;
    if (rc < 0) {
        return rc;
    }
    c->figures.rows[row->kind]++;
    c->rows++;
    c->bytes += row->version.value.len + row->version.previous.len + row->published.content.len +
                row->type.schema.len + row->task.payload.len;
    return c->rows >= BATCH_ROWS || c->bytes >= BATCH_BYTES ? transfer_commit(c, err) : 0;
}

int transfer_copy(struct entity_rows *from, struct entity_rows *to, struct tidings_str source,
                  transfer_progress_fn progress, void *user, struct tidings_error *err)
{
    struct transfer_copying c = {.to = to, .progress = progress, .user = user};
    struct transfer_mark mark = TRANSFER_BEGINNING;
    struct transfer_state state;
    int rc = from->kept->transfer->state(from, &state, err);
    rc = rc == 0 ? to->kept->transfer->begin(to, source, &mark, err) : rc;
    if (rc < 0) {
        return rc;
    }
    c.figures.was_resumed = rc == 1;
    rc = from->kept->transfer->each(from, mark, transfer_put_row, &c, err);
    rc = rc == 0 ? transfer_commit(&c, err) : rc;
    if (rc < 0 && c.is_open) {
        to->ops->rollback(to);
    }
    return rc == 0 ? to->kept->transfer->end(to, &state, err) : rc;
}
