/* SPDX-License-Identifier: MIT
 *
 * Starts and stops a private PostgreSQL for the test. Its output goes into a file; a thread waits
 * for the line that reports readiness.
 */
#include "support/postgres.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/postgres.h"
#include "support/remove_tree.h"

#define PROGRAMS "/usr/lib/postgresql/15/bin/"

struct postgres_server {
    char directory[64];
    int port;
    uid_t uid;
    gid_t gid;
    pid_t pid; /* 0: it does not run */
    pthread_t reader;
    int said; /* its output */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_ready, is_over;
    unsigned schemas;
};

static void must_hold(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "PostgreSQL of the test: %s\n", what);
        abort();
    }
}

/* ---- processes ------------------------------------------------------------------------------- */

/* In the child: who it is from now on, and that it ends with us. */
static void become(const struct postgres_server *p)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(p->gid) < 0 || setuid(p->uid) < 0)) {
        _exit(126);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGQUIT);
    (void)chdir("/");
    signal(SIGPIPE, SIG_DFL);
}

static void run_initdb(const struct postgres_server *p)
{
    char data[80];
    int status = 0;
    (void)snprintf(data, sizeof data, "%s/data", p->directory);
    pid_t pid = fork();
    if (pid == 0) {
        become(p);
        (void)freopen("/dev/null", "w", stdout);
        execl(PROGRAMS "initdb", "initdb", "-D", data, "-U", "tidings", "-A", "trust", "-N", "-E",
              "UTF8", "--locale=C", "--no-instructions", (char *)NULL);
        _exit(127);
    }
    must_hold(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 0,
              "initdb failed");
}

static void write_settings(const struct postgres_server *p)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/data/pg_hba.conf", p->directory);
    FILE *f = fopen(path, "w");
    must_hold(f != NULL, "pg_hba.conf");
    (void)fputs("host all guarded 127.0.0.1/32 scram-sha-256\nlocal all all trust\n"
                "host all all 127.0.0.1/32 trust\nlocal replication all trust\n"
                "host replication all 127.0.0.1/32 trust\n",
                f);
    (void)fclose(f);
    (void)snprintf(path, sizeof path, "%s/data/postgresql.conf", p->directory);
    f = fopen(path, "a");
    must_hold(f != NULL, "postgresql.conf");
    (void)fprintf(f,
                  "listen_addresses='127.0.0.1'\nport=%d\nunix_socket_directories='%s'\n"
                  "shared_buffers='16MB'\nmax_connections=60\nlog_min_messages=fatal\n"
                  "restart_after_crash=on\n",
                  p->port, p->directory);
    (void)fclose(f);
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must_hold(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 &&
                  getsockname(fd, (struct sockaddr *)&at, &len) == 0,
              "no free port");
    close(fd);
    return ntohs(at.sin_port);
}

