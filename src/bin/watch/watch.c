/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: one line per change on standard output, flushed; or a command run for each, or
 * for each burst.
 */
#include <stddef.h>
#include <stdlib.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/path_uri.h"
#include "bin/watch/batch.h"
#include "bin/watch/content.h"
#include "bin/watch/jobs.h"
#include "bin/watch/watch_private.h"

/* What an argument means depends on the kind of pattern that is asked for. A path that is the name
 * of something stays that, whatever it is called, unless it shall be a pattern. */
static char *take_uri(const struct watch *w, const char *argument, bool *ret_is_glob,
                      struct tidings_error *err)
{
    bool is_auto = w->subscribe.match == MATCH_AUTO;
    if (w->subscribe.match == MATCH_REGEX) {
        char *copy = strdup(argument);
        if (!copy) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        return copy;
    }
    if (w->subscribe.match == MATCH_TEMPLATE) {
        return uri_of_pattern(argument, "{}*+#?&,", err);
    }
    if (w->subscribe.match == MATCH_GLOB || (is_auto && argument_is_glob(argument))) {
        *ret_is_glob = strcmp(argument, "**") != 0;
        return uri_of_pattern(argument, "*?[]", err);
    }
    return uri_of_argument(argument, err);
}

static bool is_taken(const struct watch *w, const char *uri)
{
    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->uris[i], uri) == 0) {
            return true;
        }
    }
    return false;
}

/* Each once. */
static int take_uris(struct watch *w)
{
    struct tidings_error err = {0};
    for (size_t i = 0; i < w->cli.arg_count; i++) {
        bool is_glob = false;
        char *uri = take_uri(w, w->cli.args[i], &is_glob, &err);
        if (!uri) {
            return command_fail("watch", &err, NULL);
        }
        if (is_taken(w, uri)) {
            free(uri);
        } else {
            w->are_globs[w->count] = is_glob;
            w->uris[w->count++] = uri;
        }
    }
    return 0;
}

/* Options that need another one, or exclude it. */
static int check_options(const struct watch *w)
{
    const struct {
        bool is_given;
        const char *name;
    } of_batch[] = {
        {w->has_debounce, "--debounce"},
        {w->restarts, "--restart"},
        {w->at_start, "--at-start"},
        {w->ends_with_nul, "--null"},
    };
    if (w->batches && !w->command) {
        return command_misuse("watch", "goes with --exec:", "--batch");
    }
    if (w->batches && w->has_parallel) {
        return command_misuse("watch", "with --batch one command runs at a time; leave out",
                              "--jobs");
    }
    for (size_t i = 0; i < sizeof(of_batch) / sizeof(of_batch[0]); i++) {
        if (of_batch[i].is_given && !w->batches) {
            return command_misuse("watch", "goes with --exec and --batch:", of_batch[i].name);
        }
    }
    return 0;
}

static int watch_prepare(struct watch *w)
{
    struct tidings_error err = {0};
    struct batch_options batch = {
        .command = w->command,
        .debounce_ms = w->debounce_ms,
        .restarts = w->restarts,
        .ends_with_nul = w->ends_with_nul,
    };
    if (w->batches) {
        w->batch = batch_create(&batch);
    } else if (w->command) {
        w->jobs = jobs_create(w->command, (unsigned)w->parallel);
    }
    if (w->diffs) {
        w->kept = content_create();
    }
    if ((w->command && !w->jobs && !w->batch) || (w->diffs && !w->kept)) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        return command_fail("watch", &err, NULL);
    }
    return 0;
}

static int watch_run(struct cli *cli)
{
    struct watch *w = (struct watch *)cli;
    w->left = w->left == 0 && w->until_first ? 1 : w->left;
    int status = check_options(w);
    status = status == 0 ? take_uris(w) : status;
    status = status == 0 ? watch_prepare(w) : status;
    status = status == 0 ? watch_follow(w) : status;
    jobs_destroy(w->jobs);
    batch_destroy(w->batch);
    content_destroy(w->kept);
    for (size_t i = 0; i < w->count; i++) {
        free(w->uris[i]);
    }
    return status;
}

#define AT(member) offsetof(struct watch, member)

