/* SPDX-License-Identifier: MIT
 *
 * Media types by file name: a built-in table, and an index over the text of globs2.
 *
 * The file is read whole, once, and every slice in the index points into that text: loading costs a
 * read of some 35 KB and about a thousand hash insertions. Invariant: the table is immutable after
 * mime_load, so lookups need no lock. It deliberately has no magic numbers and no user overrides:
 * the type is a hint, and the content of a resource shows whether it is text.
 */
#include "sources/mime.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/pattern.h"

#define GLOBS_MAX_BYTES (1u << 20)
/* Patterns that are neither a name nor a suffix; a dozen in practice. */
#define GLOBS_MAX_PATTERNS 64u
#define NAME_MAX_BYTES 255u

struct glob {
    struct tidings_str text; /* the name, the suffix without '*', or the whole pattern */
    struct tidings_str type;
    uint32_t weight;
    bool is_case_sensitive;
};

struct mime_table {
    char *text;
    struct glob *globs;
    size_t count;
    struct map names;
    struct map suffixes;
    const struct glob *patterns[GLOBS_MAX_PATTERNS];
    size_t pattern_count;
    size_t longest_suffix;
    bool begins_suffix[256]; /* true if a suffix begins with this byte */
};

struct builtin {
    const char *key;
    const char *type;
};

/* Both tables are sorted by key (bytes), keys in lower case. No name ends in one of the extensions,
 * so the order of lookups does not matter. */
static const struct builtin builtin_extensions[] = {
    {"avif", "image/avif"},
    {"bash", "text/x-shellscript"},
    {"bmp", "image/bmp"},
    {"c", "text/x-csrc"},
    {"cc", "text/x-c++src"},
    {"cfg", "text/plain"},
    {"cjs", "text/javascript"},
    {"conf", "text/plain"},
    {"cpp", "text/x-c++src"},
    {"cs", "text/x-csharp"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"diff", "text/x-diff"},
    {"env", "text/plain"},
    {"gif", "image/gif"},
    {"go", "text/x-go"},
    {"gz", "application/gzip"},
    {"h", "text/x-chdr"},
    {"hpp", "text/x-c++hdr"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/x-icon"},
    {"ini", "text/plain"},
    {"java", "text/x-java"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"jsx", "text/jsx"},
    {"kt", "text/x-kotlin"},
    {"lock", "text/plain"},
    {"log", "text/plain"},
    {"lua", "text/x-lua"},
    {"markdown", "text/markdown"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"ogg", "audio/ogg"},
    {"patch", "text/x-diff"},
    {"pdf", "application/pdf"},
    {"php", "application/x-php"},
    {"png", "image/png"},
    {"proto", "text/plain"},
    {"py", "text/x-python"},
    {"rb", "text/x-ruby"},
    {"rs", "text/rust"},
    {"rst", "text/x-rst"},
    {"sh", "text/x-shellscript"},
    {"sql", "application/sql"},
    {"svg", "image/svg+xml"},
    {"swift", "text/x-swift"},
    {"tar", "application/x-tar"},
    {"toml", "application/toml"},
    {"ts", "text/typescript"},
    {"tsv", "text/tab-separated-values"},
    {"tsx", "text/typescript"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff2", "font/woff2"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

static const struct builtin builtin_names[] = {
    {".dockerignore", "text/plain"},  {".editorconfig", "text/plain"},
    {".gitattributes", "text/plain"}, {".gitignore", "text/plain"},
    {".npmrc", "text/plain"},         {"changelog", "text/plain"},
    {"contributing", "text/plain"},   {"copying", "text/plain"},
    {"dockerfile", "text/plain"},     {"gemfile", "text/x-ruby"},
    {"go.mod", "text/plain"},         {"go.sum", "text/plain"},
    {"licence", "text/plain"},        {"license", "text/plain"},
    {"makefile", "text/x-makefile"},  {"notice", "text/plain"},
    {"readme", "text/plain"},         {"todo", "text/plain"},
    {"version", "text/plain"},
};

/* ---- loading --------------------------------------------------------------------------------- */

static char *read_whole(const char *path, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    struct stat st;
    char *text = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= GLOBS_MAX_BYTES) {
        text = mem_alloc((size_t)st.st_size);
    }
    ssize_t got = text ? read(fd, text, (size_t)st.st_size) : -1;
    close(fd);
    if (got <= 0) {
        mem_free(text);
        return NULL;
    }
    *ret_len = (size_t)got;
    return text;
}

/* Parses "50:text/x-csrc:*.c:cs": weight, type, glob, optional flags. Returns false for comments
 * and invalid lines. */
static bool parse_line(struct tidings_str line, struct glob *out)
{
    bool found;
    uint64_t weight;
    struct tidings_str rest;
    if (!str_to_u64(str_cut(line, ':', &rest, &found), &weight) || !found || weight > 1000) {
        return false;
    }
    out->type = str_cut(rest, ':', &rest, &found);
    if (!found || out->type.len == 0 || out->type.len > 255 || !str_is_utf8(out->type)) {
        return false;
    }
    struct tidings_str flags;
    out->text = str_cut(rest, ':', &flags, &found);
    out->weight = (uint32_t)weight;
    out->is_case_sensitive = str_eq(flags, STR("cs"));
    return out->text.len > 0 && out->text.len <= NAME_MAX_BYTES;
}

static bool has_wildcard(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '*' || s.ptr[i] == '?' || s.ptr[i] == '[') {
            return true;
        }
    }
    return false;
}

