/* SPDX-License-Identifier: MIT
 *
 * TLS sessions with plain OpenSSL as the client: the bytes that arrive, the number of records, the
 * end of a session, and rejected input. */
#include "base/net/tls.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>

#include "base/mem.h"
#include "support/fail_alloc.h"
#include "support/tls_files.h"
#include "support/tls_wire.h"

enum { LARGE = 1000000 };

static struct tls_context *context;

static int make_files(void **state)
{
    (void)state;
    tls_files_begin();
    tls_files_make(&(struct tls_wish){.name = "ca", .is_ca = true});
    tls_files_make(&(struct tls_wish){.name = "a", .ca = "ca", .names = "DNS:a.test"});
    struct tls_pair pair = {tls_files_path("a.pem"), tls_files_path("a.key")};
    struct tls_options o = {.pairs = &pair, .count = 1};
    struct tidings_error err = {0};
    int rc = tls_context_open(&context, &o, &err);
    if (rc < 0) {
        print_message("%s\n", err.text);
    }
    return rc;
}

static int drop_files(void **state)
{
    (void)state;
    tls_context_unref(context);
    tls_files_end();
    return 0;
}

static void open_wire(struct tls_wire *w)
{
    tls_wire_open(w, context, "http/1.1", tls_files_path("ca.pem"));
}

static void shaken(struct tls_wire *w, int version)
{
    open_wire(w);
    SSL_set_min_proto_version(w->client, version);
    SSL_set_max_proto_version(w->client, version);
    assert_true(tls_wire_shake(w));
    assert_int_equal(SSL_version(w->client), version);
}

static char *pattern(size_t len)
{
    char *text = malloc(len);
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)('a' + (i * 7 + i / 251) % 26);
    }
    return text;
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static void bytes_pass_both_ways_in_both_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct tls_wire w;
        char got[5];
        shaken(&w, versions[i]);
        tls_wire_say(&w, "hello", 5);
        assert_int_equal(sendq_put(&w.q, "there", 5), 0);
        assert_int_equal(tls_wire_hear(&w, got, 5), 5);
        assert_memory_equal(got, "there", 5);
        assert_int_equal(w.q.pending, 0);
        assert_null(tls_session_peer(sendq_tls(&w.q)));
        tls_wire_close(&w);
    }
}

/* The number of application records among the bytes that wait at the client's socket. */
static unsigned count_records(int fd)
{
    static unsigned char bytes[1 << 20];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK);
    unsigned count = 0;
    for (ssize_t at = 0; at + 5 <= n; at += 5 + (bytes[at + 3] << 8 | bytes[at + 4])) {
        assert_int_equal(bytes[at], 23);
        count++;
    }
    return count;
}

static void pending_output_becomes_one_record(void **state)
{
    (void)state;
    struct tls_wire w;
    char got[64];
    char *large = mem_alloc(3000);
    shaken(&w, TLS1_2_VERSION);
    memset(large, 'x', 3000);
    sendq_put(&w.q, "one ", 4);
    sendq_put(&w.q, "two ", 4);
    assert_int_equal(sendq_take(&w.q, large, 3000), 0);
    sendq_put(&w.q, "three", 5);
    assert_int_equal(w.q.pending, 3013);
    uint64_t writes = w.batch.writes;
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.batch.writes, writes + 1);
    assert_int_equal(w.q.pending, 0);
    assert_int_equal(count_records(w.fds[1]), 1);
    assert_int_equal(tls_wire_hear(&w, got, 8), 8);
    assert_memory_equal(got, "one two ", 8);
    tls_wire_close(&w);
}

static void large_answer_fills_its_records(void **state)
{
    (void)state;
    struct tls_wire w;
    shaken(&w, TLS1_2_VERSION);
    char *text = mem_alloc(50000);
    memset(text, 'x', 50000);
    assert_int_equal(sendq_take(&w.q, text, 50000), 0);
    sendq_batch_flush(&w.batch);
    assert_int_equal(count_records(w.fds[1]), 4);
    tls_wire_close(&w);
}

static void large_answer_waits_for_a_slow_reader_and_is_not_encrypted_ahead(void **state)
{
    (void)state;
    struct tls_wire w;
    char *text = pattern(LARGE), *got = calloc(1, LARGE), *copy = mem_alloc(LARGE);
    shaken(&w, TLS1_3_VERSION);
    memcpy(copy, text, LARGE);
    assert_int_equal(sendq_take(&w.q, copy, LARGE), 0);
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.last, SENDQ_WAITING);
    assert_true(w.q.pending < LARGE + 2000); /* records are larger than their content */
    assert_int_equal(tls_wire_hear(&w, got, LARGE), LARGE);
    assert_memory_equal(got, text, LARGE);
    assert_int_equal(w.q.pending, 0);
    tls_wire_close(&w);
    free(text);
    free(got);
}

