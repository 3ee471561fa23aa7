/* SPDX-License-Identifier: MIT
 *
 * Only the match index, in this process: CPU time per changed URI among 1,000, 100,000 and
 * 1,000,000 subscriptions (59 % literal, 12 % container, 18 % glob, 10 % template, 1 % regex), CPU
 * time per insertion by kind, memory per subscription. The world grows with the subscriptions: one
 * team, with its folders and its share of everything, per 500 of them; so the matches of a change
 * stay about the same, and only the other subscriptions grow. Changed URIs are of any team, hence
 * mostly out of the caches. Before it measures, it compares a sample with the definition of each
 * kind and gives up when the index is wrong.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"
#include "engine/match/match.h"

enum {
    KINDS = 5,
    TEXT_MAX = 128,
    BATCH = 20000,
    CHANGES = 65536,
    SUBSCRIPTIONS_PER_TEAM = 500,
};

static const char *const kind_names[KINDS] = {"literal", "container", "glob", "template", "regex"};
static const enum pattern_kind kinds[KINDS] = {PATTERN_LITERAL, PATTERN_CONTAINER, PATTERN_GLOB,
                                               PATTERN_TEMPLATE, PATTERN_REGEX};
static const unsigned shares[KINDS] = {59, 12, 18, 10, 1};

static uint64_t state = 88172645463325252u;

static unsigned pick(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % n);
}

/* ---- the world ---------------------------------------------------------------------------------
 */

static const char *const folders[] = {"src", "docs", "logs", "data", "build"};
static const char *const names[] = {"report", "app", "error", "index", "main", "config"};
static const char *const endings[] = {"log", "md", "txt", "json"};

struct spot {
    unsigned team, project, number;
    const char *folder, *name, *ending;
};

static struct spot random_spot(unsigned teams)
{
    return (struct spot){pick(teams),      pick(20),       pick(40),
                         folders[pick(5)], names[pick(6)], endings[pick(4)]};
}

static void put_resource(char *out, unsigned teams)
{
    struct spot s = random_spot(teams);
    unsigned what = pick(10);
    if (what < 7) {
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/%s/%s-%u.%s", s.team, s.project,
                 s.folder, s.name, s.number, s.ending);
    } else if (what < 9) {
        snprintf(out, TEXT_MAX, "api://host-%u/team-%u/items/%u", s.team % 16, s.team,
                 s.number * 20 + s.project);
    } else {
        snprintf(out, TEXT_MAX, "entity:///order@%u/%u", s.number % 3, s.team * 1000 + s.number);
    }
}

static void put_container(char *out, unsigned teams)
{
    struct spot s = random_spot(teams);
    switch (pick(4)) {
    case 0:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/", s.team, s.project);
        break;
    case 1:
        snprintf(out, TEXT_MAX, "api://host-%u/team-%u/", s.team % 16, s.team);
        break;
    default:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/%s/", s.team, s.project, s.folder);
    }
}

static void put_glob(char *out, unsigned teams)
{
    struct spot s = random_spot(teams);
    switch (pick(10)) {
    case 0:
    case 1:
    case 2:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/%s/*.%s", s.team, s.project,
                 s.folder, s.ending);
        break;
    case 3:
    case 4:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/**", s.team, s.project);
        break;
    case 5:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/**/%s-%u.*", s.team, s.name, s.number);
        break;
    case 6:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/*/%s/%s-*.%s", s.team, s.folder, s.name,
                 s.ending);
        break;
    case 7:
        snprintf(out, TEXT_MAX, "file:///srv/**/note-%u.*", s.team * 1000 + s.number);
        break;
    case 8:
        snprintf(out, TEXT_MAX, "file:///srv/*/project-%u/%s/%s-%u.%s", 20 + s.team, s.folder,
                 s.name, s.number, s.ending);
        break;
    default:
        snprintf(out, TEXT_MAX, "api://host-%u/team-%u/items/%u[0-9]", s.team % 16, s.team,
                 s.number);
    }
}

