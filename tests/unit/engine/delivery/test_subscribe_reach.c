/* SPDX-License-Identifier: MIT
 *
 * Subscriptions that can never fire: each kind is refused, honoured with a warning, or honoured
 * because a match may be created later. No answer reveals a hidden resource.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#undef free /* memory of strdup and open_memstream is not cmocka's */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LATER "only what is registered later"
#define MUTE "cannot be subscribed to"
#define UNSUBSCRIBABLE "all resources that it matches now are not subscribable"
#define GLOB "{\"match\":\"glob\"}"
#define REGEX "{\"match\":\"regex\"}"

static struct harness b;
static struct stub files, one, mute, closed;

static struct tidings_str closed_row(size_t i, bool *ret_not_subscribable)
{
    *ret_not_subscribable = i == 2;
    return i == 0 ? STR("disk") : i == 1 ? STR("deep/load") : i == 2 ? STR("fixed") : STR_EMPTY;
}

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

static void add_mute(const char *uri)
{
    struct tidings_resource about = tidings_resource(uri, "a name", "text/plain");
    about.not_subscribable = true;
    bool is_template = strchr(uri, '{') != NULL;
    struct catalog_entry *e = catalog_entry_create(&about, is_template, read_nothing, NULL, NULL);
    assert_int_equal(hub_add_entry(b.hub, e, NULL), 0);
    harness_run_until_idle(&b);
}

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&files, &b, "mem://x/srv/", STUB_QUERY);
    stub_add(&files, "mem://x/srv/a", false);
    stub_mount(&one, &b, "cmd:///up/", STUB_SINGLE);
    stub_add(&one, "cmd:///up", false);
    stub_mount(&mute, &b, "mute:///c/", STUB_SINGLE);
    stub_add(&mute, "mute:///c", false);
    mute.is_mute[0] = true;
    mute.watches_fail = TIDINGS_E_NOTFOUND;
    stub_mount(&closed, &b, "own:///r/", 0);
    closed.provider->row = closed_row;
    harness_add_template(&b, "weather://city/{location}");
    harness_add_template(&b, "user://{id}");
    harness_add(&b, "app:///one");
    add_mute("app:///dark/one");
    add_mute("app:///dark/{more}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

struct row {
    const char *spelled, *options;
    const char *refused; /* part of the reason; NULL: honoured */
    const char *warned;  /* part of the warning; NULL: none */
    const char *change;  /* notified change; NULL: none */
};

static const struct row rows[] = {
    /* literal */
    {"mem://x/srv/new", NULL, NULL, NULL, "mem://x/srv/new"},
    {"mem://x/srv/new/deep/er", NULL, NULL, NULL, "mem://x/srv/new/deep/er"},
    {"mem://x/other", NULL, "not found", NULL, NULL},
    {"none:///x", NULL, "not found", NULL, NULL},
    {"app:///two", NULL, "not found", NULL, NULL},
    {"cmd:///up/x", NULL, "not found", NULL, NULL},
    {"mute:///c", NULL, MUTE, NULL, NULL},
    {"app:///dark/one", NULL, MUTE, NULL, NULL},
    {"app:///dark/two", NULL, MUTE, NULL, NULL},
    /* container */
    {"mem://x/srv/new/", NULL, NULL, NULL, "mem://x/srv/new/a"},
    {"mem://x/", NULL, NULL, NULL, "mem://x/srv/a"},
    {"mem://x/other/", NULL, "nothing that is served can match", NULL, NULL},
    {"none:///x/", NULL, "nothing is served under 'none:'", NULL, NULL},
    {"cmd:///", NULL, NULL, NULL, "cmd:///up"},
    {"cmd:///up/", NULL, "nothing that is served can match", NULL, NULL},
    {"mute:///", NULL, "not found", NULL, NULL},
    {"app:///", NULL, NULL, NULL, "app:///one"},
    {"app:///dark/", NULL, MUTE, NULL, NULL},
    {"app:///sea/", NULL, NULL, LATER, "app:///sea/1"},
    {"weather://city/", NULL, NULL, NULL, "weather://city/rome"},
    {"weather://sea/", NULL, NULL, LATER, "weather://sea/1"},
    /* glob */
    {"weather://city/*", NULL, NULL, NULL, "weather://city/rome"},
    {"user://*", NULL, NULL, NULL, "user://7"},
    {"weather://**", NULL, NULL, NULL, "weather://city/rome"},
    {"weather://*", NULL, NULL, LATER, "weather://x"},
    {"weather://sea/*", NULL, NULL, LATER, "weather://sea/1"},
    {"mem://x/srv/*.txt", NULL, NULL, NULL, "mem://x/srv/a.txt"},
    {"mem://x/*/a", NULL, NULL, NULL, "mem://x/srv/a"},
    {"mem://x/*.txt", NULL, "nothing that is served can match", NULL, NULL},
    {"mem://x/o*/a", NULL, "nothing that is served can match", NULL, NULL},
    {"none:///*", NULL, "nothing is served under 'none:'", NULL, NULL},
    {"cmd:///*", NULL, NULL, NULL, "cmd:///up"},
    {"cmd:///down*", NULL, "nothing that is served can match", NULL, NULL},
    {"mute:///*", NULL, "not found", NULL, NULL},
    {"app:///dark/*", NULL, MUTE, NULL, NULL},
    {"app:///*", GLOB, NULL, NULL, "app:///one"},
    {"app:///z?", GLOB, NULL, LATER, "app:///zz"},
    {"**", NULL, NULL, NULL, "app:///one"},
    /* template */
    {"weather://city/{x}", NULL, NULL, NULL, "weather://city/rome"},
    {"weather://sea/{x}", NULL, NULL, LATER, "weather://sea/1"},
    {"mem://x/srv/{n}", NULL, NULL, NULL, "mem://x/srv/a"},
    {"mem://x/{n}", NULL, "nothing that is served can match", NULL, NULL},
    {"none:///{n}", NULL, "nothing is served under 'none:'", NULL, NULL},
    {"app:///dark/{n}", NULL, MUTE, NULL, NULL},
    /* query */
    {"mem://x/srv?pattern=*.txt", NULL, NULL, NULL, "mem://x/srv/a.txt"},
    {"mem://x/other?pattern=*.txt", NULL, "nothing that is served can match", NULL, NULL},
    {"none:///e?a=b", NULL, "nothing is served under 'none:'", NULL, NULL},
    {"weather://sea?a=b", NULL, NULL, LATER, NULL},
    {"app:///dark?a=b", NULL, MUTE, NULL, NULL},
    /* a provider that has these resources and no others */
    {"own:///r/*", NULL, NULL, NULL, "own:///r/disk"},
    {"own:///r/d*k", NULL, NULL, NULL, "own:///r/disk"},
    {"own:///*/[a-d]i?k", GLOB, NULL, NULL, "own:///r/disk"},
    {"own:///r/*/l*", NULL, NULL, NULL, "own:///r/deep/load"},
    {"own:///r/{name}", NULL, NULL, NULL, "own:///r/disk"},
    {"own:///r/", NULL, NULL, NULL, "own:///r/disk"},
    {"own:///", NULL, NULL, NULL, "own:///r/disk"},
    {"own:///r/deep/", NULL, NULL, NULL, "own:///r/deep/load"},
    {"own:///r?type=x", NULL, NULL, NULL, NULL},
    {"own:///r/x*", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/disk/*", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/disk/**/x", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/x{name}", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/{a}/{b}/{c}", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/none/", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/x?type=x", NULL, "nothing that is served can match", NULL, NULL},
    {"own:///r/fi*", NULL, MUTE, NULL, NULL},
    {"own:///r/fi{x}", NULL, MUTE, NULL, NULL},
    /* regex: its literal prefix */
    {"^app:///on", REGEX, NULL, NULL, "app:///one"},
    {"^app:///one$", REGEX, NULL, NULL, "app:///one"},
    {"^a", REGEX, NULL, NULL, "app:///one"},
    {"^app:///sea/", REGEX, NULL, LATER, "app:///sea/1"},
    {"^app:///sea/|one", REGEX, NULL, NULL, "app:///one"},
    {"^(app:///sea/)?", REGEX, NULL, NULL, "app:///one"},
    {"app:///sea/", REGEX, NULL, NULL, "app:///sea/1"},
    {"^none:", REGEX, NULL, LATER, NULL},
    {"^app:///dark/", REGEX, NULL, UNSUBSCRIBABLE, NULL},
    {"^mem://x/srv/new", REGEX, NULL, NULL, "mem://x/srv/new"},
    {"^mem://x/s.v", REGEX, NULL, NULL, "mem://x/srv/new"},
    {"^mem://x/other", REGEX, NULL, LATER, NULL},
    {"^me", REGEX, NULL, NULL, "mem://x/srv/new"},
    {"^cmd:///up$", REGEX, NULL, NULL, "cmd:///up"},
    {"^cmd:///up/", REGEX, NULL, LATER, NULL},
    {"^weather://city/rome", REGEX, NULL, NULL, "weather://city/rome"},
    {"^weather://ci[t]y", REGEX, NULL, NULL, "weather://city/rome"},
    {"^weather://sea/", REGEX, NULL, LATER, "weather://sea/1"},
    {"^user://7", REGEX, NULL, NULL, "user://7"},
    {"^own:///r/di", REGEX, NULL, NULL, "own:///r/disk"},
    {"^own:///r/x", REGEX, NULL, LATER, NULL},
    {"^own:///r/disk/", REGEX, NULL, LATER, NULL},
    {"^own:///r/fixed", REGEX, NULL, UNSUBSCRIBABLE, NULL},
};

static bool has(const char *text, const char *part)
{
    return part ? text && strstr(text, part) != NULL : !text;
}

static void subscriptions_that_never_fire_are_refused_or_warned(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct client *c = listen_with(&b, text_of("[\"%s\"]", r->spelled), r->options);
        const char *ack = client_nth(c, SAID_ACK, 0);
        const char *warning = json_at(ack, "params|_meta|dev.tidings/warnings|0|reason");
        if (!has(refused_reason(c, r->spelled), r->refused) ||
            is_honoured(c, r->spelled) != !r->refused || !has(warning, r->warned)) {
            fail_msg("'%s': %s", r->spelled, ack);
        }
        if (r->change) {
            harness_change(&b, r->change, TIDINGS_CHANGE_CREATED);
            harness_run_until_idle(&b);
            if (update_count(c, r->spelled) != 1) {
                fail_msg("'%s' was told %zu times", r->spelled, update_count(c, r->spelled));
            }
            assert_json(update_nth(c, NULL, 0), "params|_meta|dev.tidings/change", "created");
        }
        client_free(c);
        harness_run_until_idle(&b);
        assert_int_equal(stub_watched_all(&files) + stub_watched_all(&one), 0);
        assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    }
}

static void sessions_receive_the_same_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct client *pipe = client_pipe(&b);
        client_handshake(pipe, "2025-11-25");
        const char *text = pipe_subscribe_with(pipe, "7", r->spelled, r->options);
        const char *warning = json_at(text, "result|_meta|dev.tidings/warnings|0|reason");
        if (!has(json_at(text, "error|message"), r->refused) || !has(warning, r->warned)) {
            fail_msg("'%s': %s", r->spelled, text);
        }
        if (r->warned) {
            assert_json(text, "result|_meta|dev.tidings/warnings|0|uri", r->spelled);
        }
        client_free(pipe);
        harness_run_until_idle(&b);
    }
}

