/* SPDX-License-Identifier: MIT
 *
 * The options of a server as `--help` prints them: grouped by topic, broken at blanks.
 */
#include "server/config_private.h"

#include <stdio.h>

#include <tidings/server.h>

#define HELP_COLUMN 30u /* where explanations begin */
#define WIDTH_DEFAULT 80u
#define WIDTH_MIN 50u
#define WIDTH_MAX 100u

struct help_page {
    struct buf *out;
    size_t width;
};

/* `text`, the cursor being at the column where explanations begin. */
static void help_page_wrap(struct help_page *p, struct tidings_str text)
{
    size_t column = HELP_COLUMN;
    while (text.len > 0) {
        const char *blank = memchr(text.ptr, ' ', text.len);
        size_t n = blank ? (size_t)(blank - text.ptr) : text.len;
        if (column > HELP_COLUMN && column + 1 + n > p->width) {
            buf_putf(p->out, "\n%*s", (int)HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            buf_putc(p->out, ' ');
            column++;
        }
        buf_put(p->out, text.ptr, n);
        column += n;
        n += blank ? 1 : 0;
        text = tidings_strn(text.ptr + n, text.len - n);
    }
    buf_putc(p->out, '\n');
}

static void help_page_row(struct help_page *p, const char *name, const char *metavar,
                          struct tidings_str help)
{
    size_t start = p->out->len;
    buf_putf(p->out, "  --%s%s%s", name, metavar ? " " : "", metavar ? metavar : "");
    size_t used = p->out->len - start;
    if (used + 1 >= HELP_COLUMN) {
        buf_putc(p->out, '\n');
        used = 0;
    }
    buf_putf(p->out, "%*s", (int)(HELP_COLUMN - used), "");
    help_page_wrap(p, help);
}

static void help_page_option(struct help_page *p, const struct config_row *row)
{
    bool is_on = row->type == CONFIG_BOOL && strcmp(row->value, "true") == 0;
    struct tidings_config_option o;
    struct buf help;
    buf_init(&help, 4096);
    buf_putf(&help, "%s%s", is_on ? "do not " : "", row->help);
    if (row->type == CONFIG_LEVELS) {
        buf_puts(&help, STR("; levels are "));
        config_put_accepted(&help, row);
    }
    if (row->type == CONFIG_CHOICE) {
        buf_puts(&help, STR("; one of "));
        config_put_accepted(&help, row);
    }
    if (row->value[0] && row->type != CONFIG_BOOL) {
        buf_putf(&help, " (default %s)", row->value);
    }
    tidings_config_option((size_t)(row - config_rows), &o);
    help_page_row(p, o.name, o.metavar, buf_str(&help));
    p->out->failed |= help.failed;
    buf_deinit(&help);
}

int config_help(struct buf *out, size_t width)
{
    width = width == 0 ? WIDTH_DEFAULT : width < WIDTH_MIN ? WIDTH_MIN : width;
    struct help_page page = {out, width > WIDTH_MAX ? WIDTH_MAX : width};
    const struct config_topic *topic = config_topics;
    for (size_t i = 0; i < config_row_count; i++) {
        if (topic->first && strcmp(topic->first, config_rows[i].name) == 0) {
            buf_putf(out, "%s%s\n", i > 0 ? "\n" : "", topic->title);
            topic++;
        }
        help_page_option(&page, &config_rows[i]);
    }
    buf_puts(out, STR("\nthe configuration file\n"));
    struct tidings_config_option o;
    for (size_t i = config_row_count; tidings_config_option(i, &o); i++) {
        help_page_row(&page, o.name, o.metavar, tidings_str(o.help));
    }
    return out->failed;
}

bool tidings_config_option(size_t index, struct tidings_config_option *ret)
{
    static const struct tidings_config_option others[] = {
        {"config", "FILE", "read FILE instead of ./" CONFIG_FILE_NAME, NULL, NULL, false},
        {"no-config", NULL, "read no file", NULL, NULL, false},
    };
    if (index >= config_row_count) {
        index -= config_row_count;
        if (index < sizeof(others) / sizeof(others[0])) {
            *ret = others[index];
            return true;
        }
        return false;
    }
    const struct config_row *row = &config_rows[index];
    bool is_on = row->type == CONFIG_BOOL && strcmp(row->value, "true") == 0;
    snprintf(ret->name, sizeof(ret->name), "%s%s", is_on ? "no-" : "", row->name);
    ret->metavar = row->metavar;
    ret->help = row->help;
    ret->choices = row->choices;
    ret->value = row->metavar && row->value[0] ? row->value : NULL;
    ret->is_list = config_is_list(row->type);
    return true;
}
