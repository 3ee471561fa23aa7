/* SPDX-License-Identifier: MIT
 *
 * The option parser of a command: defaults, and the values that options accept.
 */
#include "cli/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/output.h"

struct sample {
    struct cli cli;
    uint64_t number, time, other_time;
    unsigned choice;
    bool has_time;
    const char *text;
};

static const char *const choices[] = {"one", "two", "three", NULL};

#define AT(member) offsetof(struct sample, member)

static const struct option options[] = {
    {.name = "number", .kind = OPTION_NUMBER, .offset = AT(number), .value = "7", .max = 9},
    {.name = "time",
     .kind = OPTION_TIME,
     .offset = AT(time),
     .given = AT(has_time),
     .value = "2s",
     .min = 100,
     .max = 3600000},
    {.name = "other", .kind = OPTION_TIME, .offset = AT(other_time), .max = 3600000},
    {.name = "choice",
     .kind = OPTION_CHOICE,
     .offset = AT(choice),
     .choices = choices,
     .value = "two"},
    {.name = "text", .kind = OPTION_TEXT, .offset = AT(text), .value = "words", .metavar = "T"},
    {0},
};

static int sample_run(struct cli *cli)
{
    (void)cli;
    return 0;
}

static const struct command sample = {
    .name = "sample", .options = options, .size = sizeof(struct sample), .run = sample_run};

const struct command *const __wrap_commands[] = {&sample, NULL};

/* The exit status. */
static int parse(struct sample *s, char *argument)
{
    char *argv[] = {argument, NULL};
    *s = (struct sample){0};
    int status = options_parse(&s->cli, &sample, argument ? 1 : 0, argv);
    options_release(&s->cli);
    return status;
}

static void default_of_every_kind_is_stored(void **state)
{
    (void)state;
    struct sample s;
    assert_int_equal(parse(&s, NULL), 0);
    assert_int_equal(s.number, 7);
    assert_int_equal(s.time, 2000);
    assert_int_equal(s.choice, 1);
    assert_string_equal(s.text, "words");
    assert_false(s.has_time);
    assert_int_equal(s.other_time, 0);
}

static void command_line_value_replaces_default(void **state)
{
    (void)state;
    struct sample s;
    char time[] = "--time=1.5", choice[] = "--choice=three", text[] = "--text=t";
    assert_int_equal(parse(&s, time), 0);
    assert_int_equal(s.time, 1500);
    assert_true(s.has_time);
    assert_int_equal(parse(&s, choice), 0);
    assert_int_equal(s.choice, 2);
    assert_int_equal(parse(&s, text), 0);
    assert_string_equal(s.text, "t");
}

static void time_accepts_fractions_and_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms; /* 0: refused */
    } times[] = {
        {"1.5", 1500},   {"1.5s", 1500}, {"0.5m", 30000}, {"0.25h", 900000},  {"100ms", 100},
        {"0.1001", 101}, {"1.5ms", 0},   {"1.", 0},       {".5", 0},          {"1.5.5", 0},
        {"-1", 0},       {"1,5", 0},     {"2h", 0},       {"0.0999999", 100}, {"0.05", 0},
    };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct sample s;
        char argument[32];
        snprintf(argument, sizeof(argument), "--time=%s", times[i].text);
        assert_int_equal(parse(&s, argument), times[i].ms > 0 ? 0 : 64);
        assert_true(times[i].ms == 0 || s.time == times[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_of_every_kind_is_stored),
        cmocka_unit_test(command_line_value_replaces_default),
        cmocka_unit_test(time_accepts_fractions_and_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
