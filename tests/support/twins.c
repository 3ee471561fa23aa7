/* SPDX-License-Identifier: MIT
 *
 * Running a scenario in both worlds and comparing.
 */
#include "support/twins.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "support/twin_step.h"

#define SHOWN 600u

static struct twin_world worlds[2];

/* ---- what may differ ------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* For the text at `at`: the length to mask, after the length to keep. */
static size_t to_mask(struct tidings_str at, size_t *kept)
{
    static const struct {
        const char *before;
        char after;
    } fields[] = {
        {"Date: ", '\r'},         {"Last-Modified: ", '\r'},  {"\"lastModified\":\"", '"'},
        {"\"updated_at\":", ','}, {"Mcp-Session-Id: ", '\r'}, {"sessionId=", '\n'},
        {"\nid: ", '-'},          {"\"at\":\"", '"'},         {"\\\"at\\\":\\\"", '\\'},
    };
    *kept = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (str_starts(at, tidings_str(fields[i].before))) {
            *kept = strlen(fields[i].before);
            struct tidings_str value = str_skip(at, *kept);
            ptrdiff_t end = str_find(value, fields[i].after);
            /* The clock of both worlds shows the year 2100; that of the file system does not. */
            return end < 0 || str_starts(value, STR("2100-")) ? 0 : (size_t)end;
        }
    }
    size_t words = 0, digits = 0;
    while (words < at.len && is_word(at.ptr[words])) {
        words++;
    }
    while (digits < at.len && is_hex(at.ptr[digits])) {
        digits++;
    }
    return words >= 65 ? words : digits >= 16 ? digits : 0;
}

