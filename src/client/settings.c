/* SPDX-License-Identifier: MIT
 *
 * The options of a client, checked and copied.
 */
#include "client/settings.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

static uint32_t or_default(uint32_t value, uint32_t preset)
{
    return value > 0 ? value : preset;
}

/* False: out of memory. */
static bool client_settings_take(char **at, const char *text)
{
    *at = text ? str_dup(tidings_str(text)) : NULL;
    return !text || *at;
}

void settings_drop_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++) {
        str_free_secret(list[i]); /* headers and variables may be */
    }
    mem_free(list);
}

uint32_t settings_pause(const struct client_settings *s, unsigned failures)
{
    uint64_t pause = s->retry_min_ms;
    for (unsigned i = 0; i < failures && pause < s->retry_max_ms; i++) {
        pause *= 2;
    }
    pause = pause < s->retry_max_ms ? pause : s->retry_max_ms;
    uint32_t least = failures == 0 ? 0 : (uint32_t)(pause / 2);
    return least + random_upto((uint32_t)pause - least);
}

char **settings_copy_list(const char *const *list)
{
    size_t count = 0;
    while (list[count]) {
        count++;
    }
    char **copy = mem_zalloc((count + 1) * sizeof(*copy));
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = str_dup(tidings_str(list[i]));
        if (!copy[i]) {
            settings_drop_list(copy);
            return NULL;
        }
    }
    return copy;
}

/* "Name: value": a token, a colon, and nothing that would end the line. */
static bool is_header(const char *line)
{
    const char *colon = strchr(line, ':');
    bool ok = colon && colon > line && strlen(line) <= 8192;
    for (const char *p = line; ok && *p; p++) {
        unsigned char ch = (unsigned char)*p;
        ok = p < colon ? ch > ' ' && ch < 0x7f : ch >= ' ' && ch != 0x7f;
    }
    return ok;
}

static int settings_check_version(const char *version, struct tidings_error *err)
{
    static const char *const versions[] = {TIDINGS_PROTOCOL_VERSIONS};
    bool is_known = false;
    struct buf known;
    buf_init(&known, 256);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && !is_known; i++) {
        is_known = strcmp(version, versions[i]) == 0;
        buf_putf(&known, "%s%s", i > 0 ? ", " : "", versions[i]);
    }
    int rc = is_known ? 0
                      : tidings_fail(err, TIDINGS_E_INVALID,
                                     "'%.40s' is no revision of the protocol (accepted: %s)",
                                     version, known.ptr ? known.ptr : TIDINGS_PROTOCOL_MODERN);
    buf_deinit(&known);
    return rc;
}

static int settings_check(const struct tidings_client_options *o, struct tidings_error *err)
{
    int rc = o->version ? settings_check_version(o->version, err) : 0;
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; o->headers && o->headers[i]; i++) {
        if (i >= CLIENT_MAX_HEADERS || !is_header(o->headers[i])) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "'%.80s' cannot be sent as a header (accepted: up to %u lines "
                                "'Name: value')",
                                o->headers[i], CLIENT_MAX_HEADERS);
        }
    }
    for (const char *p = o->token; p && *p; p++) {
        if (*p <= ' ' || *p > '~') {
            return tidings_fail(err, TIDINGS_E_INVALID, "a token is visible ASCII without blanks");
        }
    }
    return 0;
}

int settings_init(struct client_settings *s, const struct tidings_client_options *options,
                  struct tidings_error *err)
{
    static const struct tidings_client_options none = {0};
    const struct tidings_client_options *o = options ? options : &none;
    *s = (struct client_settings){
        .timeout_ms = or_default(o->timeout_ms, 30000),
        .retry_min_ms = or_default(o->retry_min_ms, 1000),
        .retry_max_ms = or_default(o->retry_max_ms, 30000),
        .probe_ms = or_default(o->probe_ms, 5000),
        .max_bytes = o->max_bytes > 0 ? o->max_bytes : (size_t)16 << 20,
        .on_token = o->on_token,
        .token_user = o->token_user,
        .credentials = o->credentials,
        .on_stderr = o->on_stderr,
        .stderr_user = o->stderr_user,
        .on_wire = o->on_wire,
        .wire_user = o->wire_user,
        .list_changes = o->list_changes,
        .no_compare = o->no_compare,
        .verify_ms = o->verify_ms,
        .silence_ms = o->silence_ms,
    };
    (void)trace_read(tidings_str(o->traceparent ? o->traceparent : ""),
                     tidings_str(o->tracestate ? o->tracestate : ""), &s->trace);
    int rc = RESERVED_CHECK(o, err);
    rc = rc == 0 ? settings_check(o, err) : rc;
    if (rc < 0) {
        return rc;
    }
    bool ok = client_settings_take(&s->name, o->name ? o->name : "tidings") &&
              client_settings_take(&s->token, o->token) &&
              client_settings_take(&s->version, o->version) &&
              client_settings_take(&s->directory, o->directory) &&
              client_settings_take(&s->ca_file, o->ca_file) &&
              client_settings_take(&s->cert_file, o->cert_file) &&
              client_settings_take(&s->key_file, o->key_file);
    ok = ok && (!o->headers || (s->headers = settings_copy_list(o->headers)));
    ok = ok && (!o->env || (s->env = settings_copy_list(o->env)));
    return ok ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void settings_deinit(struct client_settings *s)
{
    mem_free(s->name);
    str_free_secret(s->token);
    mem_free(s->version);
    mem_free(s->directory);
    mem_free(s->ca_file);
    mem_free(s->cert_file);
    mem_free(s->key_file);
    settings_drop_list(s->headers);
    settings_drop_list(s->env);
    *s = (struct client_settings){0};
}

void settings_put_token(const struct client_settings *s, struct buf *out)
{
    char *fresh = s->on_token ? s->on_token(s->token_user) : NULL;
    const char *token = s->on_token ? fresh : s->token;
    bool is_fit = token && token[0];
    for (const char *p = token; is_fit && *p; p++) {
        is_fit = *p > ' ' && *p <= '~'; /* else it would be another header */
    }
    if (is_fit) {
        buf_putf(out, "Authorization: Bearer %s", token);
    }
    str_free_secret(fresh);
}

bool settings_renew_token(const struct client_settings *s, struct buf *line)
{
    struct buf fresh;
    buf_init_secret(&fresh, CLIENT_MAX_TOKEN_LINE);
    if (s->on_token) {
        settings_put_token(s, &fresh);
    }
    bool is_another = fresh.len > 0 && !str_eq(buf_str(&fresh), buf_str(line));
    if (is_another) {
        buf_clear(line);
        buf_puts(line, buf_str(&fresh));
    }
    buf_deinit(&fresh);
    return is_another && !line->failed;
}
