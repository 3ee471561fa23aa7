/* SPDX-License-Identifier: MIT
 *
 * Rows of peers: read, sorted, laid out in columns.
 */
#include "bin/monitor/peer_table.h"

#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/monitor/self_state.h"

const char *const peer_orders[] = {"lag", "waiting", "bytes", "subscriptions", "since", NULL};

/* ---- reading --------------------------------------------------------------------------------- */

/* "a/b", or the one that is there. */
static char *peer_table_join(char *a, char *b)
{
    size_t len = strlen(a ? a : "") + strlen(b ? b : "") + 2;
    char *text = malloc(len);
    if (text) {
        snprintf(text, len, "%s%s%s", a ? a : "", a && *a && b && *b ? "/" : "", b ? b : "");
    }
    tidings_free(a);
    tidings_free(b);
    return text;
}

static int peer_table_add(void *user, struct tidings_str key, struct tidings_str json)
{
    struct peer_table *t = user;
    (void)key;
    if (t->count == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct peer_row *rows = realloc(t->rows, cap * sizeof(*rows));
        if (!rows) {
            return TIDINGS_E_NOMEM;
        }
        t->rows = rows;
        t->cap = cap;
    }
    struct peer_row *row = &t->rows[t->count++];
    char *principal = text_at(json, "/principal");
    *row = (struct peer_row){
        .peer = text_at(json, "/peer"),
        .who = principal && *principal ? principal : text_at(json, "/by"),
        .address = text_at(json, "/address"),
        .client = peer_table_join(text_at(json, "/client/name"), text_at(json, "/client/version")),
        .via = peer_table_join(text_at(json, "/listener"), text_at(json, "/transport")),
        .error = text_at(json, "/lastError"),
        .lag_ms = self_state_number(json, "/lagMs"),
        .waiting = self_state_number(json, "/waiting"),
        .unsent = self_state_number(json, "/unsentBytes"),
        .bytes = self_state_number(json, "/bytesOut"),
        .subscriptions = self_state_number(json, "/subscriptions"),
        .since_ms = self_state_number(json, "/sinceMs"),
    };
    if (row->who != principal) {
        tidings_free(principal);
    }
    return row->peer && row->who && row->address && row->client && row->via && row->error
               ? 0
               : TIDINGS_E_NOMEM;
}

int peer_table_read(struct peer_table *t, struct tidings_str json, struct tidings_error *err)
{
    int rc = tidings_json_each(json, "", peer_table_add, t);
    return rc == TIDINGS_E_NOMEM ? tidings_fail(err, rc, "out of memory")
           : rc < 0 ? tidings_fail(err, rc, "tidings://self/peers is not what it should be")
                    : 0;
}

void peer_table_deinit(struct peer_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct peer_row *row = &t->rows[i];
        tidings_free(row->peer);
        tidings_free(row->who);
        tidings_free(row->address);
        tidings_free(row->error);
        free(row->client);
        free(row->via);
    }
    free(t->rows);
    *t = (struct peer_table){0};
}

/* ---- sorting --------------------------------------------------------------------------------- */

static double peer_table_key(const struct peer_row *row, enum peer_order order)
{
    switch (order) {
    case PEERS_BY_WAITING:
        return row->waiting;
    case PEERS_BY_BYTES:
        return row->bytes;
    case PEERS_BY_SUBSCRIPTIONS:
        return row->subscriptions;
    case PEERS_BY_SINCE:
        return row->since_ms;
    case PEERS_BY_LAG:
    default:
        return row->lag_ms;
    }
}

static int peer_table_compare(const void *a, const void *b, void *user)
{
    const struct peer_row *x = a, *y = b;
    const enum peer_order *order = user;
    double kx = peer_table_key(x, *order), ky = peer_table_key(y, *order);
    return kx > ky ? -1 : kx < ky ? 1 : strcmp(x->peer, y->peer);
}