static void put_template(char *out, unsigned teams)
{
    struct spot s = random_spot(teams);
    switch (pick(5)) {
    case 0:
    case 1:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/project-%u/{folder}/{file}", s.team,
                 s.project);
        break;
    case 2:
        snprintf(out, TEXT_MAX, "file:///srv/team-%u/{project}/%s/%s-{n}.%s", s.team, s.folder,
                 s.name, s.ending);
        break;
    case 3:
        snprintf(out, TEXT_MAX, "api://host-%u/team-%u/items/{id}", s.team % 16, s.team);
        break;
    default:
        snprintf(out, TEXT_MAX, "api://host-%u/team-%u/search-%u{?q,page}", s.team % 16, s.team,
                 s.project);
    }
}

static void put_regex(char *out, unsigned teams)
{
    struct spot s = random_spot(teams);
    switch (pick(3)) {
    case 0:
        snprintf(out, TEXT_MAX, "^file:///srv/team-%u/.*\\.(log|txt)$", s.team);
        break;
    case 1:
        snprintf(out, TEXT_MAX, "/team-%u/project-%u/.*/%s-[0-9]+\\.log$", s.team, s.project,
                 s.name);
        break;
    default:
        snprintf(out, TEXT_MAX, "host-[0-9]+/team-%u/items/[0-9]{1,3}$", s.team);
    }
}

static void put_text(char *out, unsigned kind, unsigned teams)
{
    static void (*const put[KINDS])(char *, unsigned) = {put_resource, put_container, put_glob,
                                                         put_template, put_regex};
    put[kind](out, teams);
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

struct figures {
    unsigned long subscriptions;
    double lookup_us, matches, remove_us;
    double insert_us[KINDS];
    double index_bytes, heap_bytes;
};

struct text {
    unsigned kind;
    char bytes[TEXT_MAX];
};

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) {
        bench_die("out of memory");
    }
    return p;
}

static void count_match(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned long *)user;
}

/* By shares, in its own order. */
static unsigned random_kind(void)
{
    unsigned at = pick(100);
    unsigned kind = 0;
    while (at >= shares[kind]) {
        at -= shares[kind++];
    }
    return kind;
}

/* Inserts in batches, each sorted by kind, so that the clock is read rarely. */
static void insert(struct match *m, struct match_node *nodes, unsigned teams, struct figures *f)
{
    static struct text texts[BATCH];
    unsigned long counts[KINDS] = {0};
    for (unsigned long done = 0; done < f->subscriptions;) {
        unsigned long n = f->subscriptions - done < BATCH ? f->subscriptions - done : BATCH;
        for (unsigned long i = 0; i < n; i++) {
            texts[i].kind = random_kind();
            put_text(texts[i].bytes, texts[i].kind, teams);
        }
        for (unsigned kind = 0; kind < KINDS; kind++) {
            double from = cpu_us();
            for (unsigned long i = 0; i < n; i++) {
                struct tidings_error err;
                if (texts[i].kind != kind) {
                    continue;
                }
                if (match_add(m, &nodes[done + i], kinds[kind], tidings_str(texts[i].bytes), &err) <
                    0) {
                    bench_die("'%s': %s", texts[i].bytes, err.text);
                }
                counts[kind]++;
            }
            f->insert_us[kind] += cpu_us() - from;
        }
        done += n;
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        f->insert_us[kind] /= counts[kind] ? (double)counts[kind] : 1;
    }
}

