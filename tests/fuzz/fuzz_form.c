/* SPDX-License-Identifier: MIT
 *
 * A form from a server, and a user's input to its fields: the first line is the input, the rest the
 * schema. An accepted form has flat fields; a value that a field accepts is accepted by the form,
 * on its own or with the presets.
 */
#include <stdlib.h>

#include <tidings/question.h>

#include "base/mem.h"
#include "client/questions.h"
#include "formats/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct typed {
    struct json *schema;
    struct tidings_str text;
};

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* The form accepts {"name":value}, or reports the other values it needs. */
static void fill_in(struct typed *t, const struct tidings_field *f, const char *value)
{
    struct buf content, out;
    struct jw w;
    struct tidings_error err = {0};
    buf_init(&content, 1u << 20);
    buf_init(&out, 1u << 20);
    jw_init(&w, &content);
    jw_begin_object(&w);
    jw_key(&w, f->name);
    jw_raw(&w, tidings_str(value));
    jw_end_object(&w);
    int rc = form_complete(t->schema, buf_str(&content), &out, &err);
    require(rc == 0 ? out.len > 1 && out.ptr[0] == '{' : err.text[0] != '\0');
    buf_deinit(&content);
    buf_deinit(&out);
}

static int on_field(void *user, const struct tidings_field *f)
{
    struct typed *t = user;
    struct tidings_error err = {0};
    require(f->type <= TIDINGS_FIELD_CHOICES && f->choice_count <= FORM_MAX_CHOICES);
    require((f->choice_count > 0) ==
            (f->type == TIDINGS_FIELD_CHOICE || f->type == TIDINGS_FIELD_CHOICES));
    char *value = tidings_field_read(f, t->text, &err);
    require(value ? value[0] != '\0' : err.code < 0);
    if (value) {
        fill_in(t, f, value);
    }
    tidings_free(value);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct typed t = {0};
    struct tidings_str rest;
    if (size > 16384) {
        return 0;
    }
    t.text = str_cut(tidings_strn((const char *)data, size), '\n', &rest, NULL);
    if (jv_parse(rest, JSON_MAX_DEPTH, &t.schema, NULL) == 0 && form_check(t.schema, NULL) == 0) {
        require(form_each(t.schema, on_field, &t) == 0);
    }
    jv_unref(t.schema);
    return 0;
}