static void mask(struct tidings_str text, struct buf *out)
{
    buf_clear(out);
    if (str_starts(text, STR("id: "))) { /* as behind a line end */
        buf_puts(out, STR("id: "));
        ptrdiff_t end = str_find(text, '-');
        text = str_skip(text, end < 0 ? 4 : (size_t)end);
    }
    while (text.len > 0) {
        size_t kept, masked = to_mask(text, &kept);
        kept = kept + masked > 0 ? kept : 1;
        buf_put(out, text.ptr, kept);
        for (size_t i = 0; i < masked; i++) {
            buf_putc(out, '#');
        }
        /* A word is compared only from its start. */
        size_t used = kept + masked;
        while (masked == 0 && kept == 1 && used < text.len && is_word(text.ptr[0]) &&
               is_word(text.ptr[used])) {
            buf_putc(out, text.ptr[used++]);
        }
        text = str_skip(text, used);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void put_context(struct buf *report, const char *title, struct tidings_str text, size_t at)
{
    size_t from = at > SHOWN / 2 ? at - SHOWN / 2 : 0;
    size_t len = text.len - from < SHOWN ? text.len - from : SHOWN;
    buf_putf(report, "  %s: %.*s\n", title, (int)len, text.ptr ? text.ptr + from : "");
}

static bool is_same(size_t wire, struct buf *report)
{
    static const char *const names[] = {"requests", "listen", "second listen",
                                        "session",  "lines",  "WebSocket"};
    struct buf said[2];
    for (size_t i = 0; i < 2; i++) {
        struct twin_wire *w = &worlds[i].wires[wire];
        buf_init(&said[i], 64u << 20);
        mask(str_skip(buf_str(&w->heard), w->compared), &said[i]);
        buf_puts(&said[i], w->over ? STR("[closed]") : STR_EMPTY);
        w->compared = w->heard.len;
    }
    bool same = str_eq(buf_str(&said[0]), buf_str(&said[1]));
    if (!same) {
        size_t at = 0;
        while (at < said[0].len && at < said[1].len && said[0].ptr[at] == said[1].ptr[at]) {
            at++;
        }
        buf_putf(report, "differs on the connection of %s:\n", names[wire]);
        put_context(report, "with what is hidden", buf_str(&said[0]), at);
        put_context(report, "without it         ", buf_str(&said[1]), at);
    }
    buf_deinit(&said[0]);
    buf_deinit(&said[1]);
    return same;
}

/* ---- steps ----------------------------------------------------------------------------------- */

#define ASIDE "priv/aside" /* where what is hidden comes from and goes to */

static void do_file(struct twin_world *w, const struct twin_step *s)
{
    char path[256], text[256];
    bool is_first = w == &worlds[0];
    (void)snprintf(path, sizeof(path), "%.*s", (int)s->head.len, s->head.ptr);
    (void)snprintf(text, sizeof(text), "%.*s", (int)s->body.len, s->body.ptr ? s->body.ptr : "");
    if (s->kind == TWIN_STEP_APPEAR && is_first) {
        twin_file_put(w, ASIDE, text);
        twin_barrier(w);
        twin_file_move(w, ASIDE, path);
    } else if (s->kind == TWIN_STEP_VANISH && is_first) {
        twin_file_move(w, path, ASIDE);
    } else if (s->kind == TWIN_STEP_VANISH || text[0] == '\0') {
        twin_file_remove(w, path);
    } else {
        twin_file_put(w, path, text);
    }
    twin_barrier(w);
}

static void do_step(struct twin_world *w, const struct twin_step *s)
{
    switch (s->kind) {
    case TWIN_STEP_ANEW:
        twin_connect(w, s->wire);
        twin_send(w, s->wire, buf_str(&s->head), buf_str(&s->body));
        twin_barrier(w); /* watches for lists start without any notification */
        break;
    case TWIN_STEP_ASK:
        if (s->wire >= TWIN_OWN) {
            (void)twin_ask(w, s->wire, buf_str(&s->head), buf_str(&s->body));
        } else {
            twin_send(w, s->wire, buf_str(&s->head), buf_str(&s->body));
        }
        break;
    case TWIN_STEP_HANG_UP:
        twin_hang_up(w, s->wire);
        break;
    case TWIN_STEP_FILE:
    case TWIN_STEP_APPEAR:
    case TWIN_STEP_VANISH:
        do_file(w, s);
        break;
    }
    twin_run_until_idle(w);
}

/* Without what every request has. */
static void put_short(struct buf *report, struct tidings_str text)
{
    static const char usual[] = "\"io.modelcontextprotocol/";
    const char *at = text.len > 0 ? memmem(text.ptr, text.len, usual, sizeof(usual) - 1) : NULL;
    const char *end = at ? memmem(at, text.len - (size_t)(at - text.ptr), "\"}", 2) : NULL;
    if (end) {
        buf_put(report, text.ptr, (size_t)(at - text.ptr));
        text = str_skip(text, (size_t)(end + 2 - text.ptr));
    }
    buf_puts(report, text);
}

static void put_step(const struct twin_step *s, unsigned number, struct buf *report)
{
    static const char *const kinds[] = {
        "",      "on a new connection: ",     "hang up",
        "file ", "file from what is hidden ", "file to what is hidden "};
    static const char *const wires[] = {"requests", "listen",    "second listen", "session",
                                        "lines",    "WebSocket", "root",          "editor"};
    buf_putf(report, "%u. %s%s %s", number, s->is_hidden ? "hidden: " : "", wires[s->wire],
             kinds[s->kind]);
    for (size_t i = 0; i < s->head.len; i++) {
        buf_putc(report, s->head.ptr[i] == '\n' ? '|' : s->head.ptr[i]);
    }
    buf_putc(report, ' ');
    put_short(report, buf_str(&s->body));
    buf_putc(report, '\n');
}

static bool run_step(const struct twin_step *s, struct buf *report)
{
    twin_clock_move(1000);
    for (unsigned i = 0; i < s->times; i++) {
        do_step(&worlds[0], s);
        if (!s->is_hidden) {
            do_step(&worlds[1], s);
        }
    }
    bool same = true;
    for (size_t i = 0; i < TWIN_OWN && same; i++) {
        same = is_same(i, report);
    }
    return same;
}

static void put_plan(const struct twin_plan *plan, struct buf *report)
{
    buf_puts(report, STR("visible:"));
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        if (plan->is_visible[i]) {
            buf_putf(report, " %s%s (%s%s%s%s)", twin_areas[i].prefix, plan->by_glob[i] ? "**" : "",
                     plan->ops[i] & 1 ? "l" : "", plan->ops[i] & 2 ? "r" : "",
                     plan->ops[i] & 4 ? "s" : "", plan->ops[i] & 8 ? "w" : "");
        }
    }
    buf_putf(report, "%s%s\n", plan->shows_roots ? " roots" : "",
             plan->shows_types ? " types" : "");
}

static bool has_planted;

void twins_plant(bool is_planted)
{
    has_planted = is_planted;
}

bool twins_run(const uint8_t *bytes, size_t len, struct buf *report)
{
    struct twin_choices c;
    struct twin_plan plan;
    struct twin_step step;
    size_t plan_len = len < TWINS_PLAN_BYTES ? len : TWINS_PLAN_BYTES;
    bool same = true;
    buf_clear(report);
    twin_choices_init(&c, bytes, plan_len);
    twin_plan_choose(&c, &plan);
    plan.is_visible[TWIN_SECRETS] = has_planted;
    put_plan(&plan, report);
    twin_clock_move(0);
    twin_world_open(&worlds[0], &plan);
    twin_world_open(&worlds[1], &plan);
    twin_step_init(&step);
    unsigned number = 0;
    for (; same && twin_step_begin(&plan, number, &step); number++) {
        same = run_step(&step, report);
    }
    bytes += plan_len;
    len -= plan_len;
    for (; same && len > 0 && number < TWINS_STEPS_MAX; number++) {
        size_t n = len < TWINS_STEP_BYTES ? len : TWINS_STEP_BYTES;
        twin_choices_init(&c, bytes, n);
        twin_step_choose(&c, &plan, number, &step);
        put_step(&step, number, report);
        same = run_step(&step, report);
        bytes += n;
        len -= n;
    }
    twin_step_deinit(&step);
    twin_world_close(&worlds[0]);
    twin_world_close(&worlds[1]);
    return same;
}

void twins_make(uint64_t seed, unsigned steps, uint8_t *out)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < TWINS_PLAN_BYTES + steps * TWINS_STEP_BYTES; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out[i] = (uint8_t)(state >> 32);
    }
}