static void absent_resource_is_watched_with_its_future_children(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/srv/new\"]", "{\"initial\":true}");
    assert_int_equal(stub_watched(&files, "mem://x/srv/new"), 1);
    assert_int_equal(stub_watched(&files, "mem://x/srv/new/"), 1);
    assert_int_equal(stub_watched_all(&files), 2);
    assert_int_equal(update_count(c, NULL), 0); /* without an initial state */
    static const char *const covered[] = {"mem://x/srv/new/", "mem://x/srv/new/a"};
    for (size_t i = 0; i < COUNT(covered); i++) {
        harness_change(&b, covered[i], TIDINGS_CHANGE_CREATED);
        harness_change(&b, "mem://x/srv/newer", TIDINGS_CHANGE_CREATED);
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), i + 1);
    }
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&files), 0);

    c = listen_with(&b, "[\"mem://x/srv/new\"]", "{\"match\":\"literal\"}");
    assert_int_equal(stub_watched_all(&files), 1);
    harness_change(&b, "mem://x/srv/new/a", TIDINGS_CHANGE_CREATED);
    harness_change(&b, "mem://x/srv/new", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    client_free(c);
}

static void absent_resources_are_refused_if_the_provider_refuses(void **state)
{
    (void)state;
    files.watches_fail = TIDINGS_E_NOTFOUND;
    struct client *c = listen_with(&b, "[\"mem://x/srv/new\",\"mem://x/**\"]", NULL);
    assert_non_null(refused_reason(c, "mem://x/srv/new"));
    assert_non_null(refused_reason(c, "mem://x/**"));
    client_free(c);
    /* … except if something else matches. */
    harness_add(&b, "mem://x/registered");
    c = listen_with(&b, "[\"mem://x/**\"]", NULL);
    assert_null(refused_reason(c, "mem://x/**"));
    client_free(c);
}