static void session_keeps_no_bytes_that_polling_would_miss(void **state)
{
    (void)state;
    struct tls_wire w;
    static char room[TLS_ROOM];
    char *text = pattern(200000);
    size_t got = 0, sent = 0;
    shaken(&w, TLS1_3_VERSION);
    while (got < 200000) {
        int n = sent < 200000 ? SSL_write(w.client, text + sent, (int)(200000 - sent)) : 0;
        sent += n > 0 ? (size_t)n : 0;
        struct pollfd ready = {.fd = w.fds[0], .events = POLLIN};
        while (poll(&ready, 1, 0) == 1) {
            bool ended = false;
            ssize_t more = tls_recv(sendq_tls(&w.q), w.fds[0], room, sizeof room, &ended);
            assert_true(more >= 0 && !ended);
            assert_memory_equal(room, text + got, (size_t)more);
            got += (size_t)more;
        }
        /* No longer readable: at most the rest of one record is missing. */
        assert_true(got + TLS_RECORD >= sent);
    }
    tls_wire_close(&w);
    free(text);
}

/* Copy bytes from one socket to another, one at a time, with a turn of our side after each. */
static void dribble(struct tls_wire *w, int from, int to)
{
    char c;
    while (read(from, &c, 1) == 1) {
        assert_int_equal(write(to, &c, 1), 1);
        tls_wire_turn(w);
    }
}

static void records_may_arrive_byte_by_byte(void **state)
{
    (void)state;
    struct tls_wire w;
    int relay[2];
    open_wire(&w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, relay), 0);
    SSL_set_fd(w.client, relay[0]); /* client <-> relay[1] <-> w.fds[1] <-> ours */
    for (int i = 0; i < 20 && !tls_session_is_ready(sendq_tls(&w.q)); i++) {
        (void)SSL_do_handshake(w.client);
        dribble(&w, relay[1], w.fds[1]);
        static char answer[16384];
        ssize_t n = read(w.fds[1], answer, sizeof answer);
        assert_true(n <= 0 || write(relay[1], answer, (size_t)n) == n);
    }
    assert_true(tls_session_is_ready(sendq_tls(&w.q)));
    assert_int_equal(SSL_write(w.client, "slowly", 6), 6);
    dribble(&w, relay[1], w.fds[1]);
    assert_int_equal(w.got_len, 6);
    assert_memory_equal(w.got, "slowly", 6);
    tls_wire_close(&w);
    close(relay[0]);
    close(relay[1]);
}

static void close_notify_arrives_with_the_last_bytes(void **state)
{
    (void)state;
    struct tls_wire w;
    shaken(&w, TLS1_3_VERSION);
    assert_int_equal(SSL_write(w.client, "bye", 3), 3);
    assert_int_equal(SSL_shutdown(w.client), 0); /* the socket stays open */
    tls_wire_turn(&w);
    assert_int_equal(w.got_len, 3);
    assert_true(w.has_ended);
    assert_int_equal(w.failure, 0);
    tls_wire_close(&w);
}

static void connection_ends_without_close_notify(void **state)
{
    (void)state;
    struct tls_wire w;
    shaken(&w, TLS1_3_VERSION);
    assert_int_equal(SSL_write(w.client, "bye", 3), 3);
    shutdown(w.fds[1], SHUT_WR);
    tls_wire_turn(&w);
    tls_wire_turn(&w);
    assert_int_equal(w.got_len, 3);
    assert_true(w.has_ended);
    tls_wire_close(&w);
}

static void close_notify_is_sent_only_after_all_output(void **state)
{
    (void)state;
    for (int pending = 0; pending < 2; pending++) {
        struct tls_wire w;
        char got;
        shaken(&w, TLS1_3_VERSION);
        if (pending) {
            sendq_put(&w.q, "lost", 4);
        }
        sendq_deinit(&w.q);
        shutdown(w.fds[0], SHUT_RDWR);
        ERR_clear_error();
        int n = SSL_read(w.client, &got, 1);
        assert_int_equal(SSL_get_error(w.client, n),
                         pending ? SSL_ERROR_SSL : SSL_ERROR_ZERO_RETURN);
        sendq_init(&w.q, &w.batch, w.fds[0], NULL);
        tls_wire_close(&w);
    }
}