static void measure(struct figures *f, unsigned long rounds)
{
    unsigned teams = (unsigned)(f->subscriptions / SUBSCRIPTIONS_PER_TEAM);
    struct match_node *nodes = allocate(f->subscriptions, sizeof(*nodes));
    struct tidings_str *changes = allocate(CHANGES, sizeof(*changes));
    char *bytes = allocate(CHANGES, TEXT_MAX);
    struct match m;
    struct bench_samples samples;
    bench_samples_init(&samples, rounds);
    double heap = heap_bytes();
    match_init(&m);
    insert(&m, nodes, teams, f);
    char *end = bytes;
    for (unsigned i = 0; i < CHANGES; i++) {
        put_resource(end, teams);
        changes[i] = tidings_str(end);
        end += changes[i].len;
    }
    unsigned long matches = 0;
    for (unsigned i = 0; i < CHANGES / 4; i++) { /* regexes become machine code */
        match_find(&m, changes[i], count_match, &matches);
    }
    matches = 0;
    for (unsigned long round = 0; round < rounds; round++) {
        double from = cpu_us();
        for (unsigned i = 0; i < CHANGES; i++) {
            match_find(&m, changes[i], count_match, &matches);
        }
        bench_samples_add(&samples, (cpu_us() - from) / CHANGES);
    }
    f->lookup_us = bench_samples_at(&samples, 0.5);
    f->matches = (double)matches / (double)rounds / CHANGES;
    f->index_bytes = (double)match_bytes(&m) / (double)f->subscriptions;
    f->heap_bytes = (heap_bytes() - heap) / (double)f->subscriptions;
    double from = cpu_us();
    for (unsigned long i = 0; i < f->subscriptions; i++) {
        match_remove(&m, &nodes[i]);
    }
    f->remove_us = (cpu_us() - from) / (double)f->subscriptions;
    if (match_bytes(&m) != 0) {
        bench_die("%zu bytes are left in an empty index", match_bytes(&m));
    }
    match_deinit(&m);
    bench_samples_deinit(&samples);
    free(bytes);
    free(changes);
    free(nodes);
}

/* The index must be right before its speed matters. */
static void check(void)
{
    enum { TARGETS = 2000, URIS = 200 };
    struct text *texts = allocate(TARGETS, sizeof(*texts));
    struct match_node *nodes = allocate(TARGETS, sizeof(*nodes));
    struct match m;
    match_init(&m);
    for (unsigned i = 0; i < TARGETS; i++) {
        texts[i].kind = random_kind();
        put_text(texts[i].bytes, texts[i].kind, 4);
        if (match_add(&m, &nodes[i], kinds[texts[i].kind], tidings_str(texts[i].bytes), NULL) < 0) {
            bench_die("'%s' is refused", texts[i].bytes);
        }
    }
    for (unsigned k = 0; k < URIS; k++) {
        char uri[TEXT_MAX];
        unsigned long found = 0;
        unsigned long expected = 0;
        put_resource(uri, 4);
        match_find(&m, tidings_str(uri), count_match, &found);
        for (unsigned i = 0; i < TARGETS; i++) {
            expected += pattern_matches(kinds[texts[i].kind], tidings_str(texts[i].bytes),
                                        tidings_str(uri));
        }
        if (found != expected) {
            bench_die("'%s': %lu found, %lu expected", uri, found, expected);
        }
    }
    for (unsigned i = 0; i < TARGETS; i++) {
        match_remove(&m, &nodes[i]);
    }
    match_deinit(&m);
    free(nodes);
    free(texts);
}

static void print(const struct figures *f)
{
    printf("{\"subscriptions\":%lu,\"lookup_us\":%.3f,\"matches\":%.2f,\"index_bytes\":%.1f,"
           "\"heap_bytes\":%.1f,\"remove_us\":%.3f,\"insert_us\":{",
           f->subscriptions, f->lookup_us, f->matches, f->index_bytes, f->heap_bytes, f->remove_us);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        printf("%s\"%s\":%.3f", kind ? "," : "", kind_names[kind], f->insert_us[kind]);
    }
    printf("}}");
}

int main(int argc, char **argv)
{
    static const unsigned long sizes[] = {1000, 100000, 1000000};
    unsigned long rounds = 5;
    unsigned long only = 0;
    bench_init("match", 120);
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "rounds", .help = "times 65536 lookups", .number = &rounds},
                      {.name = "only", .help = "subscriptions, one size", .number = &only},
                      {.name = NULL},
                  });
    check();
    printf("{\"bench\":\"match\",\"rounds\":%lu,\"node_bytes\":%zu,\"sizes\":[", rounds,
           sizeof(struct match_node));
    for (unsigned i = 0; i < (only ? 1 : sizeof(sizes) / sizeof(*sizes)); i++) {
        struct figures f = {.subscriptions = only ? only : sizes[i]};
        measure(&f, rounds);
        printf("%s", i ? "," : "");
        print(&f);
    }
    printf("],\"goal\":{\"lookup_us\":[0.6,3,10],\"index_bytes\":150,\"insert_us\":2,"
           "\"insert_regex_us\":15}}\n");
    return 0;
}
