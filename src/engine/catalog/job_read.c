/* SPDX-License-Identifier: MIT
 *
 * Reads: the call of a provider, and the way of each element from the provider to the receiver.
 *
 * Elements are passed to the receiver as they come, so that content is never kept twice. When a
 * later one is a better format, or the client turns out to hold everything, the receiver discards
 * what it has.
 */
#include "engine/catalog/job_read.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/resource.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscribe.h"
#include "engine/worker.h"
#include "formats/http_fields.h"

/* ---------------------------------------------------------------------------------------------- */

#define ETAG_SIZE 33u

static const struct read_options everything;

static int job_read_book_text(struct tidings_read *read, struct tidings_error *err);

static void job_read_append(struct tidings_read *read, struct payload *content);

static int job_read_keep(struct tidings_read *read, const struct read_element *e,
                         struct payload **ret, struct tidings_error *err);

/* ---- the receiver that writes JSON ----------------------------------------------------------- */

static int json_element(struct tidings_read *read, const struct read_element *e,
                        struct tidings_error *err)
{
    struct jw *w = read->w;
    struct resource_meta meta = {.is_part = e->is_part, .from = e->from, .to = e->to};
    bool is_long = read->payloads && e->bytes.len > PAYLOAD_LONG;
    struct payload *content = NULL;
    if (is_long) {
        int rc = job_read_keep(read, e, &content, err);
        if (rc < 0) {
            return rc;
        }
    }
    jw_begin_object(w);
    resource_write_with(w, STR("uri"), e->about, &meta);
    resource_write_content(w, is_long ? STR_EMPTY : e->bytes, e->is_text);
    if (content) {
        content->at = w->out->len - 1; /* without the quotes */
        job_read_append(read, content);
    }
    jw_end_object(w);
    int rc = job_read_book_text(read, err);
    return rc < 0 ? rc
                  : buf_check(w->out, "the answer",
                              "read fewer resources at a time, or parts of them", err);
}

static void job_read_drop_payloads(struct tidings_read *read);

static void json_discard(struct tidings_read *read)
{
    *read->w = read->begun;
    read->w->out->len = read->begun_len;
    read->w->out->failed = 0;
    job_read_drop_payloads(read);
}

static const struct read_receiver json_receiver = {json_element, json_discard};

/* ---- asking ---------------------------------------------------------------------------------- */

static void run_read(struct job *r)
{
    struct tidings_read *read = list_entry(r, struct tidings_read, base);
    if (read->entry) {
        read->entry->read(read->entry->user, read, r->uri);
    } else if (read->is_patch) {
        r->provider->ops->patch(r->provider, read, r->uri, read->patch_from);
    } else {
        r->provider->ops->read(r->provider, read, r->uri);
    }
}

static void may_begin(void *user, int code, const struct tidings_error *err)
{
    struct tidings_read *read = user;
    struct catalog *awaited = read->awaited;
    if (code < 0) {
        read->reason = code == TIDINGS_E_BUSY ? READ_STALE : read->reason;
        job_finish(&read->base, code, err);
    } else {
        read->version = read->base.worker->last_seq;
        job_go_on(&read->base);
    }
    catalog_unref(awaited);
}

/* First waits until every change up to the cursor is known. */
static void wait_and_run(struct job *r)
{
    struct tidings_read *read = list_entry(r, struct tidings_read, base);
    r->run = run_read;
    read->awaited = catalog_ref(r->worker->catalog);
    at_least_await(r->worker, read->principal, read->options->at_least, may_begin, read);
}

void job_read(struct tidings_read *read, const struct catalog_hit *hit)
{
    read->entry = hit->entry;
    read->variables = hit->variables;
    read->options = read->options ? read->options : &everything;
    read->rank = SIZE_MAX;
    read->all_unchanged = true;
    read->version = read->base.worker->last_seq;
    if (!read->receiver) {
        read->receiver = &json_receiver;
        read->begun = *read->w;
        read->begun_len = read->w->out->len;
    }
    /* In a mount, a container's URI ends in '/'; elsewhere the registration decides. */
    struct tidings_str query, path = str_cut(read->base.uri, '?', &query, NULL);
    read->rules.listable = read->entry ? read->entry->about->listable : str_ends(path, STR("/"));
    const struct worker *worker = read->base.worker;
    read->is_stale = hit->provider && hit->provider->is_durable && worker->hub &&
                     hub_is_store_unreachable(worker->hub);
    if (read->is_stale && worker->limits->refuses_stale) {
        struct tidings_error err;
        read->reason = READ_STALE;
        job_begin(&read->base);
        job_finish(
            &read->base,
            tidings_fail(
                &err, TIDINGS_E_BUSY,
                "the store cannot be reached, and cached data may be stale; try again later"),
            &err);
        return;
    }
    if (read->options->at_least.len > 0 && worker->hub) {
        read->base.provider = hit->provider;
        job_begin(&read->base);
        wait_and_run(&read->base);
        return;
    }
    job_start(&read->base, hit->provider, run_read);
}

