/* SPDX-License-Identifier: MIT
 *
 * The cost of a bearer token, in this process: CPU time of a cache lookup of a new token (a JWT of
 * each algorithm; a line among 4,096 of a file) and of a cached one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/loop.h"
#include "base/time.h"
#include "common.h"
#include "security/auth.h"
#include "support/jose.h"

enum { TOKENS = 400, LINES = 4096 };

static const char *const algorithms[] = {"RS256", "PS256", "ES256", "ES384", "EdDSA"};

static struct loop *loop;
static struct mailbox *mailbox;
static unsigned long rounds = 9;

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void ask_all(struct token_cache *cache, char *const *tokens)
{
    for (size_t i = 0; i < TOKENS; i++) {
        struct auth_answer answer;
        struct pending_token *pending;
        if (!token_cache_ask(cache, tidings_str(tokens[i]), &answer, &pending, NULL, NULL) ||
            answer.outcome != AUTH_OK) {
            bench_die("a token is not accepted: %s", answer.description);
        }
    }
}

/* Microseconds for one that is seen for the first time, and for one that is seen again. */
static void measure(const char *name, const struct auth_options *options, char *const *tokens)
{
    struct auth *auth = NULL;
    struct tidings_error err = {0, ""};
    struct bench_samples fresh, again;
    if (auth_open(&auth, options, &err) < 0) {
        bench_die("%s", err.text);
    }
    bench_samples_init(&fresh, rounds);
    bench_samples_init(&again, rounds);
    for (unsigned long r = 0; r < rounds; r++) {
        struct token_cache *cache = auth_create_cache(auth, mailbox, NULL, &err);
        int64_t begin = cpu_ns();
        ask_all(cache, tokens);
        int64_t middle = cpu_ns();
        ask_all(cache, tokens);
        bench_samples_add(&again, (double)(cpu_ns() - middle) / 1000 / TOKENS);
        bench_samples_add(&fresh, (double)(middle - begin) / 1000 / TOKENS);
        token_cache_destroy(cache);
    }
    printf(",\"%s\":{\"bytes\":%zu,\"first_us\":%.2f,\"again_us\":%.2f}", name, strlen(tokens[0]),
           bench_samples_at(&fresh, 0.5), bench_samples_at(&again, 0.5));
    bench_samples_deinit(&fresh);
    bench_samples_deinit(&again);
    auth_close(auth);
}

static void write_text(const char *path, const struct buf *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text->ptr, 1, text->len, file) != text->len || fclose(file) != 0) {
        bench_die("cannot write '%s'", path);
    }
}

static void measure_algorithm(const char *algorithm, const char *path)
{
    static const char *const audience = "https://files.example/mcp";
    static char *tokens[TOKENS];
    char header[64], claims[512];
    struct buf text;
    struct jose_key *key = jose_key_create(algorithm);
    buf_init(&text, 1 << 20);
    jose_put_set(&text, key, "\"kid\":\"2026-07\"");
    write_text(path, &text);
    snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"2026-07\",\"typ\":\"at+jwt\"}",
             algorithm);
    for (size_t i = 0; i < TOKENS; i++) {
        snprintf(claims, sizeof(claims),
                 "{\"iss\":\"https://login.example/realms/work\",\"aud\":\"%s\",\"sub\":"
                 "\"5be86359-073c-434b-ad2d-a3932222dabe\",\"client_id\":\"s6BhdRkqt3\",\"exp\":"
                 "%lld,\"iat\":%lld,\"jti\":\"%zu\",\"scope\":\"files:read files:write\"}",
                 audience, (long long)(clock_wall_ms() / 1000 + 3600),
                 (long long)(clock_wall_ms() / 1000), i);
        buf_clear(&text);
        jose_put_token(&text, key, header, claims);
        tokens[i] = strdup(text.ptr);
    }
    const struct auth_issuer issuer = {"https://login.example/realms/work", path};
    measure(algorithm,
            &(struct auth_options){
                .issuers = &issuer, .issuer_count = 1, .audiences = &audience, .audience_count = 1},
            tokens);
    for (size_t i = 0; i < TOKENS; i++) {
        free(tokens[i]);
    }
    buf_deinit(&text);
    jose_key_destroy(key);
}

static void measure_file(const char *path)
{
    static char tokens[LINES][64];
    static char *some[TOKENS];
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < LINES; i++) {
        unsigned char digest[SHA256_BYTES];
        struct sha256 hash;
        snprintf(tokens[i], sizeof(tokens[i]), "tdg_%043zu", i);
        sha256_init(&hash);
        sha256_put(&hash, tokens[i], strlen(tokens[i]));
        sha256_end(&hash, digest);
        buf_putf(&text, "name-%zu ", i);
        for (size_t b = 0; b < SHA256_BYTES; b++) {
            buf_putf(&text, "%02x", digest[b]);
        }
        buf_puts(&text, STR(" files:read\n"));
    }
    for (size_t i = 0; i < TOKENS; i++) {
        some[i] = tokens[i * (LINES / TOKENS)];
    }
    write_text(path, &text);
    measure("file", &(struct auth_options){.tokens = path}, some);
    buf_deinit(&text);
}

int main(int argc, char **argv)
{
    char path[BENCH_PATH_MAX];
    bench_init("tokens", 120);
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "rounds", .help = "turns of each kind", .number = &rounds},
                      {.name = NULL},
                  });
    snprintf(path, sizeof(path), "%.4000s/file", bench_scratch());
    loop = loop_create(NULL);
    mailbox = loop ? mailbox_create(loop, NULL, NULL) : NULL;
    if (!mailbox) {
        bench_die("out of memory");
    }
    printf("{\"bench\":\"tokens\",\"rounds\":%lu", rounds);
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        measure_algorithm(algorithms[i], path);
    }
    measure_file(path);
    printf("}\n");
    mailbox_close(mailbox);
    mailbox_unref(mailbox);
    loop_destroy(loop);
    return 0;
}
