/* SPDX-License-Identifier: MIT
 *
 * The rules of skills. An entry comes from a stranger: what its URIs name must lie in the skill in
 * whichever spelling.
 */
#include "uri/skill.h"

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "uri/uri.h"

#define SHOWN 80u /* bytes of a name in an error */

void skill_digest_of_hash(const unsigned char *hash, char out[SKILL_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(out, "sha256:", 7);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[7 + 2 * i] = digits[hash[i] >> 4];
        out[8 + 2 * i] = digits[hash[i] & 15];
    }
    out[SKILL_DIGEST_SIZE - 1] = '\0';
}

void skill_digest(struct tidings_str bytes, char out[SKILL_DIGEST_SIZE])
{
    struct sha256 state;
    unsigned char hash[SHA256_BYTES];
    sha256_init(&state);
    sha256_put(&state, bytes.ptr, bytes.len);
    sha256_end(&state, hash);
    skill_digest_of_hash(hash, out);
}

struct tidings_str skill_root(struct tidings_str uri)
{
    struct tidings_str root = uri;
    if (!str_ends(uri, STR("/" SKILL_FILE))) {
        return STR_EMPTY;
    }
    root.len -= sizeof(SKILL_FILE) - 1;
    return skill_name(uri).len > 0 ? root : STR_EMPTY;
}

struct tidings_str skill_name(struct tidings_str uri)
{
    if (!str_ends(uri, STR("/" SKILL_FILE))) {
        return STR_EMPTY;
    }
    uri.len -= sizeof(SKILL_FILE);
    const char *slash = memrchr(uri.ptr, '/', uri.len);
    return slash ? str_skip(uri, (size_t)(slash - uri.ptr) + 1) : STR_EMPTY;
}

bool skill_name_is_valid(struct tidings_str name)
{
    bool ok =
        name.len >= 1 && name.len <= 64 && name.ptr[0] != '-' && name.ptr[name.len - 1] != '-';
    for (size_t i = 0; ok && i < name.len; i++) {
        char c = name.ptr[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             (c == '-' && name.ptr[i - 1] != '-');
    }
    return ok;
}

int skill_check_front_matter(const struct json *front, struct tidings_str uri,
                             struct tidings_error *err)
{
    struct tidings_str name = jv_str(jv_get(front, "name")), segment = skill_name(uri);
    if (!skill_name_is_valid(name)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "'name' must be 1 to 64 lower-case letters, digits and single hyphens");
    }
    if (!str_eq(name, segment)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'name' is '%.*s' and its directory '%.*s'",
                            STR_ARG(name), STR_ARG_MAX(segment, SHOWN));
    }
    return jv_str(jv_get(front, "description")).len > 0
               ? 0
               : tidings_fail(err, TIDINGS_E_PARSE, "'description' must be a text");
}

/* ---- entries --------------------------------------------------------------------------------- */

bool skill_is_canonical(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3u);
    bool ok = uri.len <= URI_MAX && uri_canonical(uri, &canonical, NULL) == 0 &&
              str_eq(buf_str(&canonical), uri) && str_find(uri, '?') < 0;
    buf_deinit(&canonical);
    return ok;
}

static bool skill_is_digest(struct tidings_str digest)
{
    bool ok = digest.len == SKILL_DIGEST_SIZE - 1 && str_starts(digest, STR("sha256:"));
    for (size_t i = 7; ok && i < digest.len; i++) {
        char c = digest.ptr[i];
        ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    return ok;
}

/* The canonical form of the URI of something in a skill, NUL-terminated; NULL: it is none. Two
 * spellings of one file are the same there, and one that leads elsewhere is seen to. */
static char *skill_canonical(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3u);
    bool ok = uri.len <= URI_MAX && uri_canonical(uri, &canonical, NULL) == 0 &&
              str_find(buf_str(&canonical), '?') < 0;
    char *text = ok ? buf_detach(&canonical, NULL) : NULL;
    buf_deinit(&canonical);
    return text;
}

bool skill_holds(struct tidings_str root, struct tidings_str uri)
{
    char *below = skill_canonical(uri), *above = skill_canonical(root);
    struct tidings_str file = tidings_str(below);
    bool ok = below && above && str_starts(file, tidings_str(above)) && file.len > strlen(above) &&
              file.ptr[file.len - 1] != '/';
    mem_free(below);
    mem_free(above);
    return ok;
}

