/* SPDX-License-Identifier: MIT
 *
 * The shared state of the parts of `tidings probe`: the findings, and one server in one era.
 *
 *     probe.c         the command: eras, capabilities, findings, progress, and how to make a change
 *     probe_checks.c  the checks: subscriptions, lists, errors, and the stream
 */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include <tidings/client.h>

#include "cli/command.h"

enum verdict {
    VERDICT_PASS,
    VERDICT_FAIL, /* violates a MUST, or sends no notifications (docs/how-to/test-a-server.md) */
    VERDICT_WARN, /* allowed, but inconvenient for clients */
    VERDICT_SKIP, /* could not be checked; the text gives the reason */
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
    bool wants_login; /* the server asked for a login */
};

/* The messages a client received since the last check. */
struct received_messages {
    unsigned updates;      /* for its subscription */
    unsigned foreign;      /* for another resource … */
    char foreign_uri[120]; /* … for example */
    unsigned bare;         /* updates without a subscription id */
    unsigned wrong;        /* … with an unknown subscription id … */
    char wrong_id[64];     /* … for example */
    unsigned early;        /* … that came before the acknowledgement */
    unsigned lists;        /* resources/list_changed */
    unsigned losses;       /* lost connections */
    bool is_watching, is_refused, is_acknowledged;
    int refused_code;     /* TIDINGS_E_*, as the server sent it; 0: not refused */
    enum verdict verdict; /* if the subscription failed */
    char id[64];          /* of the subscription, JSON, as acknowledged; "": none sent */
    char reason[PROBE_TEXT];
    uint64_t last_ms;             /* time of the last update, monotonic */
    uint64_t watched_ms, lost_ms; /* times of acceptance and of the first connection loss */
    uint64_t reopened;            /* earlier streams */
};

#define PROBE_NO_RESOURCES "the server offers no resources"

/* One era of the server. */
struct run {
    struct probe *probe;
    const char *era;
    bool is_modern, has_resources;
    bool declares_subscribe; /* resources.subscribe */
    struct cli cli;          /* with that era */
    char *uri;               /* the subscribed URI; NULL: none; tidings_free */
    struct tidings_client *client;
    const struct tidings_client *toggled; /* whose session changes periodically now */
    struct received_messages received;
    bool is_http;
    char version[16], session[512]; /* of the client */
    uint64_t delay_ms;              /* the longest delay of an update; 0: unknown */
    bool is_notified;               /* at least one update came */
    bool has_cursor;                /* updates have a cursor to resume from */
    uint64_t watched_ms;            /* total time the stream was open */
};

/* A second client: it does not subscribe to resources, but wants list changes. */
struct other {
    struct tidings_client *client;   /* NULL: there is none */
    unsigned updates, lists, losses; /* … of the connection */
    unsigned bare;                   /* list changes without a subscription id */
    char uri[120];                   /* of an update */
    bool is_acknowledged;
};

/* Record a finding and, for people, print it. `id` is an id of the table. */
void probe_found(struct run *r, const char *id, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Show the current step on a terminal, until the next finding. */
void probe_doing(const struct probe *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* … and how long it may still take. */
void probe_waits(uint64_t left_ms);
/* The check needs a change that the probe cannot make: ask the user on a terminal. */
void probe_ask_person(const struct run *r, const char *why);

/* Returns true if the probe can make a change; otherwise it waits for changes. */
bool probe_can_change(const struct run *r);
/* Change the resource, with the tools of `by` if tools are to be used (a session that changes
 * periodically is the session of `by`). */
int probe_change(struct run *r, struct tidings_client *by, struct tidings_error *err);
/* Change the list of resources. 1: changed; 0: impossible. */
int probe_change_list(struct run *r, struct tidings_client *by, struct tidings_error *err);
/* Undo the change of the list. */
void probe_restore_list(struct run *r, struct tidings_client *by);
/* A value that differs if the content of the resource, or the list, differs. 0: unknown.
 */
uint64_t probe_content(struct run *r);
uint64_t probe_list(struct run *r);

/* ---- clients and updates --------------------------------------------------------------------- */

/* Another client in the run's era. NULL with `err`. `receives`: it wants list changes, so it opens
 * a stream itself. */
struct tidings_client *probe_open(const struct run *r, bool receives, struct tidings_error *err);
/* Checks subscriptions and their updates. The modern era forbids updates without a subscription,
 * the legacy era advises against them. */
void probe_updates(struct run *r);

/* ---- lists ----------------------------------------------------------------------------------- */

#define PROBE_LATE_MS 300u
/* ---- errors and streams ---------------------------------------------------------------------- */

void probe_errors(struct run *r);
void probe_streams(struct run *r);

/* One raw request: the status of the answer (0: none), and the start of its body. `lines` ends with
 * NULL. */
struct raw_answer {
    long status;
    int code; /* of a JSON-RPC error in it; 0: none */
};

#endif