static void *read_lines(void *user)
{
    struct postgres_server *p = user;
    char path[96], line[1024];
    (void)snprintf(path, sizeof path, "%s/log", p->directory);
    FILE *in = fdopen(p->said, "r"), *out = fopen(path, "a");
    while (in && fgets(line, sizeof line, in)) {
        if (out) {
            (void)fputs(line, out);
            (void)fflush(out);
        }
        pthread_mutex_lock(&p->lock);
        p->is_ready = p->is_ready || strstr(line, "ready to accept connections");
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    if (in) {
        (void)fclose(in);
    }
    if (out) {
        (void)fclose(out);
    }
    pthread_mutex_lock(&p->lock);
    p->is_over = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* false: it ended at once (what was killed may be in its way yet). */
static bool try_up(struct postgres_server *p)
{
    char data[80];
    int said[2];
    (void)snprintf(data, sizeof data, "%s/data", p->directory);
    must_hold(pipe(said) == 0, "pipe");
    p->is_ready = p->is_over = false;
    p->pid = fork();
    if (p->pid == 0) {
        dup2(said[1], 2);
        dup2(said[1], 1);
        close(said[0]);
        close(said[1]);
        become(p);
        execl(PROGRAMS "postgres", "postgres", "-D", data, "-c", "log_min_messages=log",
              (char *)NULL);
        _exit(127);
    }
    close(said[1]);
    p->said = said[0];
    must_hold(p->pid > 0 && pthread_create(&p->reader, NULL, read_lines, p) == 0, "fork");
    pthread_mutex_lock(&p->lock);
    while (!p->is_ready && !p->is_over) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    bool is_ready = p->is_ready;
    pthread_mutex_unlock(&p->lock);
    return is_ready;
}

static void wait_down(struct postgres_server *p)
{
    int status;
    (void)waitpid(p->pid, &status, 0);
    (void)pthread_join(p->reader, NULL);
    p->pid = 0;
}

void postgres_server_up(struct postgres_server *p)
{
    for (int i = 0; i < 500; i++) {
        if (try_up(p)) {
            return;
        }
        wait_down(p);
        usleep(20000); /* children of a killed server exit at an unknown time */
    }
    must_hold(false, "it does not start; see its log");
}

void postgres_server_down(struct postgres_server *p)
{
    (void)kill(p->pid, SIGINT); /* fast: connections are ended */
    wait_down(p);
}

void postgres_server_kill(struct postgres_server *p)
{
    (void)kill(p->pid, SIGKILL);
    wait_down(p);
}

/* ---- the server ------------------------------------------------------------------------------ */

static struct postgres_server *running; /* for what ends the program */

static void stop_running(void)
{
    postgres_server_stop(running);
}

struct postgres_server *postgres_server_start(void)
{
    if (access(PROGRAMS "postgres", X_OK) < 0) {
        (void)fprintf(stderr, "skipped: PostgreSQL 15 is not installed (Debian: postgresql-15)\n");
        return NULL;
    }
    struct postgres_server *p = calloc(1, sizeof(*p));
    must_hold(p != NULL, "memory");
    const struct passwd *user = getpwnam("postgres");
    user = user ? user : getpwnam("nobody");
    p->uid = geteuid() == 0 && user ? user->pw_uid : geteuid();
    p->gid = geteuid() == 0 && user ? user->pw_gid : getegid();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    (void)snprintf(p->directory, sizeof p->directory, "/tmp/tidings-pg-XXXXXX");
    must_hold(mkdtemp(p->directory) != NULL && chmod(p->directory, 0755) == 0 &&
                  (geteuid() != 0 || chown(p->directory, p->uid, p->gid) == 0),
              "no directory");
    p->port = free_port();
    run_initdb(p);
    write_settings(p);
    postgres_server_up(p);
    postgres_server_exec(p, "",
                         "CREATE DATABASE tidings;CREATE ROLE guarded LOGIN PASSWORD "
                         "'secret';CREATE ROLE reader LOGIN");
    running = p;
    (void)atexit(stop_running);
    return p;
}

void postgres_server_stop(struct postgres_server *p)
{
    if (!p) {
        return;
    }
    running = NULL;
    if (p->pid > 0) {
        (void)kill(p->pid, SIGQUIT); /* at once: its data is not needed */
        wait_down(p);
    }
    (void)remove_tree(p->directory);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int postgres_server_port(const struct postgres_server *p)
{
    return p->port;
}

const char *postgres_server_directory(const struct postgres_server *p)
{
    return p->directory;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* `schema` empty: the default database. */
static struct postgres *postgres_server_connect(struct postgres_server *p, const char *schema,
                                                const char *const *statements)
{
    char url[POSTGRES_URL];
    struct postgres *c = NULL;
    struct tidings_error err = {0};
    (void)snprintf(url, sizeof url, "postgres://tidings@/%s?host=%s&port=%d%s%s",
                   schema[0] ? "tidings" : "postgres", p->directory, p->port,
                   schema[0] ? "&options=-csearch_path%3D" : "", schema);
    if (postgres_create(url, statements, &c, &err) < 0 || postgres_ready(c, 5000, &err) < 0) {
        must_hold(false, err.text);
    }
    return c;
}

/* One at a time: some may not be in a transaction. */
void postgres_server_exec(struct postgres_server *p, const char *schema, const char *sql)
{
    struct tidings_error err = {0};
    struct postgres *c = postgres_server_connect(p, schema, NULL);
    while (*sql) {
        char one[2048];
        size_t len = strcspn(sql, ";");
        (void)snprintf(one, sizeof one, "%.*s", (int)len, sql);
        if (postgres_exec(c, one, &err) < 0) {
            must_hold(false, err.text);
        }
        sql += len + (sql[len] == ';');
    }
    postgres_destroy(c);
}

long long postgres_server_number(struct postgres_server *p, const char *schema, const char *sql)
{
    struct tidings_error err = {0};
    struct pg_result *r = NULL;
    struct postgres *c = postgres_server_connect(p, schema, &sql);
    if (postgres_ask(c, 0, NULL, &r, &err) < 0) {
        must_hold(false, err.text);
    }
    long long n = postgres_rows(r) > 0 ? (long long)postgres_int(r, 0, 0) : 0;
    postgres_free(r);
    postgres_destroy(c);
    return n;
}

int postgres_server_run(int (*run)(struct postgres_server *p))
{
    struct postgres_server *p = postgres_server_start();
    if (!p) {
        return 77;
    }
    postgres_server_exec(p, "", "ALTER SYSTEM SET fsync=off;SELECT pg_reload_conf()");
    int failed = run(p);
    postgres_server_stop(p);
    return failed;
}

const char *postgres_server_url(struct postgres_server *p, const char *schema,
                                char out[POSTGRES_URL])
{
    char sql[96];
    (void)snprintf(sql, sizeof sql, "CREATE SCHEMA IF NOT EXISTS %s", schema);
    postgres_server_exec(p, "public", sql);
    (void)snprintf(out, POSTGRES_URL,
                   "postgres://tidings@/tidings?host=%s&port=%d&options=-csearch_path%%3D%s",
                   p->directory, p->port, schema);
    return out;
}

const char *postgres_server_fresh(struct postgres_server *p, char out[POSTGRES_URL])
{
    char schema[32];
    (void)snprintf(schema, sizeof schema, "s%u", ++p->schemas);
    return postgres_server_url(p, schema, out);
}

const char *postgres_url_schema(const char *url)
{
    static char schema[32];
    (void)sscanf(strstr(url, "search_path%3D") + 14, "%31s", schema);
    return schema;
}
