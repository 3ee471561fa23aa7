/* SPDX-License-Identifier: MIT
 *
 * A program on the client library, and the events of a server, at random: changes, subscriptions
 * that come and go, faults, time. A server of either era is put between the two; whatever it does,
 *
 *   - in the end the program knows the state of everything it watches: from an update or a gap;
 *   - no handler receives a version twice, or an older one after a newer one;
 *   - a handler receives only its own URI, and nothing after its end;
 *   - each of its requests gets one answer;
 *   - when all have ended nothing is left, in the tables, at the server and in memory.
 *
 * The program reads what it watches when it is accepted first, and when it receives a
 * change without a version, or a gap; otherwise it knows only the updates.
 *
 * TIDINGS_SEED=N plays one seed, TIDINGS_LONG=1 ten times as many, TIDINGS_SLOW (a sanitizer) a
 * sixth. Time and chance are the model's own, so a seed plays the same game each time.
 */
#ifndef SUPPORT_CLIENT_MODEL_H
#define SUPPORT_CLIENT_MODEL_H

#include "base/time.h"
#include "client/client_internal.h"
#include "client/subscriptions.h"

#define MODEL_URIS 5                 /* x:/0 … x:/4 */
#define MODEL_ROOT MODEL_URIS        /* x:/, the container of them all */
#define MODEL_SLOTS (MODEL_URIS + 1) /* subscribable resources */
#define MODEL_HANDLERS 256

struct model;

struct model_version {
    int epoch, number;
};

struct model_handler {
    struct model *model;
    struct tidings_subscription *sub; /* NULL: it has ended */
    int slot;
    bool is_accepted;
    struct model_version known[MODEL_URIS]; /* how it is, as far as the program knows */
    struct model_version told[MODEL_URIS];  /* by the last update */
};

struct model_ops {
    /* A client of the server, which knows nothing yet. */
    struct tidings_client *(*start)(struct model *m, const struct tidings_client_options *o);
    void (*changed)(struct model *m, int uri); /* it has something to tell */
    void (*fault)(struct model *m);            /* it acts on its own */
    void (*flush)(struct model *m);            /* it tells what it holds back */
    void (*allow)(struct model *m);            /* before a step: messages may travel */
    /* Nothing is on its way, and the client has asked for all it wants. */
    bool (*is_at_rest)(const struct model *m);
    /* Returns true if the server notifies that client. */
    bool (*tells)(const struct model *m, int slot);
    void (*left)(struct model *m); /* the client is gone: is anything left of it? */
};

struct model {
    const struct model_ops *ops;
    const char *name;
    struct tidings_client *client;
    struct clock_fake clock;
    unsigned seed;
    uint64_t dice;
    bool has_cursor;
    bool has_version; /* … and names the subscription */
    bool is_calm;     /* no more faults */
    /* the pending updates of the server */
    int epoch, seq;
    int values[MODEL_URIS]; /* the number of the last change, 0: none in this epoch */
    /* the program */
    struct model_handler handlers[MODEL_HANDLERS];
    size_t count;
    unsigned asked, answered; /* its own requests */
    unsigned updates, losses, found;
};

/* All seeds: `m` has ops, a name and what the server can do. */
void model_play_all(const struct model *m);

/* 0 … sides - 1 */
unsigned model_roll(struct model *m, unsigned sides);
void model_change(struct model *m, int uri);
/* The server restarts: its history is lost. */
void model_begin_epoch(struct model *m);
/* "x:/3" -> 3 */
int model_slot(struct tidings_str uri);
bool model_covers(int slot, int uri);

/* ---- what servers say ------------------------------------------------------------------------ */

/* A message about `uri` (MODEL_ROOT: all of them), due to what is subscribed to. `id`: of the
 * listen, 0: none. */
void model_put_update(const struct model *m, char out[512], int slot, int uri, int64_t id,
                      int cursor);
/* … some changes of `slot` are forgotten. */
void model_put_truncated(const struct model *m, char out[512], int slot, int64_t id, int cursor);
/* The members of _meta that say where the stream is, each followed by a comma. */
void model_put_meta(const struct model *m, char out[128], int64_t id, int cursor);
/* The result of reading or listing; false: it is asked for something else. */
bool model_put_answer(const struct model *m, char out[512], const char *method,
                      struct json *params);
/* The resume position in these options: -1 if there is none, -2 if it is forgotten. */
int model_since(const struct model *m, struct json *options);

#endif