bool tidings_read_cancelled(const struct tidings_read *read)
{
    return __atomic_load_n(&read->base.cancelled, __ATOMIC_ACQUIRE);
}

bool tidings_read_range(const struct tidings_read *read, struct tidings_range *range)
{
    *range = read->options->range;
    return read->options->has_range;
}

bool tidings_read_unchanged(struct tidings_read *read, struct tidings_str etag)
{
    read->unchanged = read_options_holds(read->options, etag, &read->held);
    return read->unchanged;
}

size_t tidings_read_max_bytes(const struct tidings_read *read)
{
    return read->max_bytes;
}

struct tidings_str tidings_read_variable(const struct tidings_read *read, const char *name)
{
    struct tidings_str wanted = tidings_str(name);
    for (size_t i = 0; i < read->variables.count; i++) {
        if (str_eq(read->variables.values[i].name, wanted)) {
            return read->variables.values[i].value;
        }
    }
    return STR_EMPTY;
}

/* ---- one element ----------------------------------------------------------------------------- */

/* A directory requested without its '/' is still the resource itself. */
static bool is_own(const struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_str asked = read->base.uri;
    return uri.len == 0 || str_eq(uri, asked) ||
           (read->as_requested.len > 0 && str_eq(uri, read->as_requested)) ||
           (uri.len == asked.len + 1 && uri.ptr[asked.len] == '/' && str_starts(uri, asked));
}

/* The format matters among alternatives, not for a container and its children. */
static bool wants_format(const struct tidings_read *read, struct tidings_str mime_type)
{
    const struct read_options *o = read->options;
    size_t rank = read_options_rank(o, mime_type);
    return o->format_count == 0 || read->rules.listable ||
           (rank < o->format_count && rank < read->rank);
}

bool tidings_read_wants(const struct tidings_read *read, struct tidings_str uri,
                        struct tidings_str mime_type)
{
    if (is_own(read, uri)) {
        return wants_format(read, mime_type);
    }
    return !read->own_only && !read->options->has_range &&
           access_allows(read->principal, ACCESS_READ, uri);
}

bool tidings_read_shows(const struct tidings_read *read, struct tidings_str uri)
{
    return uri.len == 0 ? access_is_full(read->principal)
                        : access_allows(read->principal, ACCESS_LIST, uri);
}

bool tidings_read_may(const struct tidings_read *read, struct tidings_str uri)
{
    return access_allows(read->principal, ACCESS_READ, uri);
}

/* Completes the caller's description from the registration, which also limits its capabilities. */
static void job_read_complete(const struct tidings_read *read, const struct tidings_resource *about,
                              bool own, struct tidings_resource *row)
{
    const struct tidings_resource *known = read->entry ? read->entry->about : NULL;
    *row = (struct tidings_resource){0};
    if (about || known) {
        *row = about ? *about : *known;
    }
    if (!about) { /* these of a registered resource would not match the content */
        row->uri = row->etag = STR_EMPTY;
        row->has_size = false;
    }
    if (own && row->uri.len <= read->base.uri.len) {
        row->uri = read->as_requested.len > 0 ? read->as_requested : read->base.uri;
    }
    if (!own || !known) {
        return;
    }
    struct tidings_str *const texts[] = {&row->name,      &row->title, &row->description,
                                         &row->mime_type, &row->icons, &row->audience,
                                         &row->meta};
    const struct tidings_str known_texts[] = {known->name,      known->title, known->description,
                                              known->mime_type, known->icons, known->audience,
                                              known->meta};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        *texts[i] = texts[i]->len > 0 ? *texts[i] : known_texts[i];
    }
    if (!row->has_priority) {
        row->priority = known->priority;
        row->has_priority = known->has_priority;
    }
    if (!read->entry->uri_template) {
        row->listable = known->listable;
        row->not_subscribable = known->not_subscribable;
    }
    row->listable = row->listable && known->listable;
    row->not_subscribable = row->not_subscribable || known->not_subscribable;
}

/* Compares content, for callers without a cheaper way. */
static struct tidings_str content_etag(struct tidings_str bytes, char etag[ETAG_SIZE])
{
    uint64_t parts[2] = {str_hash(bytes, 1), str_hash(bytes, 2)};
    for (size_t i = 0; i < ETAG_SIZE - 1; i++) {
        etag[i] = "0123456789abcdef"[(parts[i / 16] >> (i % 16 * 4)) & 15u];
    }
    return tidings_strn(etag, ETAG_SIZE - 1);
}

/* Cuts the requested range out of `bytes`, which begin at `offset` of the whole (-1: are the
 * whole). Fills all of `e` but `about`. */