static void write_side_ends_with_close_notify(void **state)
{
    (void)state;
    struct tls_wire w;
    char got[8];
    shaken(&w, TLS1_3_VERSION);
    sendq_put(&w.q, "last", 4);
    sendq_batch_flush(&w.batch);
    sendq_end(&w.q);
    assert_int_equal(SSL_read(w.client, got, sizeof got), 4);
    int n = SSL_read(w.client, got, sizeof got);
    assert_int_equal(SSL_get_error(w.client, n), SSL_ERROR_ZERO_RETURN);
    tls_wire_say(&w, "still", 5); /* the other half is open */
    tls_wire_close(&w);
}

static void plain_http_is_distinguished_from_tls(void **state)
{
    (void)state;
    struct tls_wire w;
    open_wire(&w);
    assert_int_equal(write(w.fds[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    tls_wire_turn(&w);
    assert_int_equal(w.failure, -EPROTOTYPE);
    tls_session_destroy(sendq_detach_tls(&w.q));
    sendq_put(&w.q, "plain", 5);
    sendq_batch_flush(&w.batch);
    char got[8];
    assert_int_equal(read(w.fds[1], got, sizeof got), 5);
    tls_wire_close(&w);
}

static void garbage_is_rejected_with_an_alert(void **state)
{
    (void)state;
    struct tls_wire w;
    unsigned char got[64];
    open_wire(&w);
    assert_int_equal(write(w.fds[1], "\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9), 9);
    tls_wire_turn(&w);
    assert_int_equal(w.failure, -EPROTO);
    assert_string_not_equal(tls_session_reason(sendq_tls(&w.q)), "");
    assert_int_equal(read(w.fds[1], got, sizeof got), 7);
    assert_int_equal(got[0], 21); /* alert, fatal */
    assert_int_equal(got[5], 2);
    assert_int_equal(sendq_put(&w.q, "x", 1), 0);
    sendq_batch_flush(&w.batch);
    assert_int_equal(w.last, SENDQ_BROKEN);
    tls_wire_close(&w);
}

static void handshake_size_is_limited(void **state)
{
    (void)state;
    struct tls_wire w;
    unsigned char record[5 + 16384] = {22, 3,    1,   0x40, 0, /* client hello of 80,000 bytes */ 1,
                                       1,  0x38, 0x80};
    open_wire(&w);
    for (int i = 0; i < 8 && w.failure == 0; i++) {
        (void)!write(w.fds[1], record, sizeof record);
        memset(record + 5, 0, 4);
        tls_wire_turn(&w);
    }
    assert_int_equal(w.failure, -EPROTO);
    tls_wire_close(&w);
}

static void old_versions_are_rejected(void **state)
{
    (void)state;
    struct tls_wire w;
    open_wire(&w);
    SSL_set_security_level(w.client, 0);
    SSL_set_min_proto_version(w.client, TLS1_VERSION);
    SSL_set_max_proto_version(w.client, TLS1_1_VERSION);
    assert_false(tls_wire_shake(&w));
    assert_int_equal(w.failure, -EPROTO);
    tls_wire_close(&w);
}

static void renegotiation_is_rejected_and_the_session_continues(void **state)
{
    (void)state;
    struct tls_wire w;
    char got[4];
    shaken(&w, TLS1_2_VERSION);
    assert_int_equal(SSL_renegotiate(w.client), 1);
    for (int i = 0; i < 10; i++) {
        (void)SSL_do_handshake(w.client);
        tls_wire_turn(&w);
    }
    assert_true(SSL_renegotiate_pending(w.client) || SSL_get_error(w.client, -1) != 0);
    /* The client may give up; the server must not have renegotiated or failed. */
    assert_true(w.failure == 0 || w.failure == -EPROTO);
    assert_int_equal(w.got_len, 0);
    sendq_put(&w.q, "x", 1);
    tls_wire_turn(&w);
    (void)tls_wire_hear(&w, got, 1);
    tls_wire_close(&w);
}

static void client_may_renew_keys(void **state)
{
    (void)state;
    struct tls_wire w;
    char got[6];
    shaken(&w, TLS1_3_VERSION);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(w.client, SSL_KEY_UPDATE_REQUESTED), 1);
        tls_wire_say(&w, "hello", 5);
        sendq_put(&w.q, "answer", 6);
        assert_int_equal(tls_wire_hear(&w, got, 6), 6);
        assert_memory_equal(got, "answer", 6);
    }
    tls_wire_close(&w);
}

static void application_protocol_is_negotiated(void **state)
{
    (void)state;
    static const struct {
        const char *offered;
        unsigned len;
        bool works;
    } rows[] = {
        {"\x02h2\x08http/1.1", 12, true},
        {"\x02h2", 3, false},
        {"\x08http/1.0", 9, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tls_wire w;
        const unsigned char *chosen;
        unsigned len;
        open_wire(&w);
        SSL_set_alpn_protos(w.client, (const unsigned char *)rows[i].offered, rows[i].len);
        assert_int_equal(tls_wire_shake(&w), rows[i].works);
        SSL_get0_alpn_selected(w.client, &chosen, &len);
        assert_int_equal(len, rows[i].works ? 8 : 0);
        tls_wire_close(&w);
    }
}

static void session_continues_with_another_queue(void **state)
{
    (void)state;
    struct tls_wire w;
    struct sendq_batch other;
    char got[5];
    shaken(&w, TLS1_3_VERSION);
    tls_wire_say(&w, "hello", 5);
    struct tls_session *session = sendq_detach_tls(&w.q);
    sendq_deinit(&w.q);
    sendq_batch_init(&other);
    sendq_init(&w.q, &other, w.fds[0], NULL);
    assert_int_equal(sendq_use_tls(&w.q, session), 0);
    tls_wire_say(&w, "again", 5);
    sendq_put(&w.q, "there", 5);
    sendq_batch_flush(&other);
    assert_int_equal(tls_wire_hear(&w, got, 5), 5);
    tls_wire_close(&w);
    sendq_batch_deinit(&other);
}

static void sessions_are_written_to_in_one_call(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    struct tls_wire w[COUNT];
    struct sendq_batch batch;
    sendq_batch_init(&batch);
    if (sendq_batch_use_uring(&batch, NULL) < 0) {
        skip();
    }
    for (int i = 0; i < COUNT; i++) {
        shaken(&w[i], TLS1_3_VERSION);
        struct tls_session *session = sendq_detach_tls(&w[i].q);
        sendq_deinit(&w[i].q);
        sendq_init(&w[i].q, &batch, w[i].fds[0], NULL);
        assert_int_equal(sendq_use_tls(&w[i].q, session), 0);
        assert_int_equal(sendq_put(&w[i].q, "to each", 7), 0);
    }
    sendq_batch_flush(&batch);
    assert_int_equal(batch.writes, 1);
    assert_int_equal(batch.uring_batches, 1);
    for (int i = 0; i < COUNT; i++) {
        char got[7];
        assert_int_equal(w[i].q.pending, 0);
        assert_int_equal(tls_wire_hear(&w[i], got, 7), 7);
        assert_memory_equal(got, "to each", 7);
        tls_wire_close(&w[i]);
    }
    sendq_batch_deinit(&batch);
}

/* A complete session with the n-th of our allocations failing. */
static void failed_allocation_ends_only_its_session(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct tls_wire w;
        open_wire(&w);
        long before = fail_alloc_live();
        fail_alloc_start(n);
        bool works = tls_wire_shake(&w);
        if (works && sendq_put(&w.q, "hello", 5) == 0) {
            sendq_batch_flush(&w.batch);
            works = w.last == SENDQ_EMPTY;
        }
        reached = fail_alloc_stop();
        assert_true(works || reached);
        tls_wire_close(&w);
        assert_true(fail_alloc_live() <= before);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL makes the client's writes */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_both_ways_in_both_versions),
        cmocka_unit_test(pending_output_becomes_one_record),
        cmocka_unit_test(large_answer_fills_its_records),
        cmocka_unit_test(large_answer_waits_for_a_slow_reader_and_is_not_encrypted_ahead),
        cmocka_unit_test(session_keeps_no_bytes_that_polling_would_miss),
        cmocka_unit_test(records_may_arrive_byte_by_byte),
        cmocka_unit_test(close_notify_arrives_with_the_last_bytes),
        cmocka_unit_test(connection_ends_without_close_notify),
        cmocka_unit_test(close_notify_is_sent_only_after_all_output),
        cmocka_unit_test(write_side_ends_with_close_notify),
        cmocka_unit_test(plain_http_is_distinguished_from_tls),
        cmocka_unit_test(garbage_is_rejected_with_an_alert),
        cmocka_unit_test(handshake_size_is_limited),
        cmocka_unit_test(old_versions_are_rejected),
        cmocka_unit_test(renegotiation_is_rejected_and_the_session_continues),
        cmocka_unit_test(client_may_renew_keys),
        cmocka_unit_test(application_protocol_is_negotiated),
        cmocka_unit_test(session_continues_with_another_queue),
        cmocka_unit_test(sessions_are_written_to_in_one_call),
        cmocka_unit_test(failed_allocation_ends_only_its_session),
    };
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
