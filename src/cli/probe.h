/* SPDX-License-Identifier: MIT
 *
 * What the parts of `tidings probe` share: the findings, and one server in one era.
 *
 *     probe.c           the command; which eras are spoken, what is advertised
 *     probe_report.c    findings: the table of checks, how they are printed
 *     probe_progress.c  what it is doing, on a terminal
 *     probe_change.c    how a change is brought about
 *     probe_checks.c   subscribed, told, not told too much, not told any more
 *     probe_checks.c    a second client, and lists that change
 *     probe_checks.c    what is answered to what is wrong
 *     probe_checks.c    silence, interruption, the end of a session
 */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include <tidings/client.h>

#include "cli/command.h"

enum verdict {
    VERDICT_PASS,
    VERDICT_FAIL, /* violates a MUST, or does not notify (docs/how-to/test-a-server.md) */
    VERDICT_WARN, /* allowed, but clients will feel it */
    VERDICT_SKIP, /* could not be found out, and why */
};

#define PROBE_MAX_FINDINGS 64u
#define PROBE_MAX_ERAS 2u
#define PROBE_TEXT 200u

struct finding {
    const struct check *check;
    const char *era; /* "modern", "legacy" */
    enum verdict verdict;
    char came[PROBE_TEXT];
};

struct negotiated {
    const char *era;
    char version[16], transport[16];
    char name[64], server_version[32];
    char *capabilities; /* JSON; tidings_free */
};

struct probe {
    struct cli cli;
    const char *change, *call, *change_list;
    bool touches;
    uint64_t wait_ms, idle_ms;

    struct finding findings[PROBE_MAX_FINDINGS];
    size_t count;
    struct negotiated spoken[PROBE_MAX_ERAS];
    size_t spoken_count;
    unsigned changes; /* made so far */
    bool wants_login; /* the server, when it refused */
};

/* What a client has heard since it was last looked at. */
struct received_messages {
    unsigned updates;      /* of what it subscribed to */
    unsigned foreign;      /* of something else … */
    char foreign_uri[120]; /* … such as */
    unsigned bare;         /* updates that do not say which subscription they belong to */
    unsigned wrong;        /* … that name one which is not ours … */
    char wrong_id[64];     /* … such as */
    unsigned early;        /* … that came before the acknowledgement */
    unsigned lists;        /* that the list of resources changed */
    unsigned losses;       /* of the connection */
    bool is_watching, is_refused, is_acknowledged;
    int refused_code;     /* TIDINGS_E_*, as the server said; 0: it did not */
    enum verdict verdict; /* when it could not be subscribed to */
    char id[64];          /* of the subscription, JSON, as acknowledged; "": it was not said */
    char reason[PROBE_TEXT];
    uint64_t last_ms;             /* when the last update came, monotonic */
    uint64_t watched_ms, lost_ms; /* when it was accepted; when the connection was lost first */
    uint64_t reopened;            /* streams before */
};

#define PROBE_NO_RESOURCES "the server offers no resources"

/* One era of the server. */
struct run {
    struct probe *probe;
    const char *era;
    bool is_modern, has_resources;
    bool declares_subscribe; /* resources.subscribe */
    struct cli cli;          /* with that era */
    char *uri;               /* what is subscribed to; NULL: there is nothing; tidings_free */
    struct tidings_client *client;
    const struct tidings_client *toggled; /* whose session changes by itself now */
    struct received_messages received;
    bool is_http;
    char version[16], session[512]; /* of the client */
    uint64_t delay_ms;              /* the longest that an update took to come; 0: not known */
    bool is_notified;               /* at least one update came */
    bool has_cursor;                /* updates say how to come back */
    uint64_t watched_ms;            /* how long the stream was listened to, all in all */
};

/* A second client: it does not subscribe, and wants to hear of lists. */
struct other {
    struct tidings_client *client;   /* NULL: there is none */
    unsigned updates, lists, losses; /* … of the connection */
    unsigned bare;                   /* lists that do not say whom they are for */
    char uri[120];                   /* of an update */
    bool is_acknowledged;
};

/* Record and, for people, print it. `id` is one of the table's. */
void probe_found(struct run *r, const char *id, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Show on a terminal what is done now, until the next finding. */
void probe_doing(const struct probe *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* … and how long that may still take. */
void probe_waits(uint64_t left_ms);
/* It needs a change, and nothing is there to make one: say so on a terminal. */
void probe_ask_person(const struct run *r, const char *why);

/* Is there a way to change something? Else changes are waited for. */
bool probe_can_change(const struct run *r);
/* Change the resource, `by` means of its tools where they are to do it (a session that is made to
 * change by itself is that of `by`). */
int probe_change(struct run *r, struct tidings_client *by, struct tidings_error *err);
/* Change the list of resources: 1; 0: there is no way to. */
int probe_change_list(struct run *r, struct tidings_client *by, struct tidings_error *err);
/* Take back what that left behind. */
void probe_restore_list(struct run *r, struct tidings_client *by);
/* Something that differs when the content of the resource does, or the list. 0: it cannot be known.
 */
uint64_t probe_content(struct run *r);
uint64_t probe_list(struct run *r);

/* ---- probe_checks.c ------------------------------------------------------------------------- */

/* Another client in the run's era. NULL with `err`. `receives`: it wants to be told when lists
 * change, and so opens a stream by itself. */
struct tidings_client *probe_open(const struct run *r, bool receives, struct tidings_error *err);
/* Of an update that nobody asked for: the modern era forbids it, the legacy era advises against it.
 */
void probe_updates(struct run *r);

/* ---- probe_checks.c -------------------------------------------------------------------------- */

#define PROBE_LATE_MS 300u
/* ---- probe_checks.c, probe_checks.c ---------------------------------------------------------- */

void probe_errors(struct run *r);
void probe_streams(struct run *r);

/* One raw request: its status (0: none), and the beginning of what came. `lines` ends with NULL. */
struct raw_answer {
    long status;
    int code; /* of a JSON-RPC error in it; 0: none */
};

#endif