void peer_table_sort(struct peer_table *t, enum peer_order order)
{
    if (t->count > 1) {
        qsort_r(t->rows, t->count, sizeof(t->rows[0]), peer_table_compare, &order);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

void put_cell(FILE *out, const char *text, size_t width, bool fills)
{
    struct json_text t;
    char *shown = NULL;
    if (json_text_begin(&t)) {
        put_text(t.out, tidings_str(text));
        shown = json_text_take(&t);
    }
    size_t used = shown ? put_columns(out, tidings_str(shown), width) : 0;
    for (; fills && used < width; used++) {
        fputc(' ', out);
    }
    free(shown);
}

#define PEER_TABLE_WIDE 120u /* columns that all of a row is worth showing in */

enum {
    COLUMN_PEER = 13,
    COLUMN_WHO = 18,
    COLUMN_CLIENT = 22,
    COLUMN_ADDRESS = 22,
    COLUMN_VIA = 14
};

/* On a screen of 80 columns: who it is and how far behind, without what else is known. */
static void peer_table_put_narrow(FILE *out, const struct peer_row *row)
{
    char lag[SPAN_TEXT_MAX];
    put_cell(out, row->peer, COLUMN_PEER, true);
    fprintf(out, " %8s %7.0f %6.0f  ", span_text(row->lag_ms, lag), row->waiting,
            row->subscriptions);
    put_cell(out, row->who, COLUMN_WHO, true);
    fputc(' ', out);
    put_cell(out, row->address, COLUMN_ADDRESS, false);
}

static void peer_table_put_row(FILE *out, const struct peer_row *row, double now_ms)
{
    char lag[SPAN_TEXT_MAX], age[SPAN_TEXT_MAX], bytes[SIZE_TEXT_MAX];
    put_cell(out, row->peer, COLUMN_PEER, true);
    fprintf(out, " %8s %7.0f %6.0f %10s %8s  ", span_text(row->lag_ms, lag), row->waiting,
            row->subscriptions, size_text((uint64_t)row->bytes, bytes),
            span_text(now_ms > row->since_ms ? now_ms - row->since_ms : 0, age));
    put_cell(out, row->who, COLUMN_WHO, true);
    fputc(' ', out);
    put_cell(out, row->client, COLUMN_CLIENT, true);
    fputc(' ', out);
    put_cell(out, row->address, COLUMN_ADDRESS, true);
    fputc(' ', out);
    put_cell(out, row->via, COLUMN_VIA, *row->error != '\0');
    if (*row->error) {
        fputc(' ', out);
        put_cell(out, row->error, SIZE_MAX, false);
    }
}

void peer_table_put(const struct cli *cli, FILE *out, const struct peer_table *t, size_t first,
                    size_t max, size_t width, double now_ms, const char *end)
{
    put_style(cli, out, STYLE_DIM);
    char head[256];
    bool is_narrow = width < PEER_TABLE_WIDE;
    if (is_narrow) {
        snprintf(head, sizeof(head), "%-*s %8s %7s %6s  %-*s ADDRESS", COLUMN_PEER, "PEER", "LAG",
                 "WAITING", "SUBS", COLUMN_WHO, "PRINCIPAL");
    } else {
        snprintf(head, sizeof(head), "%-*s %8s %7s %6s %10s %8s  %-*s %-*s %-*s %-*s LAST ERROR",
                 COLUMN_PEER, "PEER", "LAG", "WAITING", "SUBS", "SENT", "AGE", COLUMN_WHO,
                 "PRINCIPAL", COLUMN_CLIENT, "CLIENT", COLUMN_ADDRESS, "ADDRESS", COLUMN_VIA,
                 "VIA");
    }
    put_cell(out, head, width, false);
    put_style(cli, out, STYLE_PLAIN);
    fputs(end, out);
    for (size_t i = first; i < t->count && i < first + max; i++) {
        char *line = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&line, &len);
        if (f) {
            if (is_narrow) {
                peer_table_put_narrow(f, &t->rows[i]);
            } else {
                peer_table_put_row(f, &t->rows[i], now_ms);
            }
            fclose(f);
            put_cell(out, line, width, false);
            free(line);
        }
        fputs(end, out);
    }
}
