/* SPDX-License-Identifier: MIT
 *
 * Reads tidings://self/, whole or page by page.
 */
#include "bin/monitor/self_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "bin/remote/part.h"

char *self_state_read(struct tidings_client *client, const char *name, struct tidings_error *err)
{
    size_t len = sizeof("tidings://self/") + strlen(name);
    char *uri = malloc(len);
    if (!uri) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    snprintf(uri, len, "tidings://self/%s", name);
    char *answer = part_ask(client, uri, NULL, NULL, err);
    char *text = answer ? tidings_json_string(tidings_str(answer), "/contents/0/text") : NULL;
    if (answer && !text) {
        tidings_fail(err, TIDINGS_E_PARSE, "%s has no text", uri);
    } else if (!answer && err->code == TIDINGS_E_NOTFOUND) {
        tidings_fail(err, TIDINGS_E_NOTFOUND,
                     "the server does not say: it must run with --self, and you must be allowed to "
                     "read %s",
                     uri);
    }
    free(uri);
    tidings_free(answer);
    return text;
}

struct self_page {
    FILE *out;
    size_t rows;
    char last[64];
};

static int self_state_add_row(void *user, struct tidings_str key, struct tidings_str row)
{
    struct self_page *page = user;
    (void)key;
    char *name = text_at(row, "/row");
    if (page->rows++ > 0) {
        fputc(',', page->out);
    }
    fwrite(row.ptr, 1, row.len, page->out);
    snprintf(page->last, sizeof(page->last), "%s", name ? name : "");
    tidings_free(name);
    return 0;
}

char *self_state_read_all(struct tidings_client *client, const char *name,
                          struct tidings_error *err)
{
    char *all = NULL;
    size_t len = 0;
    struct self_page page = {.out = open_memstream(&all, &len)};
    bool more = page.out != NULL;
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    int rc = more ? 0 : TIDINGS_E_NOMEM;
    if (more) {
        fputc('[', page.out);
    }
    for (unsigned i = 0; more && i < SELF_STATE_PAGES; i++) {
        char part[128];
        snprintf(part, sizeof(part), i > 0 ? "%s?after=%s" : "%s", name, page.last);
        size_t before = page.rows;
        char *text = self_state_read(client, part, err);
        rc = text ? 0 : err->code;
        if (text) {
            (void)tidings_json_each(tidings_str(text), "", self_state_add_row, &page);
        }
        more = text && page.rows > before && page.last[0] != '\0';
        tidings_free(text);
    }
    if (page.out) {
        fputc(']', page.out);
        rc = fclose(page.out) == 0 ? rc : TIDINGS_E_NOMEM;
    }
    char *copy = rc == 0 ? tidings_json_compact(tidings_str(all), err) : NULL;
    free(all);
    return copy;
}

double self_state_number(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    double n = text ? strtod(text, NULL) : 0;
    tidings_free(text);
    return n;
}

const char *span_text(double ms, char out[SPAN_TEXT_MAX])
{
    if (ms < 1000) {
        snprintf(out, SPAN_TEXT_MAX, ms > 0 && ms < 10 ? "%.1f ms" : "%.0f ms", ms);
    } else if (ms < 120e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.1f s", ms / 1e3);
    } else if (ms < 7200e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.0f min", ms / 60e3);
    } else if (ms < 172800e3) {
        snprintf(out, SPAN_TEXT_MAX, "%.0f h", ms / 3600e3);
    } else {
        snprintf(out, SPAN_TEXT_MAX, "%.0f d", ms / 86400e3);
    }
    return out;
}