/* More than once, since threads have a part in it. */
static bool still_differs(const uint8_t *bytes, size_t len, struct buf *report)
{
    bool same = true;
    for (unsigned i = 0; i < 3 && same; i++) {
        same = twins_run(bytes, len, report);
    }
    return !same;
}

size_t twins_shrink(uint8_t *bytes, size_t len, struct buf *report)
{
    struct buf other;
    buf_init(&other, 1u << 24);
    for (size_t at = TWINS_PLAN_BYTES; at + TWINS_STEP_BYTES <= len;) {
        uint8_t removed[TWINS_STEP_BYTES];
        memcpy(removed, bytes + at, TWINS_STEP_BYTES);
        memmove(bytes + at, bytes + at + TWINS_STEP_BYTES, len - at - TWINS_STEP_BYTES);
        if (still_differs(bytes, len - TWINS_STEP_BYTES, &other)) {
            len -= TWINS_STEP_BYTES;
            buf_clear(report);
            buf_puts(report, buf_str(&other));
        } else {
            memmove(bytes + at + TWINS_STEP_BYTES, bytes + at, len - at - TWINS_STEP_BYTES);
            memcpy(bytes + at, removed, TWINS_STEP_BYTES);
            at += TWINS_STEP_BYTES;
        }
    }
    buf_deinit(&other);
    return len;
}