static int skill_check_file(const struct json *file, struct tidings_str root, int64_t *total,
                            struct tidings_error *err)
{
    struct tidings_str uri = jv_str(jv_get(file, "uri"));
    struct json *size = jv_get(file, "size");
    if (!skill_holds(root, uri)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "it names '%.*s', which is no file of the skill",
                            STR_ARG_MAX(uri, SHOWN));
    }
    if (!skill_is_digest(jv_str(jv_get(file, "digest")))) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' has no digest 'sha256:…'",
                            STR_ARG_MAX(uri, SHOWN));
    }
    if (!jv_is(size, JV_INT) || jv_int(size) < 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' has no size", STR_ARG_MAX(uri, SHOWN));
    }
    if (jv_int(size) > (int64_t)SKILL_MAX_BYTES - *total) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "its files have more than %u MiB",
                            SKILL_MAX_BYTES >> 20);
    }
    *total += jv_int(size);
    return 0;
}

/* Note that a file was named. */
static int skill_see(struct map *seen, struct tidings_str uri, struct tidings_error *err)
{
    char *key = skill_canonical(uri);
    void *before = key ? map_find(seen, tidings_str(key)) : NULL;
    if (!before && key && map_put(seen, tidings_str(key), key, NULL) == 0) {
        return 0;
    }
    mem_free(key);
    return before ? tidings_fail(err, TIDINGS_E_PARSE, "it names a file twice")
                  : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static int skill_check_files(const struct json *files, struct tidings_str uri,
                             struct tidings_error *err)
{
    struct map seen;
    int64_t total = 0;
    bool has_main = false;
    int rc = 0;
    if (jv_count(files) > SKILL_MAX_FILES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "it has more than %u files", SKILL_MAX_FILES);
    }
    map_init(&seen);
    for (size_t i = 0; rc == 0 && i < jv_count(files); i++) {
        struct json *file = jv_at(files, i);
        struct tidings_str name = jv_str(jv_get(file, "uri"));
        rc = skill_check_file(file, skill_root(uri), &total, err);
        rc = rc < 0 ? rc : skill_see(&seen, name, err);
        has_main = has_main || str_eq(name, uri);
    }
    if (rc == 0 && !has_main) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "its files lack " SKILL_FILE);
    }
    size_t at = 0;
    for (char *key; (key = map_next(&seen, &at)) != NULL;) {
        mem_free(key);
    }
    map_deinit(&seen);
    return rc;
}

int skill_check_entry(const struct json *entry, struct tidings_error *err)
{
    struct tidings_str uri = jv_str(jv_get(entry, "uri"));
    struct json *files = jv_get(entry, "resources"), *front = jv_get(entry, "frontmatter");
    struct tidings_error why = {0};
    if (skill_root(uri).len == 0 || !skill_holds(skill_root(uri), uri)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "'%.*s' is no URI of a " SKILL_FILE,
                            STR_ARG_MAX(uri, SHOWN));
    }
    int rc = skill_check_front_matter(front, uri, &why);
    if (rc == 0 && jv_is(files, JV_ARRAY)) {
        rc = skill_check_files(files, uri, &why);
    } else if (rc == 0 && !str_eq(jv_str(files), STR(SKILL_DYNAMIC))) {
        rc = tidings_fail(&why, TIDINGS_E_PARSE, "it has no list of files");
    }
    return rc < 0 ? tidings_fail(err, rc, "skill '%.*s': %s", STR_ARG_MAX(uri, SHOWN), why.text)
                  : 0;
}

const struct json *skill_find_file(const struct json *entry, struct tidings_str uri)
{
    struct json *files = jv_get(entry, "resources");
    const struct json *found = NULL;
    char *wanted = skill_canonical(uri);
    for (size_t i = 0; wanted && !found && i < jv_count(files); i++) {
        char *is = skill_canonical(jv_str(jv_get(jv_at(files, i), "uri")));
        found = is && strcmp(is, wanted) == 0 ? jv_at(files, i) : NULL;
        mem_free(is);
    }
    mem_free(wanted);
    return found;
}