static const struct option options[] = {
    {.name = "count",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = AT(left),
     .metavar = "N",
     .help = "end after N changes; with --batch after N runs for changes",
     .min = 1},
    {.name = "until-first",
     .letter = '1',
     .kind = OPTION_FLAG,
     .offset = AT(until_first),
     .help = "the same as --count 1"},
    {.name = "timeout",
     .kind = OPTION_TIME,
     .offset = AT(end_ms),
     .metavar = "TIME",
     .help = "end the watch after that long, not the wait for an answer as elsewhere; status 75 if "
             "more changes were wanted",
     .min = 1,
     .max = 31536000000},
    {.name = "wait",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .offset = AT(waits),
     .help = "wait for a server that is not there yet, instead of 10 seconds only"},
    {.name = "read",
     .letter = 'r',
     .kind = OPTION_FLAG,
     .offset = AT(reads),
     .help = "the content with each change"},
    {.name = "diff",
     .letter = 'd',
     .kind = OPTION_FLAG,
     .offset = AT(diffs),
     .help = "what differs from the content seen before"},
    {.name = "exec",
     .letter = 'x',
     .kind = OPTION_TEXT,
     .offset = AT(command),
     .metavar = "COMMAND",
     .help = "run it for each change instead of printing"},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .offset = AT(parallel),
     .given = AT(has_parallel),
     .metavar = "N",
     .help = "at most N commands at once",
     .value = "4",
     .min = 1,
     .max = JOBS_PARALLEL_MAX},
    {.name = "batch",
     .letter = 'b',
     .kind = OPTION_FLAG,
     .offset = AT(batches),
     .help = "run it once for all that changed until it was quiet, with the URIs on its input"},
    {.name = "debounce",
     .kind = OPTION_TIME,
     .offset = AT(debounce_ms),
     .given = AT(has_debounce),
     .metavar = "TIME",
     .help = "with --batch: how long it has to be quiet",
     .value = "300ms",
     .min = 1,
     .max = 3600000},
    {.name = "restart",
     .kind = OPTION_FLAG,
     .offset = AT(restarts),
     .help = "with --batch: end the command that still runs, and start it again"},
    {.name = "at-start",
     .kind = OPTION_FLAG,
     .offset = AT(at_start),
     .help = "with --batch: run it once before the first change too"},
    {.name = "null",
     .letter = '0',
     .kind = OPTION_FLAG,
     .offset = AT(ends_with_nul),
     .help = "with --batch: a NUL behind each URI instead of a line feed"},
    {.name = "include",
     .letter = 'i',
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.include),
     .metavar = "WHAT",
     .help = "what the server sends along with each change",
     .choices = include_names,
     .value = "none"},
    {.name = "initial",
     .kind = OPTION_FLAG,
     .offset = AT(subscribe.is_initial),
     .help = "the present state first; it counts as no change"},
    {.name = "filter",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.filter),
     .metavar = "JSON",
     .help = "a JSON Schema that changes have to satisfy; @FILE reads it"},
    {.name = "window",
     .kind = OPTION_TIME,
     .offset = AT(subscribe.window_ms),
     .given = AT(subscribe.has_window),
     .metavar = "TIME",
     .help = "how long the server gathers changes before it tells the next",
     .max = 86400000},
    {.name = "rate",
     .kind = OPTION_TIME,
     .offset = AT(subscribe.rate_ms),
     .given = AT(subscribe.has_rate),
     .metavar = "TIME",
     .help = "at most one change of each resource in so long",
     .max = 86400000},
    {.name = "detail",
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.detail),
     .given = AT(subscribe.has_detail),
     .metavar = "HOW",
     .help = "what the server says of each change; slim: no more than the URI and the cursor",
     .choices = detail_names},
    {.name = "match",
     .kind = OPTION_CHOICE,
     .offset = AT(subscribe.match),
     .metavar = "KIND",
     .help = "what the URIs are",
     .choices = match_names,
     .value = "auto"},
    {.name = "since",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.since),
     .metavar = "CURSOR",
     .help = "what changed after it first; servers of ours name cursors"},
    {.name = "state",
     .kind = OPTION_FILE,
     .offset = AT(state_path),
     .metavar = "FILE",
     .help = "remember there how far it has come, and go on from there the next time"},
    {.name = "cursor",
     .kind = OPTION_FLAG,
     .offset = AT(shows_cursor),
     .help = "the cursor with each change, for --since"},
    {.name = "options",
     .kind = OPTION_TEXT,
     .offset = AT(subscribe.options),
     .metavar = "JSON",
     .help = "further options of the subscriptions, such as {\"order\": \"strict\"}"},
    {0},
};

const struct command command_watch = {
    .name = "watch",
    .args = "URI…",
    .help = "print changes of resources as they happen, or run a command",
    .about =
        "Print a line for every change of the resources: time, kind of change, URI. A URI may be "
        "a\npath: it then means the file of that name, or everything below the directory; or a "
        "path with\nwildcards: 'src/**/*.c' ('**' alone: everything the server has); or "
        "'app:///jobs?level=error':\nchanges whose metadata says so. --read, --diff, --include and "
        "--cursor add indented lines.\n\n"
        "--include, --initial, --filter, --window, --rate, --detail, --match and --since are "
        "options "
        "of\nthe subscription, which servers of ours know. What another cannot be asked for is "
        "said.\n\n"
        "--json prints an object per line: time, change, uri, subscribedUri, version, cursor, and\n"
        "params, the parameters of the notification; with --read contents, with --diff before and\n"
        "after (sizes) and diff; error when it could not be read.\n\n"
        "--exec runs 'sh -c COMMAND' with TIDINGS_URI, TIDINGS_CHANGE, TIDINGS_VERSION, "
        "TIDINGS_TIME,\nTIDINGS_CURSOR, TIDINGS_SUBSCRIBED_URI, and that object on standard input. "
        "One at a time for\neach URI; what changes meanwhile is one more run, for the latest "
        "(TIDINGS_MERGED counts them).\n\n"
        "--batch runs it once for all that changed until nothing did for --debounce (at the "
        "latest\n"
        "after 10 seconds): the URIs, each once, are on standard input, a line each (with --json\n"
        "those objects), and in the file that TIDINGS_URIS names; TIDINGS_COUNT and "
        "TIDINGS_MERGED\nsay how many URIs and changes. What changes while it runs is one more "
        "run. --restart ends it\ninstead: SIGTERM to its process group, SIGKILL after 5 seconds.\n",
    .options = options,
    .size = sizeof(struct watch),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .run = watch_run,
};
