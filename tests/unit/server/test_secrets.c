/* SPDX-License-Identifier: MIT
 *
 * Secrets are wiped before their memory is freed: an allocator searches every freed block for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/secret_alloc.h"

#include <cmocka.h>

#include <tidings/client.h>
#include <tidings/server.h>

#include "base/mem.h"
#include "engine/delivery/hub.h"
#include "security/seal.h"
#include "security/token_file.h"
#include "server/server_internal.h"
#include "support/scripted_server.h"
#include "support/served.h"

static void write_file(char path[64], const char *text)
{
    snprintf(path, 64, "/tmp/test_secrets.XXXXXX");
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Even if it grows, which moves it. */
static void secret_buffer_is_wiped(void **state)
{
    (void)state;
    for (int is_secret = 0; is_secret < 2; is_secret++) {
        struct buf b;
        secret_alloc_start(STR("hunter2"));
        (is_secret ? buf_init_secret : buf_init)(&b, 4096);
        buf_puts(&b, STR("hunter2"));
        for (int i = 0; i < 300; i++) {
            buf_putc(&b, '.');
        }
        buf_deinit(&b);
        long found = secret_alloc_stop();
        assert_true(is_secret ? found == 0 : found > 0); /* the allocator finds unwiped ones */
    }
}

static void credentials_and_token_files_are_wiped(void **state)
{
    (void)state;
    char path[64];
    struct credentials *c = NULL;
    struct token_file *f = NULL;
    static const char *const secrets[] /* raw, and as sent */ = {"hunter2", "dGlkaW5nczpodW50ZXIy"};
    write_file(path, "tidings:hunter2\n");
    for (size_t i = 0; i < 2; i++) {
        secret_alloc_start(tidings_str(secrets[i]));
        assert_int_equal(credentials_load(&c, path, NULL), 0);
        shared_value_unref(credentials_value(c));
        assert_int_equal(secret_alloc_stop(), 0);
    }
    unlink(path);
    char line[128];
    snprintf(line, sizeof line, "ann %064d a:scope\n", 1234567);
    write_file(path, line);
    secret_alloc_start(STR("00000000001234567"));
    assert_int_equal(token_file_load(&f, path, NULL), 0);
    shared_value_unref(token_file_value(f));
    assert_int_equal(secret_alloc_stop(), 0);
    unlink(path);
}

/* Tokens of accepted requests, of rejected requests, and of an abandoned request. */
static void request_tokens_are_wiped(void **state)
{
    char *token = NULL, *line = NULL, path[64], kept[128], head[512];
    *state = NULL;
    secret_alloc_start(STR_EMPTY);
    assert_int_equal(tidings_token_create(STR("ann"), STR_EMPTY, &token, &line, NULL), 0);
    write_file(path, line);
    snprintf(kept, sizeof kept, "%s", token);
    mem_free_secret(token, strlen(token));
    tidings_free(line);
    secret_alloc.secret = tidings_str(kept);
    assert_int_equal(served_begin(state), 0);
    served_set("auth-tokens", path);
    served_run();
    snprintf(
        head, sizeof head,
        "GET /resource?uri=app:///a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n",
        kept);
    assert_non_null(strstr(served_http(head, ""), " 200 "));
    snprintf(
        head, sizeof head,
        "GET /resource?uri=app:///a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x%s\r\n",
        kept);
    assert_non_null(strstr(served_http(head, ""), " 401 "));
    static const struct {
        const char *before, *said;
    } rows[] = {{"", " 200 "}, {"x", " 401 "}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(head, sizeof head,
                 "GET /resource?uri=app:///a HTTP/1.1\r\nAuthorization: Bearer %s%s",
                 rows[i].before, kept);
        assert_non_null(strstr(served_http(head, ""), rows[i].said));
    }
    int unread = served_ask(head, "");
    assert_int_equal(served_end(state), 0);
    close(unread);
    assert_int_equal(secret_alloc_stop(), 0);
    unlink(path);
}

static void sealing_key_is_wiped(void **state)
{
    *state = NULL;
    struct seal_key key;
    secret_alloc_start(STR_EMPTY);
    assert_int_equal(served_begin(state), 0);
    memcpy(&key, &served()->shared->seal, sizeof key);
    secret_alloc.secret = tidings_strn((const char *)&key, 16);
    served_run();
    assert_non_null(strstr(served_modern("resources/read", "app:///a"), " 200 "));
    assert_int_equal(served_end(state), 0);
    assert_int_equal(secret_alloc_stop(), 0);
}

static void answer(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    if (!scripted_discovered(r)) {
        scripted_result(r, "", "{\"contents\":[]}");
    }
}

static void client_token_is_wiped(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_client_options o = {.token = "hunter2-hunter2"};
    scripted_start(&server, answer, NULL);
    secret_alloc_start(STR("hunter2-hunter2"));
    struct tidings_client *client = tidings_client_create(server.url, &o, NULL);
    assert_non_null(client);
    char *text = tidings_client_read(client, "x:/a", NULL);
    assert_non_null(text);
    tidings_free(text);
    tidings_client_destroy(client);
    assert_int_equal(secret_alloc_stop(), 0);
    scripted_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secret_buffer_is_wiped),
        cmocka_unit_test(credentials_and_token_files_are_wiped),
        cmocka_unit_test(request_tokens_are_wiped),
        cmocka_unit_test(sealing_key_is_wiped),
        cmocka_unit_test(client_token_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