static int job_read_cut(const struct tidings_read *read, struct tidings_str bytes, bool may_be_text,
                        int64_t offset, struct read_element *e, struct tidings_error *err)
{
    const struct tidings_range *range = &read->options->range;
    size_t from = 0, to = bytes.len;
    int rc = 0;
    if (read->options->has_range && offset < 0) {
        rc = byte_range_find(range, bytes, &from, &to, err);
    } else if (read->options->has_range && range->unit == TIDINGS_UNIT_BYTES) {
        int64_t first, end;
        rc = byte_range_clip(range, e->about->size, &first, &end, err);
        first = first > offset ? first - offset : 0;
        end = end > offset ? end - offset : 0;
        to = rc == 0 && end < (int64_t)bytes.len ? (size_t)end : bytes.len;
        from = rc == 0 && first < (int64_t)to ? (size_t)first : to;
    }
    if (rc < 0) {
        return rc;
    }
    size_t begin = from, end = to; /* of whole characters */
    if (offset < 0) {              /* one part of it is what the whole is */
        e->is_text = may_be_text && str_is_utf8(bytes);
        begin = e->is_text ? byte_range_border(bytes, from) : from;
        end = e->is_text ? byte_range_border(bytes, to) : to;
    } else {
        e->is_text = may_be_text && byte_range_fit_text(bytes, &begin, &end);
    }
    if (!read->raw) {
        from = begin;
        to = end;
    }
    e->bytes = tidings_strn(bytes.ptr + from, to - from);
    e->is_part = read->options->has_range;
    e->from = (int64_t)from + (offset > 0 ? offset : 0);
    e->to = e->from + (int64_t)e->bytes.len;
    return 0;
}

/* Records why an element is left out, in case none remains. */
static void leave_out(struct tidings_read *read, struct tidings_str reason,
                      const struct tidings_error *why)
{
    if (read->left_out.code == 0) {
        read->left_out = *why;
        read->left_out_reason = reason;
    }
}

static void refuse_format(struct tidings_read *read, struct tidings_str mime_type)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_UNSUPPORTED,
                 "none of the accepted formats is available; accept '%.*s'",
                 STR_ARG_MAX(mime_type, 100));
    leave_out(read, READ_NOT_ACCEPTABLE, &why);
}

/* Passes the element on. It replaces one of a worse format. */
static int job_read_give(struct tidings_read *read, const struct read_element *e,
                         struct tidings_error *err)
{
    size_t rank = read_options_rank(read->options, e->about->mime_type);
    if (read->options->format_count > 0 && !read->rules.listable && read->count > 0) {
        read->receiver->discard(read);
        read->count = read->bytes = 0;
        read->all_unchanged = true;
    }
    if (e->bytes.len > read->max_bytes - read->bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the content exceeds the limit of %zu bytes; ask for a range",
                            read->max_bytes);
    }
    read->rank = rank;
    read->bytes += e->bytes.len;
    read->count++;
    read->all_unchanged =
        read->all_unchanged && read_options_holds(read->options, e->about->etag, &read->held);
    return read->receiver->element(read, e, err);
}

static int job_read_pass(struct tidings_read *read, const struct tidings_resource *about,
                         struct tidings_str bytes, bool may_be_text, int64_t offset,
                         struct tidings_error *err)
{
    bool own = !about || is_own(read, about->uri);
    struct tidings_resource row;
    job_read_complete(read, about, own, &row);
    int rc = RESERVED_CHECK(&row, err);
    if (rc == 0 && about && resource_check_meta(about, err) < 0) {
        rc = error_wrap(err, TIDINGS_E_INTERNAL, "the handler of the resource");
    }
    rc = rc < 0 ? rc : read_rules_add(&read->rules, own, &row, err);
    if (rc < 0) {
        return rc;
    }
    if (!tidings_read_wants(read, row.uri, row.mime_type)) {
        if (own) {
            refuse_format(read, row.mime_type);
        }
        return 0;
    }
    char etag[ETAG_SIZE];
    if (offset < 0) {
        row.has_size = true;
        row.size = (int64_t)bytes.len; /* of this format only */
        row.etag = row.etag.len > 0 ? row.etag : content_etag(bytes, etag);
    }
    struct read_element e = {.about = &row};
    struct tidings_error why;
    if (read->pieced) {
        e.bytes = (struct tidings_str){NULL, read->pieced->size};
        e.is_text = read->pieced->is_text;
        row.size = (int64_t)e.bytes.len;
        return job_read_give(read, &e, err);
    }
    if (job_read_cut(read, bytes, may_be_text, offset, &e, &why) < 0) {
        leave_out(read, READ_OUT_OF_RANGE, &why);
        read->whole = read->whole == 0 && row.has_size && row.size > 0 ? row.size : read->whole;
        return 0;
    }
    return job_read_give(read, &e, err);
}

