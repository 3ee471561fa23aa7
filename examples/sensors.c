/* SPDX-License-Identifier: MIT
 *
 * Ten thousand resources that change all the time: sensor:///0000 … sensor:///9999. Each contains
 * the number of its updates. Every 100 ms the program updates the next thousand, and announces each
 * update with that number as metadata. `sensor:///total` is the number of all updates.
 *
 * The program does not register each resource: a provider serves them, and lists them in pages.
 *
 *     sensors --http 127.0.0.1:7777 &
 *     tidings watch --json http://127.0.0.1:7777/mcp 'sensor:///12*'
 */
#include <stdatomic.h>
#include <stdio.h>

#include <tidings/tidings.h>

#define SENSORS 10000u
#define BATCH 1000u
#define EVERY_MS 100u
#define TOTAL SENSORS /* after the last sensor, and last in URI order */
#define PREFIX "sensor:///"
#define URI_SIZE 24u

static atomic_uint counts[SENSORS + 1];
static struct tidings_server *server;

static struct tidings_resource describe(unsigned which, char uri[URI_SIZE])
{
    (void)snprintf(uri, URI_SIZE, which == TOTAL ? PREFIX "total" : PREFIX "%04u", which);
    return tidings_resource(uri, uri + sizeof PREFIX - 1, "text/plain");
}

/* Returns the index of a URI, above TOTAL if there is none. */
static unsigned find(struct tidings_str uri)
{
    char text[URI_SIZE];
    unsigned which = 0;
    size_t at = sizeof PREFIX - 1;
    for (size_t i = at; i < uri.len && uri.ptr[i] >= '0' && uri.ptr[i] <= '9' && i < at + 4; i++) {
        which = which * 10 + (unsigned)(uri.ptr[i] - '0');
    }
    if (uri.len == at + 5) {
        which = TOTAL;
    }
    struct tidings_str spelled = describe(which, text).uri;
    bool same = uri.len == spelled.len && memcmp(uri.ptr, spelled.ptr, uri.len) == 0;
    return same ? which : TOTAL + 1;
}

static void on_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    char text[16];
    unsigned which = find(uri);
    (void)p;
    if (which > TOTAL) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
        return;
    }
    (void)snprintf(text, sizeof text, "%u", atomic_load(&counts[which]));
    tidings_read_answer(read, tidings_str(text));
}

static void on_stat(struct tidings_provider *p, struct tidings_stat *stat, struct tidings_str uri)
{
    char text[URI_SIZE];
    unsigned which = find(uri);
    (void)p;
    struct tidings_resource about = describe(which, text);
    tidings_stat_done(stat, which > TOTAL ? TIDINGS_E_NOTFOUND : 0, &about, NULL);
}

static void on_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct tidings_error err;
    struct tidings_str after = tidings_list_after(list);
    int more = 1;
    (void)p;
    for (unsigned i = after.len > 0 ? find(after) + 1 : 0; i <= TOTAL && more > 0; i++) {
        char text[URI_SIZE];
        struct tidings_resource about = describe(i, text);
        more = tidings_list_add(list, &about, &err);
    }
    tidings_list_done(list, more < 0 ? more : 0, &err);
}

static int on_open(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p, (void)config, (void)err;
    return 0;
}

static void on_close(struct tidings_provider *p)
{
    (void)p;
}

static void announce(unsigned which, unsigned count)
{
    char uri[URI_SIZE], metadata[32];
    (void)snprintf(metadata, sizeof metadata, "{\"count\":%u}", count);
    (void)tidings_changed(server, describe(which, uri).uri, tidings_str(metadata), NULL);
}

static void update(void *user)
{
    unsigned *next = user;
    for (unsigned i = 0; i < BATCH; i++) {
        announce(*next, atomic_fetch_add(&counts[*next], 1) + 1);
        *next = (*next + 1) % SENSORS;
    }
    announce(TOTAL, atomic_fetch_add(&counts[TOTAL], BATCH) + BATCH);
}

static const struct tidings_provider_ops ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "sensors",
    .open = on_open,
    .read = on_read,
    .list = on_list,
    .stat = on_stat,
    .close = on_close,
};

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    unsigned next = 0;
    server = tidings_server_create(&err);
    if (!server ||
        tidings_server_mount(server, &ops, TIDINGS_STR(PREFIX), TIDINGS_STR(""), &err) < 0 ||
        tidings_server_every(server, EVERY_MS, update, &next, &err) < 0) {
        fprintf(stderr, "sensors: %s\n", err.text);
        tidings_server_destroy(server);
        return tidings_code_exit(err.code);
    }
    int status = tidings_server_main(server, argc, argv);
    tidings_server_destroy(server);
    return status;
}
