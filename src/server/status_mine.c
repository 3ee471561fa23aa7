/* SPDX-License-Identifier: MIT
 *
 * Gathers the subscriptions of whoever reads tidings://self/subscriptions/mine.
 */
#include "server/status_mine.h"

#include "base/mem.h"
#include "catalog/job_read.h"
#include "protocol/own_subscriptions.h"
#include "json/write.h"

struct status_mine {
    struct own_listing listing;
    struct tidings_read *read;
};

/* A page ends after 1 MiB and one row more. */
#define STATUS_MINE_MAX (8u << 20)

static void status_mine_done(struct job *job)
{
    struct status_mine *mine = job->user;
    struct tidings_read *read = mine->read;
    struct tidings_error err = job->err;
    struct buf text;
    struct jw w;
    int rc = job->code;
    struct tidings_resource about = {0}; /* its URI is as it was asked for, with its query */
    about.name = STR("subscriptions/mine");
    about.mime_type = STR("application/json");
    buf_init(&text, STATUS_MINE_MAX);
    if (rc == 0) {
        jw_init(&w, &text);
        jw_begin_object(&w);
        own_listing_write(&mine->listing, &w);
        jw_end_object(&w);
        rc = buf_check(&text, "the page", NULL, &err);
        rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    }
    buf_deinit(&text);
    own_listing_deinit(&mine->listing);
    mem_free(mine);
    tidings_read_done(read, rc, &err);
}

void status_mine_read(struct tidings_read *read, struct tidings_str after)
{
    struct tidings_error err;
    struct status_mine *mine = mem_zalloc(sizeof(*mine));
    int rc = mine ? own_listing_init(&mine->listing, read->reader, read->principal, after, &err)
                  : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(mine);
        tidings_read_done(read, rc, &err);
        return;
    }
    mine->read = read;
    job_init(&mine->listing.base, read->base.worker, status_mine_done, mine, STR_EMPTY);
    own_listing_start(&mine->listing);
}
