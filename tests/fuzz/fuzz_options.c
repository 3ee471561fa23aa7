/* SPDX-License-Identifier: MIT
 *
 * Any JSON as the options of a subscription, as the parameters of a request, and as a configuration
 * rule with its limits: accepted within their limits, or rejected with an error message and without
 * side effects.
 */
#include <stdlib.h>

#include "base/str.h"
#include "engine/delivery/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_read(struct json *value, const struct option_limits *limits)
{
    struct options o, before;
    struct tidings_error err = {0};
    unsigned matches = 0;
    options_init(&o);
    before = o;
    int rc = options_read(&o, value, true, &err);
    if (rc < 0) {
        require(rc == TIDINGS_E_INVALID && err.text[0] != '\0');
        require(o.given == before.given && o.filter == before.filter);
        return;
    }
    (void)options_read_params(&o, value, NULL);
    if (options_resolve(&o, limits, STR("app:///a"), &matches, &err) == 0) {
        require(o.window_ms <= limits->max_window_ms && o.rate_ms <= limits->max_rate_ms);
        require(matches != 0);
    } else {
        require(err.text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn((const char *)data, size);
    struct json *value = NULL;
    if (jv_parse(text, JSON_MAX_DEPTH, &value, NULL) < 0) {
        return 0;
    }
    struct option_rule rule = {.prefix = STR("app:///")};
    struct option_limits limits = {.window_ms = 100, .max_window_ms = 60000, .max_rate_ms = 60000};
    struct tidings_error err = {0};
    check_read(value, &limits);
    if (option_rule_read(&rule, jv_get(value, "options"), jv_get(value, "limits"), &err) == 0) {
        limits.rules = &rule;
        limits.rule_count = 1;
        check_read(value, &limits);
    } else {
        require(err.text[0] != '\0');
    }
    jv_unref(value);
    return 0;
}
