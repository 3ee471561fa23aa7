/* SPDX-License-Identifier: MIT
 *
 * The server, its directory, and the turns.
 */
#include "support/twin_world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "base/hash.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/hub_internal.h"
#include "security/access.h"
#include "server/server_internal.h"
#include "server/worker_thread.h"
#include "support/remove_tree.h"

#define MARKS "docs:///zz/"

const struct twin_area twin_areas[TWIN_AREAS] = {
    {TWIN_FILES, "docs:///pub/", NULL, false},
    {TWIN_FILES, "docs:///mix/", NULL, false},
    {TWIN_FILES, "docs:///priv/", NULL, true},
    {TWIN_PUBLISHED, "pub:///open/", NULL, false},
    {TWIN_PUBLISHED, "pub:///shut/", NULL, true},
    {TWIN_ENTITIES, "entity:///note@1/", "note@1", false},
    {TWIN_ENTITIES, "entity:///note@2/", "note@2", true},
    {TWIN_ENTITIES, "entity:///vault@1/", "vault@1", true},
};

#define BEGINNING 4102444800000 /* 2100-01-01 */

static struct clock_fake now = {.wall_ms = BEGINNING, .only_wall = true};

void twin_require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

void twin_clock_move(unsigned ms)
{
    static bool is_set;
    int64_t next = ms == 0 ? BEGINNING : now.wall_ms + ms;
    __atomic_store_n(&now.wall_ms, next, __ATOMIC_RELAXED);
    if (!is_set) {
        clock_set_fake(&now);
        is_set = true;
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

void twin_path(const struct twin_world *w, const char *folder, const char *path, char out[256])
{
    int n = snprintf(out, 256, "%s/%s/%s", w->directory, folder, path);
    twin_require(n > 0 && n < 256, "a short path");
}

/* Made elsewhere and moved there, so that it happens at once. */
void twin_file_put(struct twin_world *w, const char *path, const char *text)
{
    char to[256], from[256];
    twin_path(w, "docs", path, to);
    twin_path(w, "", "new", from);
    FILE *file = fopen(from, "w");
    twin_require(file && fputs(text, file) >= 0 && fclose(file) == 0, "a file");
    twin_require(rename(from, to) == 0, "a file in its place");
}

void twin_file_move(struct twin_world *w, const char *from, const char *to)
{
    char old[256], new[256];
    twin_path(w, "docs", from, old);
    twin_path(w, "docs", to, new);
    (void)rename(old, new);
}

void twin_file_remove(struct twin_world *w, const char *path)
{
    char name[256];
    twin_path(w, "docs", path, name);
    (void)unlink(name);
}

/* File changes are announced in order, so nothing remains after a received mark. */
static void on_mark(void *user, const struct tidings_update *update)
{
    struct twin_world *w = user;
    struct tidings_str number = str_skip(update->uri, sizeof(MARKS) - 1);
    uint64_t n = 0;
    if (str_to_u64(number, &n) && n > w->passed) {
        w->passed = (unsigned)n;
    }
}

static void on_mark_state(void *user, const struct tidings_state_event *event)
{
    (void)user;
    twin_require(event->state != TIDINGS_STATE_REFUSED, "marks are heard of");
}

void twin_barrier(struct twin_world *w)
{
    char path[32];
    snprintf(path, sizeof(path), "zz/%u", ++w->barriers);
    twin_file_put(w, path, "mark");
    twin_run_until_idle(w);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void set(struct twin_world *w, const char *name, const char *value)
{
    struct tidings_error err = {0, ""};
    if (tidings_server_set(w->server, name, value, &err) < 0) {
        twin_require(false, err.text);
    }
}

static void set_rule(struct twin_world *w, const char *who, const char *uri, unsigned ops)
{
    static const char *const names[] = {"list", "read", "subscribe", "write"};
    struct buf text;
    buf_init(&text, 1024);
    buf_putc(&text, '{');
    if (who) {
        buf_putf(&text, "\"principal\":\"%s\",", who);
    }
    if (uri) {
        bool is_root = uri[strlen(uri) - 1] == '/' && strchr(uri, '/') + 2 == strrchr(uri, '/');
        buf_putf(&text, "\"uri\":\"%s\",%s", uri, is_root ? "\"match\":\"literal\"," : "");
    }
    buf_puts(&text, STR("\"allow\":["));
    for (unsigned i = 0, any = 0; i < 4; i++) {
        if (ops & 1u << i) {
            buf_putf(&text, "%s\"%s\"", any++ ? "," : "", names[i]);
        }
    }
    buf_putf(&text, "]}%c", '\0');
    set(w, "access", text.ptr);
    buf_deinit(&text);
}

static void set_rules(struct twin_world *w, const struct twin_plan *plan)
{
    static const char *const roots[] = {"docs:///", "pub:///", "entity:///"};
    set_rule(w, "root", NULL, 15);
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        char glob[64];
        const char *prefix = twin_areas[i].prefix;
        snprintf(glob, sizeof(glob), "%s**", prefix);
        if (plan->is_visible[i]) {
            set_rule(w, "editor", prefix, 15);
            set_rule(w, NULL, plan->by_glob[i] ? glob : prefix, plan->ops[i]);
        }
    }
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]) && plan->shows_roots; i++) {
        set_rule(w, NULL, roots[i], 7);
    }
    if (plan->shows_types) {
        set_rule(w, NULL, "entity:///types", 7);
    }
}

