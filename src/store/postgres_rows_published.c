/* SPDX-License-Identifier: MIT
 *
 * Published resources in PostgreSQL: one row per URI, which gets a new position whenever it
 * changes. A digest of the URI is the key: an index cannot hold the longest ones.
 */
#include "store/postgres_rows_private.h"

#define FORGET_EVERY 256u /* removals between two looks at how many are remembered */

int postgres_rows_write_published(struct postgres_rows *s, const struct published_row *row,
                                  const struct tidings_str *content, struct tidings_error *err)
{
    const struct tidings_resource *about = &row->about;
    const struct tidings_str texts[] = {about->name,      about->title, about->description,
                                        about->mime_type, about->icons, about->audience,
                                        about->meta,      row->metadata};
    unsigned char digest[32];
    struct postgres_values v = {0};
    postgres_rows_release(s);
    postgres_rows_digest(about->uri, digest);
    postgres_put_str(&v, tidings_strn((const char *)digest, sizeof digest));
    postgres_put_str(&v, about->uri);
    postgres_put_int(&v, (int64_t)++s->now.position);
    postgres_put_int(&v, row->created);
    postgres_put_str(&v, about->etag);
    postgres_put_int(&v, about->size);
    postgres_put_int(&v, about->modified_ms);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        postgres_put_str(&v, texts[i]);
    }
    postgres_put_int(&v, kept_priority(about));
    postgres_put_int(&v, !about->not_subscribable);
    postgres_put_int(&v, s->now_ms);
    if (content) {
        postgres_put_str(&v, *content);
    } else {
        postgres_put_null(&v);
    }
    s->is_durable = true;
    return postgres_rows_send(s, PG_PUBLISH, &v, err);
}

int postgres_rows_publish(struct entity_rows *rows, const struct published_row *row,
                          uint64_t *ret_position, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    if (row->content.len > KEPT_MAX_CONTENT) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "content has at most %u bytes", KEPT_MAX_CONTENT);
    }
    int rc = postgres_rows_write_published(s, row, &row->content, err);
    *ret_position = s->now.position;
    return rc;
}

/* Of the removed only the newest are remembered; who comes back from before that must look again.
 */
static int postgres_forget_removed(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_rows_ask_int(s, PG_OLD_REMOVED, KEPT_MAX_REMOVED, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        uint64_t oldest = (uint64_t)postgres_int(r, 0, 0);
        struct postgres_values v = {0};
        postgres_put_int(&v, (int64_t)oldest);
        rc = postgres_rows_send(s, PG_FORGET_REMOVED, &v, err);
        s->now.floor = s->now.floor > oldest ? s->now.floor : oldest;
    }
    postgres_free(r);
    return rc;
}

int postgres_rows_unpublish(struct entity_rows *rows, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    const struct tidings_resource *about = &gone->about;
    const struct published_row row = {
        .about = {.uri = about->uri, .not_subscribable = about->not_subscribable},
        .metadata = gone->metadata,
    };
    int rc = postgres_rows_write_published(s, &row, NULL, err);
    *ret_position = s->now.position;
    return rc == 0 && ++s->n_removed % FORGET_EVERY == 0 ? postgres_forget_removed(s, err) : rc;
}

void postgres_rows_read_published(struct pg_result *r, int row, struct published_row *ret)
{
    *ret = (struct published_row){
        .about =
            {
                .uri = postgres_str(r, row, 1),
                .etag = postgres_str(r, row, 2),
                .size = postgres_int(r, row, 3),
                .has_size = true,
                .modified_ms = postgres_int(r, row, 4),
                .name = postgres_str(r, row, 5),
                .title = postgres_str(r, row, 6),
                .description = postgres_str(r, row, 7),
                .mime_type = postgres_str(r, row, 8),
                .icons = postgres_str(r, row, 9),
                .audience = postgres_str(r, row, 10),
                .meta = postgres_str(r, row, 11),
                .not_subscribable = postgres_int(r, row, 14) == 0,
            },
        .metadata = postgres_str(r, row, 12),
        .created = postgres_int(r, row, 15) != 0,
        .content = postgres_str(r, row, 16),
    };
    kept_set_priority(&ret->about, postgres_int(r, row, 13));
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct reading {
    published_row_fn fn;
    void *user;
    int64_t after;
    unsigned count;
};

static int postgres_read_published(void *user, struct pg_result *r, struct tidings_error *err)
{
    struct reading *reading = user;
    struct published_row row;
    postgres_rows_read_published(r, 0, &row);
    reading->after = postgres_int(r, 0, 0);
    reading->count++;
    return reading->fn(reading->user, &row, err);
}

int postgres_rows_each_published(struct entity_rows *rows, published_row_fn fn, void *user,
                                 struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct reading reading = {.fn = fn, .user = user};
    postgres_rows_release(s);
    int rc = s->is_in_batch ? 0 : postgres_rows_ready(s, POSTGRES_DEADLINE_MS, err);
    while (rc == 0) {
        struct postgres_values v = {0};
        postgres_put_int(&v, reading.after);
        reading.count = 0;
        rc = postgres_each(s->db, PG_PUBLISHED, &v, postgres_read_published, &reading, err);
        if (reading.count == 0) {
            break;
        }
    }
    return rc;
}