/* ---- access ---------------------------------------------------------------------------------- */

/* All messages to clients that subscribe to these; the caller frees the result. */
static char *answers(const char *const *spelled, size_t count)
{
    char *all = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&all, &len);
    for (size_t i = 0; i < count; i++) {
        const char *options = spelled[i][0] == '^' ? REGEX : NULL;
        struct client *c = listen_with(&b, text_of("[\"%s\"]", spelled[i]), options);
        char *said = client_transcript(c);
        fprintf(out, "%s\n%s\n", spelled[i], said);
        free(said);
        client_free(c);
        harness_run_until_idle(&b);
    }
    fclose(out);
    return all;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        n++;
    }
    return n;
}

static void answers_do_not_reveal_hidden_resources(void **state)
{
    (void)state;
    static const char *const spelled[] = {
        "mem://x/srv/hidden/a", "mem://x/srv/hidden/",
        "mem://x/srv/hidden/*", "app:///hidden/a",
        "app:///hidden/",       "app:///hidden/*",
        "app:///hidden/{x}",    "app:///**/a",
        "app:///shown/*",       "secret:///a",
        "secret:///*",          "secret:///",
        "secret:///t/x",        "mem://x/srv/hidden?pattern=*",
        "secret:///?a=b",       "mem://x/srv/absent",
        "dark:///m/",           "dark:///m/*.txt",
        "shut:///r/",           "shut:///r/d*",
        "shut:///r/x*",         "own:///r/deep/*",
        "own:///r/fi*",         "own:///r/d*",
        "^app:///hidden/",      "^secret:",
        "^dark:///m/",          "^shut:///r/d",
        "^mem://x/srv/hidden",  "^own:///r/deep",
        "^own:///r/fi",         "^own:///r/d",
    };
    static const struct harness_rule rules[] = {
        {"guest", NULL, "app:///shown/**", HARNESS_ALL},
        {"guest", NULL, "app:///one", HARNESS_ALL},
        {"guest", NULL, "mem://x/srv/a*", HARNESS_ALL},
        {"guest", NULL, "own:///r/disk", HARNESS_ALL},
    };
    harness_rules(&b, rules, COUNT(rules));
    harness_is(&b, "guest", NULL);
    char *before = answers(spelled, COUNT(spelled));
    stub_add(&files, "mem://x/srv/hidden/", true);
    stub_add(&files, "mem://x/srv/hidden/a", false);
    harness_add(&b, "app:///hidden/a");
    add_mute("app:///hidden/b");
    harness_add_template(&b, "app:///hidden/{any}/z");
    harness_add(&b, "secret:///a");
    harness_add_template(&b, "secret:///t/{x}");
    static struct stub dark, shut;
    stub_mount(&dark, &b, "dark:///m/", 0);
    stub_mount(&shut, &b, "shut:///r/", 0);
    shut.provider->row = closed_row;
    char *after = answers(spelled, COUNT(spelled));
    assert_string_equal(before, after);
    assert_non_null(strstr(before, "nothing is served under 'secret:'"));
    assert_non_null(strstr(before, "nothing is served under 'dark:'"));
    assert_non_null(strstr(before, "nothing is served under 'shut:'"));
    assert_non_null(strstr(before, "nothing that is served can match 'own:///r/deep/*'"));
    assert_non_null(strstr(before, "nothing that is served can match 'own:///r/fi*'"));
    assert_null(strstr(before, "nothing that is served can match 'own:///r/d*'"));
    assert_null(strstr(before, "subscribable;"));
    assert_int_equal(count_of(strstr(before, "\n^"), LATER), 7); /* all regexes but the last */
    free(before);
    free(after);
    harness_is(&b, NULL, NULL);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(subscriptions_that_never_fire_are_refused_or_warned),
        WITH_BENCH(sessions_receive_the_same_answers),
        WITH_BENCH(absent_resource_is_watched_with_its_future_children),
        WITH_BENCH(absent_resources_are_refused_if_the_provider_refuses),
        WITH_BENCH(answers_do_not_reveal_hidden_resources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
