/* SPDX-License-Identifier: MIT
 *
 * `host FILE`: a small agent host: live copies, tools and forms of the servers in an .mcp.json.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidings/tidings.h>

enum { SERVERS = 16, COPIES = 200 };            /* total */
static char names[SERVERS][64], *file;          /* kept until the program ends */
static struct tidings_client *clients[SERVERS]; /* NULL: skipped */
static struct copy {
    struct tidings_client *client;
    char *uri, *contents; /* NULL: unreadable */
} copies[COPIES + 1];     /* the last entry is temporary */
static size_t server_count, copy_count;

/* Server text must not control the terminal: prints only printable ASCII. */
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
    say(update->uri, c->contents ? ": a new copy\n" : " cannot be read\n");
}

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
    bool is_kept = copy_count < COPIES && tidings_client_info(user)->can_subscribe;
    *c = (struct copy){user, is_kept ? tidings_json_string(resource, "/uri") : NULL, NULL};
    copy_count += c->uri && tidings_client_subscribe(user, c->uri, &on, NULL);
    return copy_count == COPIES;
}

/* Reads a form field until the input is valid. Returns a value other than 0 if the user left. */
static int fill_in(void *user, const struct tidings_field *field)
{
    char line[512], *value = NULL;
    struct tidings_error err = {0};
    while (!value) {
        say(tidings_str(err.text), err.code < 0 ? "\n  " : "  ");
        say(field->title, field->is_required ? " (required): " : ": ");
        if (!fgets(line, sizeof(line), stdin) || (line[0] == '\n' && !field->is_required)) {
            return feof(stdin); /* use the default value */
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
    say(tidings_str(user), " asks: ");
    say(tidings_question_message(question), "\n");
    int left = tidings_question_fields(question, fill_in, out);
    fputs(ftell(out) > 0 ? "}" : "{}", out);
    fclose(out);
    if (left != 0 || tidings_question_accept(question, tidings_str(form), NULL) < 0) {
        tidings_question_cancel(question);
    }
    free(form);
}

static void leave(size_t i, const struct tidings_error *err)
{
    say(tidings_str(names[i]), " is left: ");
    say(tidings_str(err->text), "\n");
    tidings_client_destroy(clients[i]);
    clients[i] = NULL;
}

static int add_server(void *user, struct tidings_str key, struct tidings_str entry)
{
    size_t i = server_count++;
    struct tidings_question_handlers on = {.on_form = on_form, .user = names[i]};
    snprintf(names[i], sizeof(names[i]), "%.*s", (int)key.len, key.ptr);
    clients[i] = tidings_client_create_entry(entry, NULL, user);
    if (!clients[i] || tidings_client_on_question(clients[i], &on, user) < 0 ||
        tidings_client_connect(clients[i], user) < 0) {
        leave(i, user);
    }
    (void)tidings_client_list(clients[i], TIDINGS_LISTING_RESOURCES, follow, clients[i], NULL);
    return server_count == SERVERS;
}

static bool obey(struct tidings_error *err)
{
    char line[1024], name[64], tool[64], arguments[900] = "{}", *result = NULL;
    bool is_there = fgets(line, sizeof(line), stdin) != NULL;
    int words = is_there ? sscanf(line, "%63s %63s %899[^\n]", name, tool, arguments) : 0;
    tidings_fail(err, TIDINGS_E_INVALID, "a line is SERVER TOOL {...}, of a server in the file");
    for (size_t i = 0; words > 1 && i < server_count; i++) {
        if (clients[i] && strcmp(names[i], name) == 0) {
            result = tidings_client_call(clients[i], tool, arguments, NULL, NULL, err);
        }
    }
    say(tidings_str(!is_there ? "bye" : result ? result : err->text), "\n");
    tidings_free(result);
    return is_there;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0};
    struct pollfd fds[SERVERS + 1] = {{.fd = 0, .events = POLLIN}};
    setvbuf(stdin, NULL, _IONBF, 0); /* do not read ahead of poll */
    setvbuf(stdout, NULL, _IONBF, 0);
    file = tidings_file_read(argv[argc - 1], TIDINGS_FILE_NAMED, 65536, NULL, &err);
    if (!file || tidings_json_each(tidings_str(file), "/mcpServers", add_server, &err) < 0) {
        say(tidings_str(file ? "the file has no mcpServers" : err.text), "\n");
        return 1;
    }
    while (!fds[0].revents || obey(&err)) {
        for (size_t i = 0; i < server_count; i++) {
            if (clients[i] && tidings_client_step(clients[i], 0, &err) < 0) {
                leave(i, &err);
            }
            fds[i + 1] = (struct pollfd){tidings_client_fd(clients[i]), POLLIN, 0};
        }
        (void)poll(fds, (nfds_t)server_count + 1, -1);
    }
    while (server_count > 0) {
        tidings_client_destroy(clients[--server_count]);
    }
}
