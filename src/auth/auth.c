/* SPDX-License-Identifier: MIT
 *
 * Settings and files. What the files hold is loaded beside what is in effect and then put on the
 * shelf, in one step for each value.
 */
#include "auth/auth.h"

#include "auth/auth_private.h"
#include "auth/token_file.h"
#include "base/error.h"
#include "base/mem.h"

struct auth_files {
    struct token_file *tokens; /* NULL: none configured */
};

bool auth_is_configured(const struct auth_settings *settings)
{
    return settings->tokens || settings->issuer_count > 0 || settings->introspection;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int replace(void *user, const struct shelf_value *old)
{
    (void)user;
    (void)old;
    return SHELF_REPLACE;
}

int auth_shelve(struct auth *a, struct shelf_value *value)
{
    int rc = shelf_update(a->shelf, value->key, value, replace, NULL);
    return rc < 0 ? rc : 0;
}

int auth_files_load(const struct auth *a, struct auth_files **ret, struct tidings_error *err)
{
    struct auth_files *files = mem_zalloc(sizeof(*files));
    if (!files) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = a->tokens ? token_file_load(&files->tokens, a->tokens, err) : 0;
    if (rc < 0) {
        auth_files_destroy(files);
        return error_wrap(err, rc, "tokens");
    }
    *ret = files;
    return 0;
}

/* Fails only when there was nothing on the shelf yet. */
static int put_all(struct auth *a, struct auth_files *files)
{
    int rc = files->tokens ? auth_shelve(a, token_file_value(files->tokens)) : 0;
    __atomic_add_fetch(&a->generation, 1, __ATOMIC_RELEASE);
    return rc;
}

void auth_files_put(struct auth *a, struct auth_files *take)
{
    (void)put_all(a, take);
    auth_files_destroy(take);
}

void auth_files_destroy(struct auth_files *files)
{
    if (!files) {
        return;
    }
    shelf_value_unref(files->tokens ? token_file_value(files->tokens) : NULL);
    mem_free(files);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int keep(char **ret, const char *text)
{
    *ret = text ? str_dup(tidings_str(text)) : NULL;
    return text && !*ret ? TIDINGS_E_NOMEM : 0;
}

static int keep_settings(struct auth *a, const struct auth_settings *settings)
{
    return keep(&a->tokens, settings->tokens);
}

static int open_files(struct auth *a, struct tidings_error *err)
{
    struct auth_files *files;
    int rc = auth_files_load(a, &files, err);
    if (rc == 0) {
        rc = put_all(a, files);
        auth_files_destroy(files);
        if (rc < 0) {
            tidings_fail(err, rc, "out of memory");
        }
    }
    return rc;
}

int auth_open(struct auth **ret, const struct auth_settings *settings, struct tidings_error *err)
{
    struct auth *a = mem_zalloc(sizeof(*a));
    if (!a) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = keep_settings(a, settings);
    if (rc < 0) {
        tidings_fail(err, rc, "out of memory");
        goto fail;
    }
    a->shelf = shelf_create(err);
    rc = a->shelf ? open_files(a, err) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        goto fail;
    }
    *ret = a;
    return 0;
fail:
    auth_close(a);
    return rc;
}

int auth_start(struct auth *a, struct tidings_error *err)
{
    (void)a;
    (void)err;
    return 0;
}

void auth_close(struct auth *a)
{
    if (!a) {
        return;
    }
    shelf_destroy(a->shelf);
    mem_free(a->tokens);
    mem_free(a);
}

void auth_get_fetches(const struct auth *a, struct auth_fetches *ret)
{
    ret->keys = __atomic_load_n(&a->fetches.keys, __ATOMIC_RELAXED);
    ret->introspections = __atomic_load_n(&a->fetches.introspections, __ATOMIC_RELAXED);
    ret->failures = __atomic_load_n(&a->fetches.failures, __ATOMIC_RELAXED);
}
