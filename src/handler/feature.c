/* SPDX-License-Identifier: MIT
 *
 * Features (tools, prompts, completions) and their lists. A list is rebuilt by copying pointers:
 * registering is rare, looking up is not.
 */
#include "handler/feature.h"

#include "base/mem.h"
#include "base/str.h"
#include "handler/header_params.h"

#define NAME_MAX_BYTES 128u

struct feature *feature_create(enum feature_kind kind, struct tidings_str name,
                               struct tidings_str row)
{
    struct feature *f = mem_zalloc(sizeof(*f) + name.len + row.len);
    if (f) {
        char *at = (char *)(f + 1);
        f->kind = kind;
        f->name = str_pack(&at, name);
        f->row = str_pack(&at, row);
        f->refs = 1;
    }
    return f;
}

void feature_set_handler(struct feature *f, tidings_call_fn handler, void *user,
                         uint64_t timeout_ms, bool is_blocking)
{
    f->handler = handler;
    f->user = user;
    f->timeout_ms = timeout_ms;
    f->is_blocking = is_blocking;
}

struct feature *feature_ref(struct feature *f)
{
    __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
    return f;
}

void feature_unref(struct feature *f)
{
    if (f && __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        schema_destroy(f->input);
        schema_destroy(f->output);
        header_params_destroy(f->header_params);
        mem_free(f);
    }
}

int feature_check_name(struct tidings_str name, struct tidings_error *err)
{
    bool good = name.len > 0 && name.len <= NAME_MAX_BYTES;
    for (size_t i = 0; i < name.len && good; i++) {
        char c = name.ptr[i];
        good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
    }
    if (!good) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the name '%.*s' must be 1 to %u of A-Z a-z 0-9 _ - .",
                            STR_ARG_MAX(name, 64), NAME_MAX_BYTES);
    }
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

size_t feature_list_after(const struct feature_list *list, struct tidings_str name)
{
    size_t low = 0, high = list && name.len > 0 ? list->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(list->at[middle]->name, name) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct feature *feature_find(const struct feature_list *list, struct tidings_str name)
{
    size_t after = feature_list_after(list, name);
    return after > 0 && str_eq(list->at[after - 1]->name, name) ? list->at[after - 1] : NULL;
}

struct feature_list *feature_list_derive(const struct feature_list *old, struct feature *add,
                                         struct tidings_str remove)
{
    size_t count = old ? old->count : 0, n = 0;
    size_t place = add ? feature_list_after(old, add->name) : SIZE_MAX;
    struct feature_list *list = mem_alloc(sizeof(*list) + (count + 1) * sizeof(struct feature *));
    if (!list) {
        return NULL;
    }
    for (size_t i = 0; i <= count; i++) {
        if (i == place) {
            list->at[n++] = feature_ref(add);
        }
        if (i < count && !str_eq(old->at[i]->name, remove)) {
            list->at[n++] = feature_ref(old->at[i]);
        }
    }
    list->count = n;
    list->has_tasks = false;
    for (size_t i = 0; i < n; i++) {
        list->has_tasks = list->has_tasks || list->at[i]->task != TIDINGS_TASK_NEVER;
    }
    list->refs = 1;
    return list;
}

struct feature_list *feature_list_ref(struct feature_list *list)
{
    if (list) {
        __atomic_add_fetch(&list->refs, 1, __ATOMIC_RELAXED);
    }
    return list;
}

void feature_list_unref(struct feature_list *list)
{
    if (!list || __atomic_sub_fetch(&list->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        feature_unref(list->at[i]);
    }
    mem_free(list);
}
