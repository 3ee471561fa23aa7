/* SPDX-License-Identifier: MIT
 *
 * Sets the log as the configuration says.
 */
#include "server/log_setup.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "server/config.h"

struct log_settings {
    struct log_levels levels;
    enum log_format format;
    bool has_access_log;
};

/* The text was checked when it was set. */
static void read_levels(const struct config *c, struct log_levels *ret)
{
    (void)log_levels_parse(tidings_str(c->log_level), ret, NULL);
}

void log_setup_levels(const struct config *c)
{
    struct log_levels levels = {.of = {TIDINGS_LOG_OFF}};
    read_levels(c, &levels);
    log_set_levels(&levels);
    log_set_access(c->access_log || c->access_log_file[0]);
}

int log_setup_open(const struct config *c, struct tidings_error *err)
{
    int rc = log_set_format((enum log_format)c->log_format, NULL, err);
    rc = rc < 0 || !c->log_file[0] ? rc : log_open_file(c->log_file, err);
    return rc < 0 || !c->access_log_file[0] ? rc : log_open_access_file(c->access_log_file, err);
}

int log_setup_load(const struct config *c, struct log_settings **ret, struct tidings_error *err)
{
    struct config fresh;
    *ret = NULL;
    if (!c->file) {
        return 0;
    }
    struct log_settings *s = mem_zalloc(sizeof(*s));
    int rc = s ? config_init(&fresh, err) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        mem_free(s);
        return tidings_fail(err, rc, "out of memory");
    }
    rc = config_load_file(&fresh, c->file, c->file_from, err);
    if (rc == 0) {
        read_levels(config_is_beyond_file(c, "log-level") ? c : &fresh, &s->levels);
        s->format =
            (enum log_format)(config_is_beyond_file(c, "log-format") ? c : &fresh)->log_format;
        s->has_access_log = c->access_log_file[0] || /* opened before the process confined itself */
                            (config_is_beyond_file(c, "access-log") ? c : &fresh)->access_log;
        *ret = s;
    } else {
        mem_free(s);
    }
    config_deinit(&fresh);
    return rc;
}

void log_setup_put(struct log_settings *fresh)
{
    struct tidings_error err = {0, ""};
    log_set_levels(&fresh->levels);
    log_set_access(fresh->has_access_log);
    if (log_set_format(fresh->format, NULL, &err) < 0) {
        log_error(LOG_SERVER, "format of the log stays as it was", KV("reason", err.text));
    }
    mem_free(fresh);
}

void log_setup_drop(struct log_settings *fresh)
{
    mem_free(fresh);
}