/* For two globs with the same pattern the heavier one stays; with equal weights, the first. */
static int index_put(struct map *map, struct glob *g)
{
    struct glob *old = map_find(map, g->text);
    if (old && old->weight >= g->weight) {
        if (old->weight == g->weight && !g->is_case_sensitive && str_eq(old->type, g->type)) {
            old->is_case_sensitive = false;
        }
        return 0;
    }
    return map_put(map, g->text, g, NULL);
}

static int index_glob(struct mime_table *m, struct glob *g)
{
    if (!has_wildcard(g->text)) {
        return index_put(&m->names, g);
    }
    struct tidings_str suffix = str_skip(g->text, 1);
    if (g->text.ptr[0] == '*' && suffix.len > 0 && !has_wildcard(suffix)) {
        g->text = suffix;
        m->begins_suffix[(unsigned char)suffix.ptr[0]] = true;
        if (suffix.len > m->longest_suffix) {
            m->longest_suffix = suffix.len;
        }
        return index_put(&m->suffixes, g);
    }
    if (m->pattern_count < GLOBS_MAX_PATTERNS && glob_check(g->text, NULL) == 0) {
        m->patterns[m->pattern_count++] = g;
    }
    return 0;
}

static int index_text(struct mime_table *m, struct tidings_str text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
    }
    m->globs = mem_alloc(lines * sizeof *m->globs);
    if (!m->globs) {
        return TIDINGS_E_NOMEM;
    }
    int rc = 0;
    while (text.len > 0 && rc == 0) {
        struct tidings_str line = str_cut(text, '\n', &text, NULL);
        struct glob *g = &m->globs[m->count];
        if (parse_line(line, g)) {
            m->count++;
            rc = index_glob(m, g);
        }
    }
    return rc;
}

struct mime_table *mime_load(const char *path)
{
    struct mime_table *m = mem_zalloc(sizeof *m);
    if (!m) {
        return NULL;
    }
    map_init(&m->names);
    map_init(&m->suffixes);
    size_t len;
    m->text = read_whole(path, &len);
    if (m->text && index_text(m, tidings_strn(m->text, len)) < 0) {
        mime_destroy(m);
        return NULL;
    }
    return m;
}

void mime_destroy(struct mime_table *m)
{
    if (!m) {
        return;
    }
    map_deinit(&m->names);
    map_deinit(&m->suffixes);
    mem_free(m->globs);
    mem_free(m->text);
    mem_free(m);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Keys are short and differ early. */
static int mime_compare(struct tidings_str wanted, const char *key)
{
    size_t i = 0;
    while (i < wanted.len && wanted.ptr[i] == key[i] && key[i]) {
        i++;
    }
    int next = i < wanted.len ? (unsigned char)wanted.ptr[i] : -1;
    return next - (key[i] ? (unsigned char)key[i] : -1);
}

static const struct builtin *mime_search(const struct builtin *rows, size_t count,
                                         struct tidings_str wanted)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        int order = mime_compare(wanted, rows[middle].key);
        if (order == 0) {
            return &rows[middle];
        }
        if (order < 0) {
            count = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

#define SEARCH(rows, wanted) mime_search(rows, sizeof(rows) / sizeof((rows)[0]), wanted)

static struct tidings_str find_builtin(struct tidings_str lower)
{
    const char *dot = memrchr(lower.ptr, '.', lower.len);
    const struct builtin *row = NULL;
    if (dot) {
        row = SEARCH(builtin_extensions, str_skip(lower, (size_t)(dot - lower.ptr) + 1));
    }
    if (!row) {
        row = SEARCH(builtin_names, lower);
    }
    return row ? tidings_str(row->type) : STR_EMPTY;
}

static const struct glob *mime_is_better(const struct glob *best, const struct glob *g,
                                         bool is_lowered)
{
    if (!g || (is_lowered && g->is_case_sensitive)) {
        return best;
    }
    if (!best || g->weight > best->weight) {
        return g;
    }
    return g->weight == best->weight && g->text.len > best->text.len ? g : best;
}

static const struct glob *find_glob(const struct mime_table *m, struct tidings_str name,
                                    bool is_lowered)
{
    const struct glob *best = mime_is_better(NULL, map_find(&m->names, name), is_lowered);
    if (best) {
        return best;
    }
    size_t first = name.len > m->longest_suffix ? name.len - m->longest_suffix : 0;
    for (size_t i = first; i < name.len; i++) {
        if (m->begins_suffix[(unsigned char)name.ptr[i]]) {
            best = mime_is_better(best, map_find(&m->suffixes, str_skip(name, i)), is_lowered);
        }
    }
    for (size_t i = 0; i < m->pattern_count; i++) {
        if (glob_matches(m->patterns[i]->text, name)) {
            best = mime_is_better(best, m->patterns[i], is_lowered);
        }
    }
    return best;
}

struct tidings_str mime_find(const struct mime_table *m, struct tidings_str name)
{
    char memory[NAME_MAX_BYTES];
    if (name.len == 0 || name.len > sizeof memory) {
        return STR_EMPTY;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        memory[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    struct tidings_str lower = {memory, name.len};
    struct tidings_str type = find_builtin(lower);
    if (type.len > 0) {
        return type;
    }
    const struct glob *g = find_glob(m, name, false);
    if (!g) {
        g = find_glob(m, lower, true);
    }
    return g ? g->type : STR_EMPTY;
}
