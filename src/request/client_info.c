/* SPDX-License-Identifier: MIT
 *
 * The table of what clients call themselves.
 */
#include "request/client_info.h"

#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"

#define CLIENT_INFOS_FIRST 16u

void client_infos_init(struct client_infos *all)
{
    *all = (struct client_infos){0};
    map_init(&all->by_key);
}

void client_infos_deinit(struct client_infos *all)
{
    for (size_t i = 0; i < all->count; i++) {
        mem_free(all->at[i]);
    }
    mem_free(all->at);
    map_deinit(&all->by_key);
    *all = (struct client_infos){0};
}

/* The code point at `i` and its bytes; the text is valid UTF-8, because it was JSON. */
static uint32_t client_info_code(struct tidings_str s, size_t i, size_t *ret_len)
{
    unsigned char c = (unsigned char)s.ptr[i];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint32_t code = len == 1 ? c : c & (0x7fu >> len);
    for (size_t k = 1; k < len && i + k < s.len; k++) {
        code = code << 6 | ((unsigned char)s.ptr[i + k] & 0x3fu);
    }
    *ret_len = len;
    return code;
}

/* Would it move the cursor of a terminal, or what is written beside it? */
static bool client_info_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

static void client_info_put_clean(struct buf *out, struct tidings_str text, size_t max)
{
    size_t begin = out->len;
    for (size_t i = 0, len = 0; i < text.len; i += len) {
        uint32_t code = client_info_code(text, i, &len);
        bool is_control = client_info_is_control(code);
        if (i + len > text.len || out->len - begin + (is_control ? 1 : len) > max) {
            break;
        }
        if (is_control) {
            buf_putc(out, '?');
        } else {
            buf_put(out, text.ptr + i, len);
        }
    }
}

/* The number of another: its index + 1. 0: there is no room. */
static size_t client_infos_take_number(struct client_infos *all)
{
    for (size_t i = 0; all->count > all->by_key.count && i < all->count; i++) {
        if (!all->at[i]) {
            return i + 1;
        }
    }
    if (all->count >= CLIENT_INFOS_MAX) {
        return 0;
    }
    if (all->count == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : CLIENT_INFOS_FIRST;
        struct client_info **at = mem_realloc(all->at, cap * sizeof(*at));
        if (!at) {
            return 0;
        }
        all->at = at;
        all->cap = cap;
    }
    all->at[all->count] = NULL;
    return ++all->count;
}

static uint16_t client_infos_add(struct client_infos *all, struct tidings_str key, size_t name_len)
{
    size_t number = client_infos_take_number(all);
    struct client_info *info = number ? mem_zalloc(sizeof(*info) + key.len) : NULL;
    if (!info) {
        return 0;
    }
    char *text = (char *)(info + 1);
    memcpy(text, key.ptr, key.len);
    info->key = tidings_strn(text, key.len);
    info->name = tidings_strn(text, name_len);
    info->version = tidings_strn(text + name_len + 1, key.len - name_len - 1);
    info->refs = 1;
    info->number = (uint16_t)number;
    if (map_put(&all->by_key, info->key, info, NULL) < 0) {
        mem_free(info);
        return 0;
    }
    all->at[number - 1] = info;
    return info->number;
}

uint16_t client_info_intern(struct client_infos *all, const struct json *info)
{
    struct buf key;
    struct tidings_str name = jv_str(jv_get(info, "name"));
    struct tidings_str version = jv_str(jv_get(info, "version"));
    if (name.len == 0 && version.len == 0) {
        return 0;
    }
    buf_init(&key, CLIENT_NAME_MAX + 1 + CLIENT_VERSION_MAX);
    client_info_put_clean(&key, name, CLIENT_NAME_MAX);
    size_t name_len = key.len;
    buf_putc(&key, '\0'); /* no name has one */
    client_info_put_clean(&key, version, CLIENT_VERSION_MAX);
    uint16_t number = 0;
    if (!key.failed) {
        struct client_info *known = map_find(&all->by_key, buf_str(&key));
        if (known) {
            known->refs++;
        }
        number = known ? known->number : client_infos_add(all, buf_str(&key), name_len);
    }
    buf_deinit(&key);
    return number;
}

void client_info_release(struct client_infos *all, uint16_t number)
{
    struct client_info *info = number > 0 && number <= all->count ? all->at[number - 1] : NULL;
    if (info && --info->refs == 0) {
        map_remove(&all->by_key, info->key);
        all->at[number - 1] = NULL;
        mem_free(info);
    }
}

const struct client_info *client_info_get(const struct client_infos *all, uint16_t number)
{
    return number > 0 && number <= all->count ? all->at[number - 1] : NULL;
}
