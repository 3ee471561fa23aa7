/* SPDX-License-Identifier: MIT
 * Reads: long contents, which stay raw until they are sent (catalog/payload.h), and their booking.
 */
#include "base/error.h"
#include "base/mem.h"
#include "catalog/job_read_private.h"

static int job_read_refuse(const struct tidings_read *read, struct tidings_error *err)
{
    char sentence[REFUSAL_SENTENCE];
    return tidings_fail(err, TIDINGS_E_BUSY, "%s", refusal_sentence(&read->refused, sentence));
}

static int job_read_book_more(struct tidings_read *read, size_t bytes, struct tidings_error *err)
{
    bool is_booked = !read->output || output_book(read->output, bytes, &read->refused);
    return is_booked ? 0 : job_read_refuse(read, err);
}

int job_read_book_text(struct tidings_read *read, struct tidings_error *err)
{
    size_t held = read->w->out->cap;
    bool is_booked = !read->output || held <= PAYLOAD_LONG ||
                     output_book_text(read->output, held, &read->refused);
    return is_booked ? 0 : job_read_refuse(read, err);
}

int job_read_book(struct tidings_read *read, size_t bytes, struct tidings_error *err)
{
    size_t taken = bytes < read->reserved ? bytes : read->reserved;
    read->reserved -= taken;
    return bytes > taken ? job_read_book_more(read, bytes - taken, err) : 0;
}

int tidings_read_reserve(struct tidings_read *read, size_t bytes, struct tidings_error *err)
{
    int rc = bytes > PAYLOAD_LONG ? job_read_book_more(read, bytes, err) : 0;
    read->reserved += rc == 0 && bytes > PAYLOAD_LONG ? bytes : 0;
    return rc;
}

/* Returns memory with the bytes that the payload may own: the provider's, or a copy. */
static char *job_read_memory(struct tidings_read *read, struct tidings_str *bytes)
{
    char *memory = read->loaded;
    if (memory) {
        read->loaded = NULL;
        return memory;
    }
    memory = mem_alloc(bytes->len);
    if (memory) {
        memcpy(memory, bytes->ptr, bytes->len);
        bytes->ptr = memory;
    }
    return memory;
}

int job_read_keep(struct tidings_read *read, const struct read_element *e, struct payload **ret,
                  struct tidings_error *err)
{
    struct payload *content = read->pieced;
    struct tidings_str bytes = e->bytes;
    int rc = job_read_book(read, content ? content->held : bytes.len, err);
    if (rc < 0) {
        return rc;
    }
    read->pieced = NULL;
    if (!content) {
        char *memory = job_read_memory(read, &bytes);
        content = memory ? payload_of_memory(memory, bytes, e->is_text) : NULL;
    }
    if (!content) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    payload_set_form(content, e->is_text ? PAYLOAD_TEXT : PAYLOAD_BASE64);
    *ret = content;
    return 0;
}

void job_read_append(struct tidings_read *read, struct payload *content)
{
    payloads_append(read->payloads, &content, 0);
}

void job_read_drop_payloads(struct tidings_read *read)
{
    struct payload **at = read->payloads;
    while (at && *at) {
        struct payload *content = *at;
        if (content->at < read->begun_len) {
            at = &content->next;
        } else {
            *at = content->next;
            payload_destroy(content);
        }
    }
}

/* ---- in pieces ------------------------------------------------------------------------------- */

static bool job_read_is_gone(void *user)
{
    return tidings_read_cancelled(user);
}

static struct tidings_str type_of(bool is_text)
{
    return is_text ? STR("text/plain") : STR("application/octet-stream");
}

/* Loads everything, as if the provider had given it in memory. */
static int job_read_load(struct tidings_read *read, const struct tidings_resource *about,
                         const struct tidings_pieces *pieces, struct tidings_error *err)
{
    size_t size = (size_t)pieces->size;
    if (size > read->max_bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the content exceeds the limit of %zu bytes; ask for a range",
                            read->max_bytes);
    }
    int rc = tidings_read_reserve(read, size, err);
    char *bytes = rc < 0 ? NULL : mem_alloc(size + 1);
    rc = rc < 0 || bytes ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    for (size_t at = 0; rc == 0 && at < size; at += PAYLOAD_PIECE) {
        size_t len = size - at < PAYLOAD_PIECE ? size - at : PAYLOAD_PIECE;
        rc = tidings_read_cancelled(read)
                 ? tidings_fail(err, TIDINGS_E_CANCELLED, "cancelled")
                 : pieces->read(pieces->user, (int64_t)at, bytes + at, len, err);
    }
    if (rc < 0) {
        mem_free(bytes);
        return rc;
    }
    struct tidings_str whole = tidings_strn(bytes, size);
    struct tidings_resource row = {0};
    if (about) {
        row = *about;
    }
    if (about && row.mime_type.len == 0 && !read->entry) {
        row.mime_type = type_of(str_is_utf8(whole));
    }
    return job_read_take(read, about ? &row : NULL, whole, bytes, -1, err);
}

int tidings_read_pieces(struct tidings_read *read, const struct tidings_resource *about,
                        const struct tidings_pieces *pieces, struct tidings_error *err)
{
    const struct payload_waiter waiter = {job_read_is_gone, read};
    struct tidings_error why = read->failed;
    bool is_long = pieces->size > (int64_t)PAYLOAD_LONG && !read->options->has_range &&
                   (size_t)pieces->size <= read->max_bytes;
    int rc = why.code;
    if (rc < 0 || !is_long || !read->takes_pieces || !about || about->etag.len == 0) {
        rc = rc < 0 ? rc : job_read_load(read, about, pieces, &why);
        pieces->close(pieces->user);
    } else {
        read->pieced = payload_of_pieces(pieces, &waiter, &why);
        struct tidings_resource row = *about;
        if (read->pieced) {
            read->pieced->provider = read->base.provider;
        }
        if (read->pieced && row.mime_type.len == 0 && !read->entry) {
            row.mime_type = type_of(read->pieced->is_text);
        }
        rc = read->pieced ? job_read_add(read, &row, STR_EMPTY, true, -1, &why) : why.code;
        payload_destroy(read->pieced);
        read->pieced = NULL;
    }
    if (rc < 0 && err) {
        *err = why;
    }
    return rc;
}
