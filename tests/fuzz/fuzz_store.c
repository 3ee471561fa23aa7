/* SPDX-License-Identifier: MIT
 *
 * A store that was damaged, or written by another program: a valid file with replaced bytes (three
 * for the place, one for the byte; a place past the end truncates it there). It is rejected, or its
 * contents are read within their limits, even after another write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "store/sqlite_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/fuzz-store-XXXXXX", path[64];
static struct buf good;
static volatile unsigned sum; /* the compiler must not omit reads */

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void look(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        sum += (unsigned char)s.ptr[i];
    }
}

/* ---- a good one ------------------------------------------------------------------------------ */

static void put_version(struct store *r, const char *id, int64_t from, bool deleted)
{
    const struct entity_version v = {
        .id = tidings_str(id),
        .type = STR("thing"),
        .type_version = STR("1"),
        .parent = STR("top"),
        .value = STR("{\"a\":1}"),
        .changed_by = STR("[{\"userId\":\"x\"}]"),
        .previous = STR("{\"a\":0}"),
        .from = from,
        .since = from,
        .deleted = deleted,
        .created = from == 1000,
    };
    require(r->ops->put(r, &v, false, NULL) == 0);
}

static void write_good(struct store *r)
{
    const struct entity_type_row type = {
        .name = STR("thing"), .version = STR("1"), .schema = STR("{\"type\":\"object\"}")};
    const struct published_row row = {
        .about = {.uri = STR("pub:///a"), .name = STR("a"), .etag = STR("e"), .size = 5},
        .content = STR("hello"),
        .created = true,
    };
    const struct published_row gone = {.about = {.uri = STR("pub:///b")}};
    uint64_t position;
    require(r->ops->begin(r, NULL) == 0 && r->ops->put_type(r, &type, NULL) == 0);
    put_version(r, "a", 1000, false);
    put_version(r, "a", 2000, false);
    put_version(r, "b", 1000, false);
    put_version(r, "b", 3000, true);
    const struct entity_key key = {
        .owner = STR("o"), .key = STR("key"), .digest = STR("d"), .text = STR("{}"), .at = 1};
    require(r->ops->put_key(r, &key, NULL) == 0);
    require(sqlite_published_put(r, &row, &position, NULL) == 0);
    require(sqlite_published_remove(r, &gone, &position, NULL) == 0);
    require(r->ops->commit(r, NULL) == 0);
    while (r->ops->idle(r, NULL) == 1) {
    }
    require(r->ops->begin(r, NULL) == 0);
    put_version(r, "c", 1000, false); /* in the log, not applied yet */
    require(r->ops->commit(r, NULL) == 0);
}

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 4; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

static void leave(void)
{
    remove_files();
    (void)rmdir(directory);
    buf_deinit(&good);
}

/* false: SQLite cannot be loaded. */
static bool make_good(void)
{
    struct store *r = NULL;
    char bytes[4096];
    size_t n;
    require(mkdtemp(directory) != NULL);
    (void)snprintf(path, sizeof path, "%s/store", directory);
    buf_init(&good, 1u << 24);
    (void)atexit(leave);
    if (sqlite_store_open(path, &r, NULL) < 0) {
        return false;
    }
    write_good(r);
    r->ops->destroy(r);
    FILE *file = fopen(path, "rb");
    while (file && (n = fread(bytes, 1, sizeof bytes, file)) > 0) {
        buf_put(&good, bytes, n);
    }
    require(file && fclose(file) == 0 && good.len > 0);
    return true;
}

/* ---- a damaged one --------------------------------------------------------------------------- */

static void write_damaged(const uint8_t *data, size_t size)
{
    struct buf image;
    buf_init(&image, 1u << 24);
    buf_puts(&image, buf_str(&good));
    for (size_t i = 0; i + 4 <= size; i += 4) {
        size_t at = data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16;
        if (at < image.len) {
            image.ptr[at] = (char)data[i + 3];
        } else if (at % (good.len + 1) < image.len) {
            image.len = at % (good.len + 1);
        }
    }
    remove_files();
    FILE *file = fopen(path, "wb");
    require(file && fwrite(image.ptr, 1, image.len, file) == image.len && fclose(file) == 0);
    buf_deinit(&image);
}

static bool on_version(void *user, const struct entity_version *v)
{
    const struct tidings_str texts[] = {v->id,    v->type,       v->type_version, v->parent,
                                        v->value, v->changed_by, v->principal,    v->previous};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        look(texts[i]);
    }
    return ++*(unsigned *)user < 1000;
}

static bool on_type(void *user, const struct entity_type_row *row)
{
    look(row->name);
    look(row->version);
    look(row->schema);
    look(row->description);
    look(row->options);
    return ++*(unsigned *)user < 1000;
}

static int on_published(void *user, const struct published_row *row, struct tidings_error *err)
{
    look(row->about.uri);
    look(row->about.name);
    look(row->about.etag);
    look(row->content);
    return ++*(unsigned *)user < 1000 ? 0 : tidings_fail(err, TIDINGS_E_LIMIT, "too many");
}

static bool on_change(void *user, const struct log_entry *change)
{
    look(change->version.id);
    look(change->version.type);
    look(change->old_type_version);
    look(change->uri);
    look(change->etag);
    return ++*(unsigned *)user < 1000;
}

/* How many rows there are. */
static unsigned read_all(struct store *r)
{
    static const char *const ids[] = {"a", "b", "c", "top", ""};
    const struct entity_scope everything = {.deleted = true};
    struct entity_version v;
    struct entity_key key;
    unsigned n = 0;
    uint64_t floor = 0;
    int64_t from = 0;
    (void)r->ops->types(r, on_type, &n, NULL);
    (void)sqlite_published_each(r, on_published, &n, NULL);
    (void)sqlite_changes_each(r, 100, &floor, on_change, &n, NULL);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct tidings_str id = tidings_str(ids[i]);
        if (r->ops->find(r, id, TIMELINE_FOREVER, &v, NULL) == 1) {
            (void)on_version(&n, &v);
        }
        (void)r->ops->nth(r, id, 2, &from, NULL);
        (void)r->ops->history(r, id, TIMELINE_NEVER, on_version, &n, NULL);
    }
    (void)r->ops->list(r, &everything, STR_EMPTY, on_version, &n, NULL);
    if (r->ops->find_key(r, STR("o"), STR("key"), &key, NULL) == 1) {
        look(key.digest);
        look(key.text);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int is_made = -1;
    struct tidings_error err = {0, ""};
    struct store *r = NULL;
    is_made = is_made < 0 ? make_good() : is_made;
    if (!is_made || size > 256) {
        return 0;
    }
    write_damaged(data, size);
    if (sqlite_store_open(path, &r, &err) < 0) {
        require(size > 0 && err.text[0] != '\0');
        return 0;
    }
    require(read_all(r) > 10 || size > 0);
    const struct entity_type_row type = {
        .name = STR("more"), .version = STR("1"), .schema = STR("{}")};
    if (r->ops->begin(r, NULL) == 0) {
        if (r->ops->put_type(r, &type, NULL) < 0 || r->ops->commit(r, NULL) < 0) {
            r->ops->rollback(r);
        }
    }
    (void)r->ops->idle(r, NULL);
    (void)read_all(r);
    r->ops->destroy(r);
    return 0;
}
