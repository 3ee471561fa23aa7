/* SPDX-License-Identifier: MIT
 *
 * The only file that names PCRE2.
 *
 * Its memory comes from base/mem.h, but for machine code and the stack that runs on, which it maps
 * by itself. Options that would change what a byte is (UTF, \C) cannot be switched on from inside a
 * pattern; limits can only be lowered from there.
 */
#include "uri/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

/* Searches by interpretation before a regex is worth translating. */
#define JIT_AFTER 2u

#define JIT_STACK_MIN 32768u
#define JIT_STACK_MAX 262144u
#define HEAP_LIMIT_KIB 512u

struct regex_engine {
    pcre2_general_context *general;
    pcre2_compile_context *compile;
    pcre2_match_context *match;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
};

static void *take(PCRE2_SIZE size, void *user)
{
    (void)user;
    return mem_alloc(size);
}

static void give_back(void *p, void *user)
{
    (void)user;
    mem_free(p);
}

int regex_engine_create(struct regex_engine **ret, struct tidings_error *err)
{
    struct regex_engine *e = mem_zalloc(sizeof(*e));
    if (!e) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
    }
    e->general = pcre2_general_context_create(take, give_back, NULL);
    if (e->general) {
        e->compile = pcre2_compile_context_create(e->general);
        e->match = pcre2_match_context_create(e->general);
        e->data = pcre2_match_data_create(1, e->general);
    }
    if (!e->compile || !e->match || !e->data) {
        regex_engine_destroy(e);
        return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
    }
    pcre2_set_max_pattern_length(e->compile, REGEX_MAX_BYTES);
    pcre2_set_parens_nest_limit(e->compile, 100);
    pcre2_set_match_limit(e->match, REGEX_MATCH_LIMIT);
    pcre2_set_heap_limit(e->match, HEAP_LIMIT_KIB);
    *ret = e;
    return 0;
}

void regex_engine_destroy(struct regex_engine *engine)
{
    if (engine) {
        pcre2_jit_stack_free(engine->stack);
        pcre2_match_data_free(engine->data);
        pcre2_match_context_free(engine->match);
        pcre2_compile_context_free(engine->compile);
        pcre2_general_context_free(engine->general);
        mem_free(engine);
    }
}

static int refuse(struct tidings_str source, int number, size_t at, struct tidings_error *err)
{
    if (number == PCRE2_ERROR_HEAP_FAILED) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
    }
    char reason[120];
    if (pcre2_get_error_message(number, (PCRE2_UCHAR *)reason, sizeof(reason)) < 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "regex refused");
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "regex '%.*s' refused: %s at byte %zu",
                        source.len > 80 ? 80 : (int)source.len, source.ptr, reason, at + 1);
}

static size_t info_bytes(const pcre2_code *code, uint32_t what)
{
    size_t bytes = 0;
    return pcre2_pattern_info(code, what, &bytes) == 0 ? bytes : 0;
}

int regex_init(struct regex *r, struct regex_engine *engine, struct tidings_str source,
               struct tidings_error *err)
{
    if (source.len > REGEX_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "regex of %zu bytes refused: at most %u accepted",
                            source.len, REGEX_MAX_BYTES);
    }
    int number;
    size_t at;
    const char *text = source.len > 0 ? source.ptr : "";
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, source.len,
                                     PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C,
                                     &number, &at, engine->compile);
    if (!code) {
        return refuse(source, number, at, err);
    }
    size_t bytes = info_bytes(code, PCRE2_INFO_SIZE);
    if (bytes > REGEX_MAX_COMPILED) {
        pcre2_code_free(code);
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "regex refused: %zu bytes once compiled, at most %u accepted", bytes,
                            REGEX_MAX_COMPILED);
    }
    *r = (struct regex){.code = code};
    return 0;
}

void regex_deinit(struct regex *r)
{
    pcre2_code_free(r->code);
    r->code = NULL;
}

static void translate(struct regex *r, struct regex_engine *engine)
{
    r->is_settled = true;
    r->has_jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    if (r->has_jit && !engine->stack) {
        engine->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, engine->general);
        pcre2_jit_stack_assign(engine->match, NULL, engine->stack);
    }
}

enum regex_result regex_search(struct regex *r, struct regex_engine *engine,
                               struct tidings_str text)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.len > 0 ? text.ptr : "");
    if (!r->is_settled && r->searches++ == JIT_AFTER) {
        translate(r, engine);
    }
    int rc = r->has_jit
                 ? pcre2_jit_match(r->code, subject, text.len, 0, 0, engine->data, engine->match)
                 : pcre2_match(r->code, subject, text.len, 0, 0, engine->data, engine->match);
    if (rc >= 0) { /* 0: found, with more groups than we keep */
        return REGEX_FOUND;
    }
    return rc == PCRE2_ERROR_NOMATCH ? REGEX_ABSENT : REGEX_GAVE_UP;
}

size_t regex_bytes(const struct regex *r)
{
    return info_bytes(r->code, PCRE2_INFO_SIZE) + info_bytes(r->code, PCRE2_INFO_JITSIZE);
}