static void write_tokens(struct twin_world *w)
{
    static const char *const people[] = {"root", "editor", "guest"};
    char path[256];
    twin_path(w, "", "tokens", path);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    twin_require(file != NULL, "a file of tokens");
    for (size_t i = 0; i < sizeof(people) / sizeof(people[0]); i++) {
        unsigned char sum[SHA256_BYTES];
        struct sha256 s;
        char token[64];
        snprintf(token, sizeof(token), "%s-%s", people[i], "0123456789abcdef0123456789abcdef");
        sha256_init(&s);
        sha256_put(&s, token, strlen(token));
        sha256_end(&s, sum);
        fprintf(file, "%s ", people[i]);
        for (size_t k = 0; k < sizeof(sum); k++) {
            fprintf(file, "%02x", sum[k]);
        }
        fputc('\n', file);
    }
    twin_require(fclose(file) == 0, "a file of tokens");
    set(w, "auth-tokens", path);
}

/* Periodic checks for changes that the kernel does not report (link targets) are off, because their
 * timing would differ between the worlds. */
static void mount_files(struct twin_world *w)
{
    char path[256], config[400];
    struct tidings_error err = {0, ""};
    twin_path(w, "docs", "", path);
    (void)snprintf(config, sizeof(config), "{\"root\":\"%s\",\"quietMs\":1,\"pollMs\":3600000}",
                   path);
    int rc = tidings_server_mount(w->server, tidings_provider_find("file"), STR("docs:///"),
                                  tidings_str(config), &err);
    twin_require(rc == 0, err.text);
}

static void configure(struct twin_world *w, const struct twin_plan *plan)
{
    static const char *const settings[][2] = {
        {"window", "0"},          {"io-uring", "off"},      {"log-level", "off"},
        {"drain", "0"},           {"legacy-sse", "true"},   {"publish", "pub:///"},
        {"allow-write", "true"},  {"entities", ":memory:"}, {"self", "true"},
        {"change-tools", "on"},   {"request-rate", "0"},    {"subscribe-rate", "0"},
        {"connection-rate", "0"}, {"page-size", "3"},       {"allow-host", "w"},
    };
    char path[256];
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        set(w, settings[i][0], settings[i][1]);
    }
    twin_path(w, "", "http", path);
    set(w, "http-unix", path);
    twin_path(w, "", "lines", path);
    set(w, "unix", path);
    mount_files(w);
    write_tokens(w);
    set_rules(w, plan);
}

static void make_directories(struct twin_world *w)
{
    static const char *const names[] = {"", "pub", "mix", "priv", "zz", "pub/sub", "priv/sub"};
    /* Two trees come and go with each run; file systems on disks are slow to give their inodes out
     * again. */
    snprintf(w->directory, sizeof(w->directory), "%s/twin-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    twin_require(mkdtemp(w->directory) != NULL, "a directory");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[256];
        twin_path(w, "docs", names[i], path);
        twin_require(mkdir(path, 0700) == 0, "a directory");
    }
}

/* Names that may be seen, of what may not, and of what is elsewhere. */
static void make_links(struct twin_world *w)
{
    static const char *const links[][2] = {
        {"pub/link.txt", "../priv/s.txt"},
        {"pub/dir", "../priv"},
        {"pub/up", ".."},
        {"pub/out", "/etc/hostname"},
        {"mix/back", "../pub/a.txt"},
        {"mix/far", "../pub/dir"},
        {"priv/in", "../pub"},
    };
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        char name[256];
        twin_path(w, "docs", links[i][0], name);
        twin_require(symlink(links[i][1], name) == 0, "a link");
    }
}

void twin_world_open(struct twin_world *w, const struct twin_plan *plan)
{
    struct tidings_error err = {0, ""};
    *w = (struct twin_world){0};
    struct buf *vars[] = {&w->session, &w->event, &w->cursor, &w->page, &w->etag, &w->messages};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        buf_init(vars[i], TWIN_HEARD_MAX);
    }
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        w->wires[i].fd = -1;
        buf_init(&w->wires[i].heard, TWIN_HEARD_MAX);
    }
    make_directories(w);
    make_links(w);
    twin_file_put(w, "zz/1", "mark");
    w->server = tidings_server_create(&err);
    twin_require(w->server != NULL, err.text);
    configure(w, plan);
    if (tidings_server_start(w->server, &err) < 0) {
        twin_require(false, err.text);
    }
    w->server->hub->options.list_changed_ms = 0;
    struct tidings_subscribe_options on = {.fn = on_mark,
                                           .on_state = on_mark_state,
                                           .user = w,
                                           .options = "{\"windowMs\":0,\"initial\":true}"};
    twin_require(tidings_server_subscribe(w->server, STR(MARKS), &on, &err), err.text);
    w->barriers = 1; /* existing items are reported first */
    twin_connect(w, TWIN_ROOT);
    twin_connect(w, TWIN_EDITOR);
    twin_connect(w, TWIN_ASKS);
    twin_run_until_idle(w);
    twin_barrier(w);
}

void twin_world_close(struct twin_world *w)
{
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        twin_hang_up(w, (enum twin_wire_name)i);
        buf_deinit(&w->wires[i].heard);
    }
    tidings_server_stop_now(w->server);
    while (tidings_server_turn(w->server, NULL) > 0) {
        struct pollfd ready = {.fd = tidings_server_fd(w->server), .events = POLLIN};
        (void)poll(&ready, 1, 1);
    }
    tidings_server_destroy(w->server);
    struct buf *vars[] = {&w->session, &w->event, &w->cursor, &w->page, &w->etag, &w->messages};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        buf_deinit(vars[i]);
    }
    twin_require(remove_tree(w->directory) == 0, "the directory goes");
}
