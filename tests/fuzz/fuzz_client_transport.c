/* SPDX-License-Identifier: MIT
 *
 * Our client, with a real transport to it, and a server that says anything. The first byte chooses
 * how they meet: 0 lines on a Unix socket, else HTTP on one. Whenever the client has said something
 * the server says the next piece, up to a byte 0x1e, in which $I stands for the id it heard last.
 * Everything asked is answered or failed exactly once, and what is told to the program is text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <tidings/client.h>

#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNECTIONS 8u
#define TURNS 100u
#define PIECE_END 0x1e

static struct {
    char directory[64], path[80], lines[100], http[100];
    int listener;
    int fds[CONNECTIONS];
    struct tidings_str input;
    char id[24];
    unsigned answers;
} s = {.directory = "/tmp/fuzz-link-XXXXXX"};

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static void leave(void)
{
    rmdir(s.directory);
}

static void find_place(void)
{
    require(mkdtemp(s.directory) != NULL);
    snprintf(s.path, sizeof(s.path), "%s/s", s.directory);
    snprintf(s.lines, sizeof(s.lines), "unix:%s", s.path);
    snprintf(s.http, sizeof(s.http), "http+unix:%s", s.path);
    atexit(leave);
}

static void open_door(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", s.path);
    s.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(bind(s.listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    require(listen(s.listener, 16) == 0);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        s.fds[i] = -1;
    }
}

static void hang_up(size_t i)
{
    if (s.fds[i] >= 0) {
        close(s.fds[i]);
    }
    s.fds[i] = -1;
}

/* Nobody is left to say goodbye to. */
static void close_door(void)
{
    for (size_t i = 0; i < CONNECTIONS; i++) {
        hang_up(i);
    }
    close(s.listener);
    unlink(s.path);
}

static void note_id(struct tidings_str heard)
{
    static const char mark[] = "\"id\":";
    for (size_t i = 0; i + sizeof(mark) <= heard.len; i++) {
        if (memcmp(heard.ptr + i, mark, sizeof(mark) - 1) == 0) {
            size_t n = 0;
            const char *at = heard.ptr + i + sizeof(mark) - 1;
            while (at + n < heard.ptr + heard.len && at[n] >= '0' && at[n] <= '9') {
                n++;
            }
            snprintf(s.id, sizeof(s.id), "%.*s", (int)(n < 20 ? n : 20), at);
        }
    }
}

/* Say the next piece; nothing more to say: hang up. */
static void say(size_t i)
{
    if (s.input.len == 0) {
        hang_up(i);
        return;
    }
    struct tidings_str piece = str_cut(s.input, PIECE_END, &s.input, NULL);
    struct buf out;
    buf_init(&out, 1u << 20);
    for (size_t k = 0; k < piece.len; k++) {
        if (piece.ptr[k] == '$' && k + 1 < piece.len && piece.ptr[k + 1] == 'I') {
            buf_puts(&out, tidings_str(s.id));
            k++;
        } else {
            buf_putc(&out, piece.ptr[k]);
        }
    }
    if (out.len > 0 && send(s.fds[i], out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        hang_up(i);
    }
    buf_deinit(&out);
}

static void serve(void)
{
    char bytes[16384];
    bool may_come = true;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (s.fds[i] < 0 && may_come) {
            s.fds[i] = accept4(s.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            may_come = false; /* the next one in the next turn */
        }
        if (s.fds[i] < 0) {
            continue;
        }
        ssize_t n = recv(s.fds[i], bytes, sizeof(bytes), 0);
        if (n > 0) {
            note_id(tidings_strn(bytes, (size_t)n));
            say(i);
        } else if (n == 0 || errno != EAGAIN) {
            hang_up(i);
        }
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static void on_update(void *user, const struct tidings_update *u)
{
    (void)user;
    struct json *root = NULL;
    require(str_is_utf8(u->uri) && str_is_utf8(u->subscribed_uri) && str_is_utf8(u->from));
    require(str_is_utf8(u->metadata) && str_is_utf8(u->value) && u->merged > 0);
    require(u->params.len == 0 || jv_parse(u->params, 512, &root, NULL) == 0);
    jv_unref(root);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    (void)user;
    require(str_is_utf8(e->uri));
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    (void)user;
    require(str_is_utf8(method) && str_is_utf8(params));
}

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                      struct tidings_str error)
{
    (void)user;
    require((result.len == 0) == (err != NULL));
    require(str_is_utf8(result) && str_is_utf8(error));
    s.answers++;
}

static void on_progress(void *user, double progress, double total, struct tidings_str message)
{
    (void)user;
    (void)progress;
    (void)total;
    require(str_is_utf8(message));
}

static void use_client(struct tidings_client *c)
{
    const struct tidings_subscribe_options on = {.fn = on_update};
    const struct tidings_client_asking read = {.method = "resources/read",
                                               .params = "{\"uri\":\"app:///a\"}",
                                               .on_answer = on_answer,
                                               .on_progress = on_progress};
    tidings_client_on_state(c, on_state, NULL);
    tidings_client_on_notification(c, on_notification, NULL);
    require(tidings_client_subscribe(c, "app:///a", &on, NULL) != NULL);
    require(tidings_client_subscribe(c, "app:///*", &on, NULL) != NULL);
    unsigned asked = tidings_client_ask(c, &read, NULL) > 0;
    for (unsigned i = 0, idle = 0; i < TURNS && idle < 4; i++) {
        size_t left = s.input.len;
        serve();
        if (tidings_client_step(c, 0, NULL) <= 0) {
            break;
        }
        idle = s.input.len == 0 && left == 0 ? idle + 1 : 0;
    }
    require(s.answers <= asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct tidings_client_options options = {
        .retry_min_ms = 1, .retry_max_ms = 1, .max_bytes = 65536, .list_changes = true};
    if (size == 0 || size > 8192) {
        return 0;
    }
    if (s.path[0] == '\0') {
        find_place();
    }
    open_door();
    s.input = tidings_strn((const char *)data + 1, size - 1);
    s.answers = 0;
    s.id[0] = '\0';
    struct tidings_client *c = tidings_client_create(data[0] ? s.http : s.lines, &options, NULL);
    if (c) { /* else without libcurl */
        use_client(c);
    }
    close_door();
    tidings_client_destroy(c);
    return 0;
}
