/* SPDX-License-Identifier: MIT */
#include "support/tls_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>

enum { TURNS_MAX = 100000 };

static void on_flushed(struct sendq *q, enum sendq_state state)
{
    struct tls_wire *w = list_entry(q, struct tls_wire, q);
    w->last = state;
}

static void begin(struct tls_wire *w, struct tls_context *c, const char *protocol)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, w->fds), 0);
    sendq_init(&w->q, &w->batch, w->fds[0], on_flushed);
    struct tls_session *session = tls_session_create(c, protocol);
    assert_non_null(session);
    assert_int_equal(sendq_use_tls(&w->q, session), 0);
    w->client = SSL_new(w->client_context);
    assert_non_null(w->client);
    SSL_set_fd(w->client, w->fds[1]);
    SSL_set_connect_state(w->client);
    w->got_len = 0;
    w->has_ended = false;
    w->failure = 0;
}

void tls_wire_open(struct tls_wire *w, struct tls_context *c, const char *protocol, const char *ca)
{
    *w = (struct tls_wire){.failure = 0};
    sendq_batch_init(&w->batch);
    w->got = calloc(1, TLS_WIRE_GOT);
    w->client_context = SSL_CTX_new(TLS_client_method());
    assert_non_null(w->client_context);
    SSL_CTX_set_mode(w->client_context, SSL_MODE_AUTO_RETRY);
    if (ca) {
        assert_int_equal(SSL_CTX_load_verify_file(w->client_context, ca), 1);
        SSL_CTX_set_verify(w->client_context, SSL_VERIFY_PEER, NULL);
    }
    begin(w, c, protocol);
}

static void end(struct tls_wire *w)
{
    SSL_set_shutdown(w->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* may be resumed */
    SSL_free(w->client);
    sendq_deinit(&w->q);
    close(w->fds[0]);
    if (w->fds[1] >= 0) {
        close(w->fds[1]);
    }
}

void tls_wire_again(struct tls_wire *w, struct tls_context *c)
{
    end(w);
    begin(w, c, NULL);
}

void tls_wire_close(struct tls_wire *w)
{
    end(w);
    sendq_batch_deinit(&w->batch);
    SSL_CTX_free(w->client_context);
    free(w->got);
    ERR_clear_error();
}

void tls_wire_turn(struct tls_wire *w)
{
    static char room[TLS_ROOM];
    ssize_t n;
    do {
        n = w->failure < 0 || w->has_ended
                ? 0
                : tls_recv(sendq_tls(&w->q), w->fds[0], room, sizeof room, &w->has_ended);
        if (n < 0) {
            w->failure = n;
        } else if (n > 0) {
            assert_true(w->got_len + (size_t)n <= TLS_WIRE_GOT);
            memcpy(w->got + w->got_len, room, (size_t)n);
            w->got_len += (size_t)n;
        }
    } while (n > 0);
    if (w->q.is_waiting) {
        w->last = sendq_flush(&w->q);
    }
    sendq_batch_flush(&w->batch);
}

static bool wants_more(struct tls_wire *w, int rc)
{
    int error = SSL_get_error(w->client, rc);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

bool tls_wire_shake(struct tls_wire *w)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        ERR_clear_error();
        int rc = SSL_do_handshake(w->client);
        tls_wire_turn(w);
        if (rc == 1 && tls_session_is_ready(sendq_tls(&w->q))) {
            return true;
        }
        if ((rc != 1 && !wants_more(w, rc)) || w->failure < 0) {
            return false;
        }
    }
    fail_msg("the handshake does not end");
    return false;
}

void tls_wire_say(struct tls_wire *w, const char *text, size_t len)
{
    size_t before = w->got_len;
    for (size_t at = 0; w->got_len < before + len;) {
        ERR_clear_error();
        int n = at < len ? SSL_write(w->client, text + at, (int)(len - at)) : 0;
        at += n > 0 ? (size_t)n : 0;
        assert_true(n > 0 || at == len || wants_more(w, n));
        tls_wire_turn(w);
        assert_int_equal(w->failure, 0);
    }
    assert_memory_equal(w->got + before, text, len);
}

size_t tls_wire_hear(struct tls_wire *w, char *out, size_t len)
{
    size_t at = 0;
    for (int i = 0; i < TURNS_MAX && at < len; i++) {
        tls_wire_turn(w);
        ERR_clear_error();
        int n = SSL_read(w->client, out + at, (int)(len - at));
        if (n <= 0 && !wants_more(w, n)) {
            return at;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}
