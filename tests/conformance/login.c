/* SPDX-License-Identifier: MIT
 *
 * The credentials of a scenario, and its browser: a process that follows the redirects of the
 * authorization server for a user who consents.
 */
#include "login.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidings/json.h>
#include <tidings/provider.h>

/* ---- a browser ------------------------------------------------------------------------------- */

static int connect_to(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &all) != 0) {
        return -1;
    }
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(all);
    return fd;
}

/* Sends GET and stores the target of the answer in `next`; false: none. */
static bool follow(const char *url, char next[8192])
{
    static char text[65536];
    char host[256], port[8];
    size_t len = 0;
    next[0] = '\0';
    if (sscanf(url, "http://%255[^:/]:%7[0-9]", host, port) != 2) {
        return false;
    }
    const char *path = strchr(url + 7, '/');
    int fd = connect_to(host, port);
    if (fd < 0 || !path) {
        return false;
    }
    dprintf(fd, "GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", path, host, port);
    for (ssize_t n = 1; n > 0 && len<sizeof(text) - 1; len += n> 0 ? (size_t)n : 0) {
        n = read(fd, text + len, sizeof(text) - 1 - len);
    }
    close(fd);
    text[len] = '\0';
    const char *where = strcasestr(text, "\r\nLocation: ");
    return where && sscanf(where + 12, "%8191[^\r\n]", next) == 1;
}

static int open_browser(void *user, const char *url)
{
    char address[8192], next[8192];
    (void)user;
    fprintf(stderr, "browser: %s\n", url);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(address, sizeof(address), "%s", url);
        for (int i = 0; i < 5 && follow(address, next); i++) {
            memcpy(address, next, sizeof(address));
        }
        _exit(0);
    }
    return pid < 0 ? TIDINGS_E_IO : 0;
}

/* ---- credentials ----------------------------------------------------------------------------- */

struct tidings_oauth *login_create(const char *scenario, struct tidings_str context,
                                   struct tidings_error *err)
{
    static const char *const members[] = {"/client_id",     "/client_secret", "/private_key_pem",
                                          "/valid_jwt",     "/idp_id_token",  "/idp_token_endpoint",
                                          "/idp_client_id", "/issuer"};
    char *texts[sizeof(members) / sizeof(members[0])] = {NULL};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && context.len > 0; i++) {
        texts[i] = tidings_json_string(context, members[i]);
    }
    struct tidings_oauth_options o = {
        .client_name = "tidings-conformance",
        .client_id = texts[0],
        .client_secret = texts[1],
        .client_key = texts[2],
        .assertion = texts[3],
        .id_token = texts[4],
        .idp_endpoint = texts[5],
        .idp_client_id = texts[6],
        .issuer = texts[7],
        .client_url = "https://conformance-test.local/client-metadata.json",
        .on_open = open_browser,
        .login_ms = 10000,
    };
    o.grant = strncmp(scenario, "auth/client-credentials", 23) == 0   ? TIDINGS_OAUTH_CLIENT
              : strncmp(scenario, "auth/wif", 8) == 0                 ? TIDINGS_OAUTH_ASSERTION
              : strncmp(scenario, "auth/enterprise-managed", 23) == 0 ? TIDINGS_OAUTH_ENTERPRISE
                                                                      : TIDINGS_OAUTH_CODE;
    struct tidings_oauth *login =
        strncmp(scenario, "auth/", 5) == 0 ? tidings_oauth_create(&o, err) : NULL;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        tidings_free(texts[i]);
    }
    return login;
}