/* The first failure sticks, even if the caller ignores it: half an answer is useless. */
static int job_read_add(struct tidings_read *read, const struct tidings_resource *about,
                        struct tidings_str bytes, bool may_be_text, int64_t offset,
                        struct tidings_error *err)
{
    int rc = read->failed.code;
    if (rc == 0) {
        rc = job_read_pass(read, about, bytes, may_be_text, offset, &read->failed);
    }
    if (rc < 0 && err) {
        *err = read->failed;
    }
    return rc;
}

int tidings_read_text(struct tidings_read *read, const struct tidings_resource *about,
                      struct tidings_str text, struct tidings_error *err)
{
    return job_read_add(read, about, text, true, -1, err);
}

int tidings_read_blob(struct tidings_read *read, const struct tidings_resource *about,
                      struct tidings_str bytes, struct tidings_error *err)
{
    return job_read_add(read, about, bytes, false, -1, err);
}

/* Content that the read owns from now on: the receiver may keep it. */
static int job_read_take(struct tidings_read *read, const struct tidings_resource *about,
                         struct tidings_str bytes, char *memory, int64_t offset,
                         struct tidings_error *err)
{
    read->loaded = memory;
    int rc = job_read_add(read, about, bytes, true, offset, err);
    tidings_free(read->loaded);
    read->loaded = NULL;
    return rc;
}

int tidings_read_take(struct tidings_read *read, const struct tidings_resource *about, char *bytes,
                      size_t len, struct tidings_error *err)
{
    return job_read_take(read, about, tidings_strn(bytes, len), bytes, -1, err);
}

int tidings_read_part(struct tidings_read *read, const struct tidings_resource *about,
                      int64_t offset, char *bytes, size_t len, struct tidings_error *err)
{
    bool is_good =
        about && offset >= 0 && about->has_size && about->size >= 0 && read->options->has_range;
    if (!is_good && read->failed.code == 0) {
        tidings_fail(&read->failed, TIDINGS_E_INTERNAL,
                     "a part is given when one was asked for, with its offset and the size of the "
                     "whole");
    }
    return job_read_take(read, about, tidings_strn(bytes, len), bytes, offset, err);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* All elements have come: checks that they are what a client may see. */
static int job_read_conclude(struct tidings_read *read, struct tidings_error *err)
{
    if (read->failed.code < 0) {
        *err = read->failed;
        return err->code;
    }
    if (read->unchanged) {
        return 0;
    }
    int rc = read_rules_end(&read->rules, err);
    if (rc < 0) {
        read->reason = READ_RULE;
        return rc;
    }
    if (read->count == 0 && read->left_out.code < 0) {
        read->reason = read->left_out_reason;
        *err = read->left_out;
        return err->code;
    }
    read->unchanged = read->options->etag_count > 0 && read->count > 0 && read->all_unchanged;
    return 0;
}

void tidings_read_final(struct tidings_read *read)
{
    read->is_final = true;
}

void tidings_read_explain(struct tidings_read *read, struct tidings_str object)
{
    job_explain(&read->base, object);
}

void tidings_read_done(struct tidings_read *read, int code, const struct tidings_error *err)
{
    struct tidings_error own = {0};
    if (code >= 0) {
        code = job_read_conclude(read, &own);
        err = &own;
    } else if (code == TIDINGS_E_INVALID && read->options->has_range) {
        read->reason = READ_OUT_OF_RANGE; /* no other part of a read can be invalid there */
    }
    if (code == TIDINGS_E_LIMIT) {
        read->reason = READ_TOO_LARGE;
    }
    if (code >= 0 && read->unchanged && read->count > 0) {
        read->receiver->discard(read);
        read->count = 0;
    }
    job_finish(&read->base, code, err);
}

void tidings_read_answer(struct tidings_read *read, struct tidings_str text)
{
    struct tidings_error err = {0, ""};
    int rc = tidings_read_text(read, NULL, text, &err);
    tidings_read_done(read, rc, &err);
}

/* -------------------------------------------------------------------------------------------------
 * Reads: long contents, which stay raw until they are sent (engine/catalog/payload.h), and their
 * booking.
 */

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

/* Books the text of the answer if it is long; books and takes the content of an element; appends it
 * to the list; frees the payloads that come after the start of the elements. */
static int job_read_book_text(struct tidings_read *read, struct tidings_error *err)
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

static int job_read_keep(struct tidings_read *read, const struct read_element *e,
                         struct payload **ret, struct tidings_error *err)
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

static void job_read_append(struct tidings_read *read, struct payload *content)
{
    payloads_append(read->payloads, &content, 0);
}

static void job_read_drop_payloads(struct tidings_read *read)
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
