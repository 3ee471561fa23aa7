/* SPDX-License-Identifier: MIT
 *
 * The only file of this folder that names PCRE2.
 *
 * Each search takes and frees its own scratch, because a regex serves several threads. Nothing is
 * translated to machine code: schemas are compiled more often than patterns are worth it.
 */
#include "json/schema_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "base/str.h"

#define HEAP_LIMIT_KIB 1024u

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

/* ECMA-262 lets general categories be spelled out; PCRE2 knows the short names only. */
static const struct {
    const char *spelled, *brief;
} categories[] = {
    {"Cased_Letter", "L&"},
    {"Close_Punctuation", "Pe"},
    {"Connector_Punctuation", "Pc"},
    {"Control", "Cc"},
    {"Currency_Symbol", "Sc"},
    {"Dash_Punctuation", "Pd"},
    {"Decimal_Number", "Nd"},
    {"Enclosing_Mark", "Me"},
    {"Final_Punctuation", "Pf"},
    {"Format", "Cf"},
    {"Initial_Punctuation", "Pi"},
    {"Letter", "L"},
    {"Letter_Number", "Nl"},
    {"Line_Separator", "Zl"},
    {"Lowercase_Letter", "Ll"},
    {"Mark", "M"},
    {"Math_Symbol", "Sm"},
    {"Modifier_Letter", "Lm"},
    {"Modifier_Symbol", "Sk"},
    {"Nonspacing_Mark", "Mn"},
    {"Number", "N"},
    {"Open_Punctuation", "Ps"},
    {"Other", "C"},
    {"Other_Letter", "Lo"},
    {"Other_Number", "No"},
    {"Other_Punctuation", "Po"},
    {"Other_Symbol", "So"},
    {"Paragraph_Separator", "Zp"},
    {"Private_Use", "Co"},
    {"Punctuation", "P"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Spacing_Mark", "Mc"},
    {"Surrogate", "Cs"},
    {"Symbol", "S"},
    {"Titlecase_Letter", "Lt"},
    {"Unassigned", "Cn"},
    {"Uppercase_Letter", "Lu"},
    {"digit", "Nd"},
    {"punct", "P"},
};

static struct tidings_str category(struct tidings_str name)
{
    static const struct tidings_str prefixes[] = {{"General_Category=", 17}, {"gc=", 3}};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (str_starts(name, prefixes[i])) {
            name = str_skip(name, prefixes[i].len);
        }
    }
    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        if (str_eq(name, tidings_str(categories[i].spelled))) {
            return tidings_str(categories[i].brief);
        }
    }
    return name;
}

/* Copy `source` with \p{Letter} as \p{L}. */
static int translate(struct tidings_str source, struct buf *out)
{
    size_t i = 0;
    while (i < source.len) {
        if (source.ptr[i] != '\\' || i + 1 == source.len) {
            buf_putc(out, source.ptr[i++]);
            continue;
        }
        buf_put(out, source.ptr + i, 2);
        bool is_property = source.ptr[i + 1] == 'p' || source.ptr[i + 1] == 'P';
        i += 2;
        if (is_property && i < source.len && source.ptr[i] == '{') {
            struct tidings_str name = str_skip(source, i + 1);
            ptrdiff_t end = str_find(name, '}');
            if (end >= 0) {
                name.len = (size_t)end;
                buf_putc(out, '{');
                buf_puts(out, category(name));
                i += 1 + name.len;
            }
        }
    }
    return out->failed;
}

static int refuse(int number, size_t at, struct tidings_error *err)
{
    if (number == PCRE2_ERROR_HEAP_FAILED) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char reason[120];
    if (pcre2_get_error_message(number, (PCRE2_UCHAR *)reason, sizeof(reason)) < 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "regex refused");
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "regex refused: %s near byte %zu", reason, at + 1);
}

static int compile(struct tidings_str source, struct schema_regex *r, struct tidings_error *err)
{
    int number = PCRE2_ERROR_HEAP_FAILED;
    size_t at = 0;
    pcre2_code *code = NULL;
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (context) {
        pcre2_set_parens_nest_limit(context, 100);
        code = pcre2_compile((PCRE2_SPTR)source.ptr, source.len,
                             PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY |
                                 PCRE2_ALLOW_EMPTY_CLASS | PCRE2_MATCH_UNSET_BACKREF |
                                 PCRE2_NEVER_BACKSLASH_C,
                             &number, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (!code) {
        return refuse(number, at, err);
    }
    size_t bytes = 0;
    if (pcre2_pattern_info(code, PCRE2_INFO_SIZE, &bytes) != 0 ||
        bytes > SCHEMA_REGEX_MAX_COMPILED) {
        pcre2_code_free(code);
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "regex refused: %zu bytes once compiled, at most %u accepted", bytes,
                            SCHEMA_REGEX_MAX_COMPILED);
    }
    r->code = code;
    r->bytes = bytes;
    return 0;
}

int schema_regex_create(struct tidings_str source, size_t max_bytes, struct schema_regex **ret,
                        struct tidings_error *err)
{
    if (source.len > max_bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "regex of %zu bytes refused: at most %zu accepted", source.len,
                            max_bytes);
    }
    struct buf text;
    buf_init(&text, max_bytes + 1); /* a short name is never longer than the spelled one */
    struct schema_regex *r = mem_zalloc(sizeof(*r));
    int rc = r && buf_reserve(&text, 1) == 0 ? translate(source, &text) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else {
        rc = compile(tidings_strn(text.len > 0 ? text.ptr : "", text.len), r, err);
    }
    buf_deinit(&text);
    if (rc < 0) {
        mem_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void schema_regex_destroy(struct schema_regex *r)
{
    if (r) {
        pcre2_code_free(r->code);
        mem_free(r);
    }
}

enum schema_regex_result schema_regex_search(const struct schema_regex *r, struct tidings_str text,
                                             uint32_t match_limit)
{
    int rc = PCRE2_ERROR_NOMEMORY;
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, NULL);
    pcre2_match_context *context = general ? pcre2_match_context_create(general) : NULL;
    pcre2_match_data *data = context ? pcre2_match_data_create(1, general) : NULL;
    if (data) {
        pcre2_set_match_limit(context, match_limit);
        pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
        rc = pcre2_match(r->code, (PCRE2_SPTR)(text.len > 0 ? text.ptr : ""), text.len, 0, 0, data,
                         context);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_general_context_free(general);
    if (rc >= 0) { /* 0: found, with more groups than we keep */
        return SCHEMA_REGEX_FOUND;
    }
    return rc == PCRE2_ERROR_NOMATCH    ? SCHEMA_REGEX_ABSENT
           : rc == PCRE2_ERROR_NOMEMORY ? SCHEMA_REGEX_NOMEM
                                        : SCHEMA_REGEX_GAVE_UP;
}
