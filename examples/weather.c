/* SPDX-License-Identifier: MIT
 *
 * A template and a background thread: `weather://city/{location}` for a few cities. Every half
 * second the thread changes the temperature of one city, and announces the change with the new
 * value as metadata. Clients that subscribed to `weather://city/oslo`, or to the template, receive
 * an update.
 *
 *     weather --http 127.0.0.1:7777 &
 *     tidings watch --json http://127.0.0.1:7777/mcp 'weather://city/{location}'
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <tidings/tidings.h>

#define CITIES 4u

struct weather { /* used by the thread and by the workers that read */
    struct tidings_server *server;
    atomic_int degrees[CITIES];
    atomic_bool is_over;
};

static const char *const cities[CITIES] = {"cairo", "lima", "oslo", "tokyo"};

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    struct weather *w = user;
    struct tidings_str name = tidings_read_variable(read, "location");
    (void)uri;
    for (unsigned i = 0; i < CITIES; i++) {
        if (tidings_str_eq(name, tidings_str(cities[i]))) {
            char text[96];
            (void)snprintf(text, sizeof text, "{\"city\":\"%s\",\"degrees\":%d}", cities[i],
                           atomic_load(&w->degrees[i]));
            tidings_read_answer(read, tidings_str(text));
            return;
        }
    }
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void announce(struct weather *w, unsigned city, int degrees)
{
    char uri[64], metadata[32];
    (void)snprintf(uri, sizeof uri, "weather://city/%s", cities[city]);
    (void)snprintf(metadata, sizeof metadata, "{\"degrees\":%d}", degrees);
    (void)tidings_changed(w->server, tidings_str(uri), tidings_str(metadata), NULL);
}

static void *run(void *user)
{
    struct weather *w = user;
    const struct timespec pause = {.tv_nsec = 500000000};
    for (unsigned turn = 0; !atomic_load(&w->is_over); turn++) {
        unsigned city = turn % CITIES;
        int step = turn / CITIES % 2 ? -1 : 1;
        (void)nanosleep(&pause, NULL);
        announce(w, city, atomic_fetch_add(&w->degrees[city], step) + step);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct weather w = {.degrees = {31, 18, 4, 15}};
    struct tidings_error err = {0, ""};
    struct tidings_resource about =
        tidings_resource("weather://city/{location}", "weather", "application/json");
    about.description = TIDINGS_STR("Temperature in cairo, lima, oslo and tokyo");
    pthread_t thread;
    w.server = tidings_server_create(&err);
    if (!w.server || tidings_server_add_template(w.server, &about, on_read, &w, &err) < 0 ||
        pthread_create(&thread, NULL, run, &w) != 0) {
        fprintf(stderr, "weather: %s\n", err.text);
        tidings_server_destroy(w.server);
        return 1;
    }
    int status = tidings_server_main(w.server, argc, argv);
    atomic_store(&w.is_over, true);
    pthread_join(thread, NULL);
    tidings_server_destroy(w.server);
    return status;
}
