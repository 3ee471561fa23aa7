/* SPDX-License-Identifier: MIT
 *
 * A server in the libuv loop of a program: a clock that ticks once a second.
 *
 *     embed_libuv --http 127.0.0.1:7777
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include <uv.h>

#include <tidings/tidings.h>

#define CLOCK "clock:///now"

static struct tidings_server *server;
static uv_poll_t has_work;
static uv_timer_t is_due, tick;
static uv_signal_t interrupted, terminated;

static void step(void)
{
    if (tidings_server_turn(server, NULL) <= 0) {
        uv_stop(uv_default_loop());
    }
}

static void on_work(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
    step();
}

static void on_due(uv_timer_t *timer)
{
    (void)timer;
    step();
}

/* Updates the timer before each wait, because any callback may have changed it. */
static void before_wait(uv_prepare_t *prepare)
{
    (void)prepare;
    int ms = tidings_server_timeout_ms(server);
    if (ms < 0) {
        uv_timer_stop(&is_due);
    } else {
        uv_timer_start(&is_due, on_due, (uint64_t)ms, 0);
    }
}

static void embed(uv_loop_t *loop, uv_prepare_t *prepare)
{
    uv_timer_init(loop, &is_due);
    uv_poll_init(loop, &has_work, tidings_server_fd(server));
    uv_poll_start(&has_work, UV_READABLE, on_work);
    uv_prepare_init(loop, prepare);
    uv_prepare_start(prepare, before_wait);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    tidings_changed(server, tidings_str(CLOCK), tidings_str(NULL), NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    tidings_server_stop(server);
}

static void read_clock(void *user, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error err;
    char text[32];
    (void)user;
    (void)uri;
    snprintf(text, sizeof(text), "%lld\n", (long long)time(NULL));
    int rc = tidings_read_text(read, NULL, tidings_str(text), &err);
    tidings_read_done(read, rc, &err);
}

static void on_ready(void *user, const char *url)
{
    (void)user;
    fprintf(stderr, "embed_libuv: serving on %s\n", url);
}

static int set_up(const char *address, struct tidings_error *err)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(CLOCK);
    about.name = tidings_str("clock");
    about.mime_type = tidings_str("text/plain");
    tidings_server_on_ready(server, on_ready, NULL);
    int rc = tidings_server_set(server, "http", address, err);
    rc = rc < 0 ? rc : tidings_server_add_resource(server, &about, read_clock, NULL, err);
    return rc < 0 ? rc : tidings_server_start(server, err);
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    uv_loop_t *loop = uv_default_loop();
    uv_prepare_t prepare;
    server = tidings_server_create(&err);
    if (!server || set_up(argc > 2 ? argv[2] : "127.0.0.1:7777", &err) < 0) {
        fprintf(stderr, "embed_libuv: %s\n", err.text);
        tidings_server_destroy(server);
        return tidings_code_exit(err.code);
    }
    embed(loop, &prepare);
    uv_timer_init(loop, &tick);
    uv_timer_start(&tick, on_tick, 1000, 1000);
    uv_signal_init(loop, &interrupted);
    uv_signal_start(&interrupted, on_signal, SIGINT);
    uv_signal_init(loop, &terminated);
    uv_signal_start(&terminated, on_signal, SIGTERM);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_poll_stop(&has_work); /* before its descriptor is closed */
    tidings_server_destroy(server);
    return 0;
}
