/* SPDX-License-Identifier: MIT
 *
 * A small agent host: `host FILE` connects to the servers of an .mcp.json, keeps live copies of
 * their resources, asks its user what they ask, and calls tools (`SERVER TOOL {…}`).
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

enum { SERVERS = 16, COPIES = 200 }; /* in all */
static struct server {
    char name[64];
    struct tidings_client *client;
} servers[SERVERS];
static struct copy {
    struct tidings_client *client;
    char *uri, *contents; /* NULL: it cannot be read */
} copies[COPIES + 1];     /* the last is never kept */
static size_t server_count, copy_count;

/* Nothing that a stranger says may drive the terminal: printable ASCII goes there, and no more. */
static void say(struct tidings_str text, const char *end)
{
    for (size_t i = 0; i < text.len; i++) {
        putchar(text.ptr[i] < ' ' || text.ptr[i] > '~' ? '?' : text.ptr[i]);
    }
    printf("%s", end);
}

static void refresh(void *user, const struct tidings_update *update)
{
    struct copy *c = user;
    tidings_free(c->contents);
    c->contents = tidings_client_read(c->client, c->uri, NULL);
    say(update->uri, c->contents ? ": a new copy\n" : " is gone\n");
}

/* What changes from now on is told: read it, also after an interruption. */
static void on_state(void *user, const struct tidings_state_event *event)
{
    if (event->state == TIDINGS_STATE_WATCHING) {
        refresh(user, &(struct tidings_update){.uri = event->uri});
    }
}

static int follow(void *user, struct tidings_str resource)
{
    struct copy *c = &copies[copy_count];
    struct tidings_subscribe_options on = {.fn = refresh, .on_state = on_state, .user = c};
    *c = (struct copy){.client = user, .uri = tidings_json_string(resource, "/uri")};
    copy_count += copy_count < COPIES && tidings_client_info(user)->can_subscribe && c->uri &&
                  tidings_client_subscribe(user, c->uri, &on, NULL);
    return copy_count == COPIES;
}

/* A field of a form, until what is typed fits. Not 0: the user has left. */
static int fill_in(void *user, const struct tidings_field *field)
{
    char line[512], *value = NULL;
    struct tidings_error err = {0};
    while (!value) {
        say(tidings_str(err.text), "\n  ");
        say(field->title, field->is_required ? " (required): " : ": ");
        if (!fgets(line, sizeof(line), stdin) || (line[0] == '\n' && !field->is_required)) {
            return feof(stdin); /* it gets its preset */
        }
        value = tidings_field_read(field, tidings_strn(line, strcspn(line, "\n")), &err);
    }
    char *name = tidings_json_quote(field->name);
    fprintf(user, "%c%s:%s", ftell(user) > 0 ? ',' : '{', name, value);
    tidings_free(name);
    tidings_free(value);
    return 0;
}

static void on_form(void *user, struct tidings_question *question)
{
    char *form = NULL;
    FILE *out = open_memstream(&form, &(size_t){0});
    printf("%s asks: ", ((struct server *)user)->name);
    say(tidings_question_message(question), "\n");
    int left = tidings_question_fields(question, fill_in, out);
    fputs(ftell(out) > 0 ? "}" : "{}", out);
    fclose(out);
    if (left != 0 || tidings_question_accept(question, tidings_str(form), NULL) < 0) {
        tidings_question_cancel(question);
    }
    free(form);
}

static int add_server(void *user, struct tidings_str key, struct tidings_str entry)
{
    struct server *s = &servers[server_count];
    struct tidings_question_handlers on = {.on_form = on_form, .user = s};
    char *url = tidings_json_string(entry, "/url"), at[16];
    char *argv[32] = {tidings_json_string(entry, "/command")};
    for (int i = 0; i < 30 && argv[i]; i++) {
        snprintf(at, sizeof(at), "/args/%d", i);
        argv[i + 1] = tidings_json_string(entry, at);
    }
    snprintf(s->name, sizeof(s->name), "%.*s", (int)key.len, key.ptr);
    s->client = url ? tidings_client_create(url, NULL, user)
                    : tidings_client_launch((const char *const *)argv, NULL, user);
    if (s->client && tidings_client_on_question(s->client, &on, user) == 0) {
        (void)tidings_client_list(s->client, TIDINGS_LISTING_RESOURCES, follow, s->client, user);
        server_count++;
    }
    return server_count == SERVERS;
}

static bool obey(struct tidings_error *err)
{
    char line[1024], name[64], tool[64], arguments[900] = "{}";
    bool is_there = fgets(line, sizeof(line), stdin) != NULL;
    int words = is_there ? sscanf(line, "%63s %63s %899[^\n]", name, tool, arguments) : 0;
    for (size_t i = 0; words > 1 && i < server_count; i++) {
        if (strcmp(servers[i].name, name) == 0) {
            char *result = tidings_client_call(servers[i].client, tool, arguments, NULL, NULL, err);
            say(tidings_str(result ? result : err->text), "\n");
            tidings_free(result);
        }
    }
    return is_there;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0};
    struct pollfd fds[SERVERS + 1] = {{.fd = 0, .events = POLLIN}};
    setvbuf(stdin, NULL, _IONBF, 0); /* nothing is read ahead of poll */
    setvbuf(stdout, NULL, _IONBF, 0);
    char *file = tidings_file_read(argv[argc - 1], TIDINGS_FILE_NAMED, 65536, NULL, &err);
    (void)tidings_json_each(tidings_str(file), "/mcpServers", add_server, &err);
    int rc = server_count > 0 ? 1 : err.code;
    while (rc > 0 && (!fds[0].revents || obey(&err))) {
        for (size_t i = 0; rc > 0 && i < server_count; i++) {
            rc = tidings_client_step(servers[i].client, 0, &err);
            fds[i + 1] = (struct pollfd){tidings_client_fd(servers[i].client), POLLIN, 0};
        }
        (void)poll(fds, (nfds_t)server_count + 1, rc > 0 ? -1 : 0);
    }
    say(tidings_str(rc < 0 ? err.text : "bye"), "\n");
    for (size_t i = 0; i < server_count; i++) {
        tidings_client_destroy(servers[i].client);
    }
    return tidings_code_exit(rc < 0 ? rc : 0);
}
