/* SPDX-License-Identifier: MIT
 *
 * One skill of a server, and its files. The client reads a file only on request. It compares the
 * file with the program's entry: listed, of that size, with that digest, and for SKILL.md with that
 * front matter; the program does not get a file that differs.
 */
#include "client/skills.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidings/client.h>

#include "base/encode.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/calls.h"
#include "client/client_internal.h"
#include "formats/json_write.h"
#include "formats/uri.h"
#include "formats/yaml.h"

#define SHOWN 120u /* bytes of a URI in an error */

int skills_connect(struct tidings_client *c, struct tidings_error *err)
{
    struct json *capabilities = NULL;
    int rc = tidings_client_connect(c, err);
    if (rc < 0) {
        return rc;
    }
    rc = json_parse_lenient(tidings_str(c->info.capabilities), &capabilities, NULL, err);
    if (rc == 0 && !jv_is(jv_get(jv_get(capabilities, "extensions"), SKILL_EXTENSION), JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server does not offer skills");
    }
    jv_unref(capabilities);
    return rc;
}

bool skills_takes_entry(struct tidings_client *c, const struct json *entry)
{
    struct tidings_error why;
    if (skill_check_entry(entry, &why) == 0) {
        return true;
    }
    if (c->on_warning) {
        c->on_warning(c->warning_user, tidings_str(why.text));
    }
    return false;
}

/* The answer to a method whose parameter is a URI. */
static struct json *skills_ask(struct tidings_client *c, const char *method, const char *uri,
                               struct tidings_error *err)
{
    struct buf params;
    struct jw w;
    struct json *result = NULL;
    buf_init(&params, c->settings.max_bytes);
    jw_init(&w, &params);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), tidings_str(uri));
    jw_end_object(&w);
    if (params.failed) {
        tidings_fail(err, params.failed, "%s", tidings_code_text(params.failed));
    } else {
        result = ask(c, method, buf_str(&params), err);
    }
    buf_deinit(&params);
    return result;
}

char *tidings_client_skill(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    if (client_check(c, err) < 0 || skills_connect(c, err) < 0) {
        return NULL;
    }
    struct json *result = skills_ask(c, "skills/get", uri, err);
    struct json *entry = jv_get(result, "skill");
    int rc = result ? skill_check_entry(entry, err) : 0;
    if (rc == 0 && result && !str_eq(jv_str(jv_get(entry, "uri")), tidings_str(uri))) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the server gave the entry of another skill");
    }
    if (rc < 0) {
        jv_unref(result);
        return NULL;
    }
    return ask_give_text(c, result, entry, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The bytes of the first content of a result of resources/read. */
static int skills_take_bytes(struct json *result, struct buf *out, struct tidings_error *err)
{
    struct json *content = jv_at(jv_get(result, "contents"), 0);
    struct json *text = jv_get(content, "text"), *blob = jv_get(content, "blob");
    int rc = jv_is(text, JV_STRING)   ? buf_puts(out, jv_str(text))
             : jv_is(blob, JV_STRING) ? base64_decode(out, jv_str(blob))
                                      : TIDINGS_E_PARSE;
    return rc < 0 ? tidings_fail(err, rc, "the server gave no content") : 0;
}

static int skills_mismatch(struct tidings_error *err, struct tidings_str uri, const char *what)
{
    return tidings_fail(
        err, TIDINGS_E_CONFLICT,
        "'%.*s' is not what the entry of its skill says (%s): it has changed since, "
        "or was tampered with; get the entry again",
        STR_ARG_MAX(uri, SHOWN), what);
}

static int skills_verify_front_matter(const struct json *entry, struct tidings_str bytes,
                                      struct tidings_error *err)
{
    struct json *front = NULL;
    struct tidings_str uri = jv_str(jv_get(entry, "uri"));
    struct tidings_error why = {0};
    int rc = front_matter_parse(bytes, &front, &why);
    bool same = rc == 0 && front_matter_equal(front, jv_get(entry, "frontmatter"));
    jv_unref(front);
    if (rc < 0) {
        return tidings_fail(err, TIDINGS_E_CONFLICT,
                            "the front matter of '%.*s' cannot be read: %s",
                            STR_ARG_MAX(uri, SHOWN), why.text);
    }
    return same ? 0 : skills_mismatch(err, uri, "front matter");
}

/* `file` is its element in the entry; NULL: the skill is dynamic, and has none. */
static int skills_verify(const struct json *entry, const struct json *file, struct tidings_str uri,
                         struct tidings_str bytes, struct tidings_error *err)
{
    char digest[SKILL_DIGEST_SIZE];
    int64_t size = jv_int(jv_get(file, "size"));
    if (!file && bytes.len > SKILL_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a skill has at most %u MiB, this file more",
                            SKILL_MAX_BYTES >> 20);
    }
    if (file && (uint64_t)size != bytes.len) {
        char what[80];
        snprintf(what, sizeof(what), "%" PRId64 " bytes, not %zu", size, bytes.len);
        return skills_mismatch(err, uri, what);
    }
    skill_digest(bytes, digest);
    if (file && !str_eq(jv_str(jv_get(file, "digest")), tidings_str(digest))) {
        return skills_mismatch(err, uri, "digest");
    }
    bool is_main = str_eq(uri, jv_str(jv_get(entry, "uri")));
    return is_main ? skills_verify_front_matter(entry, bytes, err) : 0;
}

/* Checks that the file belongs to the skill. *ret_file as skills_verify takes it. */
static int skills_find_file(const struct json *entry, struct tidings_str uri,
                            const struct json **ret_file, struct tidings_error *err)
{
    struct tidings_str root = skill_root(jv_str(jv_get(entry, "uri")));
    bool is_dynamic = !jv_is(jv_get(entry, "resources"), JV_ARRAY);
    *ret_file = skill_find_file(entry, uri);
    if (!*ret_file && !(is_dynamic && skill_holds(root, uri))) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.*s' is not a file of the skill",
                            STR_ARG_MAX(uri, SHOWN));
    }
    return 0;
}

char *tidings_client_skill_read(struct tidings_client *c, const char *entry, const char *uri,
                                size_t *ret_len, struct tidings_error *err)
{
    struct json *held = NULL, *result = NULL;
    const struct json *file = NULL;
    struct tidings_str name = tidings_str(uri);
    struct buf bytes;
    if (client_check(c, err) < 0) {
        return NULL;
    }
    buf_init(&bytes, c->settings.max_bytes);
    int rc = json_parse_lenient(tidings_str(entry), &held, NULL, err);
    rc = rc < 0 ? rc : skill_check_entry(held, err);
    rc = rc < 0 ? rc : skills_find_file(held, name, &file, err);
    if (rc == 0) {
        name = file ? jv_str(jv_get(file, "uri")) : name; /* in the server's spelling */
        result = skills_ask(c, "resources/read", name.ptr, err);
        rc = result ? skills_take_bytes(result, &bytes, err) : TIDINGS_E_IO;
    }
    rc = rc < 0 ? rc : skills_verify(held, file, name, buf_str(&bytes), err);
    jv_unref(held);
    jv_unref(result);
    if (rc == 0 && buf_put(&bytes, "", 0) < 0) { /* an empty file has a NUL, too */
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *content = rc == 0 ? buf_detach(&bytes, ret_len) : NULL;
    buf_deinit(&bytes);
    return content;
}
