/* SPDX-License-Identifier: MIT
 *
 * Reading the configuration of a command.
 */
#include "provider/command_settings.h"

#include "base/error.h"
#include "base/mem.h"
#include "provider/settings.h"

static int take_argv(void *into, struct json *value, struct tidings_error *err)
{
    struct command_settings *s = into;
    size_t count = jv_count(value);
    if (!jv_is(value, JV_ARRAY) || count == 0 || count > COMMAND_WORDS_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "not an array of 1 to %u strings: the program and its arguments",
                            COMMAND_WORDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        struct tidings_error local = {0};
        struct json *word = jv_at(value, i);
        bool is_empty = i > 0 && jv_is(word, JV_STRING) && jv_str(word).len == 0;
        s->argv[i] = is_empty ? str_dup(STR_EMPTY) : setting_text(word, &local);
        if (!s->argv[i]) {
            return tidings_fail(err, local.code < 0 ? local.code : TIDINGS_E_NOMEM,
                                "argument %zu: %s", i, local.text);
        }
    }
    return 0;
}

static int add_variable(struct command_settings *s, struct tidings_str name,
                        struct tidings_str value)
{
    struct buf text;
    buf_init(&text, name.len + value.len + 2);
    buf_puts(&text, name);
    buf_putc(&text, '=');
    buf_puts(&text, value);
    size_t at = 0;
    while (s->env[at]) {
        at++;
    }
    int failed = text.failed;
    s->env[at] = buf_detach(&text, NULL);
    return failed ? TIDINGS_E_NOMEM : 0;
}

static int take_env(void *into, struct json *value, struct tidings_error *err)
{
    struct command_settings *s = into;
    if (!jv_is(value, JV_OBJECT) || jv_count(value) > COMMAND_WORDS_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "not an object of at most %u strings",
                            COMMAND_WORDS_MAX);
    }
    struct tidings_str name;
    struct json *member;
    for (void *it = NULL; (it = jv_next(value, it, &name, &member)) != NULL;) {
        struct tidings_str text = jv_str(member);
        if (!jv_is(member, JV_STRING) || text.len > SETTING_TEXT_MAX || name.len == 0 ||
            str_find(name, '=') >= 0 || memchr(name.ptr, '\0', name.len) ||
            (text.len > 0 && memchr(text.ptr, '\0', text.len))) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a name without '=' and a string without NUL, at most %u bytes",
                                SETTING_TEXT_MAX);
        }
        if (add_variable(s, name, text) < 0) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

#define AT(field) offsetof(struct command_settings, field)
#define HOUR 3600000ull

static const struct setting rows[] = {
    {.key = "argv", .type = SETTING_OTHER, .take = take_argv},
    {.key = "interval",
     .type = SETTING_DURATION,
     .offset = AT(interval_ms),
     .fallback = 5000,
     .min = 0,
     .max = 24 * HOUR},
    {.key = "timeout",
     .type = SETTING_DURATION,
     .offset = AT(timeout_ms),
     .fallback = 10000,
     .min = 100,
     .max = HOUR},
    {.key = "maxOutput",
     .type = SETTING_SIZE,
     .offset = AT(max_output),
     .fallback = 1u << 20,
     .min = 1,
     .max = 64u << 20},
    {.key = "cwd", .type = SETTING_TEXT, .offset = AT(cwd)},
    {.key = "env", .type = SETTING_OTHER, .take = take_env},
    {.key = "mimeType", .type = SETTING_TEXT, .offset = AT(mime_type)},
    {.key = "name", .type = SETTING_TEXT, .offset = AT(name)},
    {.key = "title", .type = SETTING_TEXT, .offset = AT(title)},
    {.key = "description", .type = SETTING_TEXT, .offset = AT(description)},
};

static const char *find_variable(const struct command_settings *s, struct tidings_str prefix)
{
    for (size_t i = 0; s->env[i]; i++) {
        if (str_starts(tidings_str(s->env[i]), prefix)) {
            return s->env[i] + prefix.len;
        }
    }
    return NULL;
}

int command_settings_read(struct command_settings *s, struct tidings_str config,
                          struct tidings_error *err)
{
    int rc = settings_read(rows, sizeof(rows) / sizeof(rows[0]), config, s, err);
    if (rc < 0) {
        return rc;
    }
    if (!s->argv[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "argv is missing: the program and its arguments, such as [\"uptime\"]");
    }
    if (s->interval_ms > 0 && s->interval_ms < 100) {
        return tidings_fail(err, TIDINGS_E_INVALID, "interval: not 0 and less than 100ms");
    }
    if ((!find_variable(s, STR("PATH=")) && add_variable(s, STR("PATH"), STR(COMMAND_PATH)) < 0) ||
        (!find_variable(s, STR("LANG=")) && add_variable(s, STR("LANG"), STR("C.UTF-8")) < 0)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->path = find_variable(s, STR("PATH="));
    return 0;
}

void command_settings_deinit(struct command_settings *s)
{
    for (size_t i = 0; i < sizeof(s->argv) / sizeof(s->argv[0]); i++) {
        mem_free(s->argv[i]);
    }
    for (size_t i = 0; i < sizeof(s->env) / sizeof(s->env[0]); i++) {
        mem_free(s->env[i]);
    }
    char *texts[] = {s->id, s->cwd, s->mime_type, s->name, s->title, s->description};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        mem_free(texts[i]);
    }
    *s = (struct command_settings){0};
}
