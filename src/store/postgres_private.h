/* SPDX-License-Identifier: MIT
 *
 * What the parts of a connection to PostgreSQL share: connecting (store/postgres_connect.c) and
 * statements (store/postgres.c).
 */
#ifndef STORE_POSTGRES_PRIVATE_H
#define STORE_POSTGRES_PRIVATE_H

#include <libpq-fe.h>

#include "store/postgres.h"

#define POSTGRES_FUNCTIONS(X)                                                                      \
    X(connectStartParams)                                                                          \
    X(connectPoll)                                                                                 \
    X(conninfoParse)                                                                               \
    X(conninfoFree)                                                                                \
    X(freemem)                                                                                     \
    X(finish)                                                                                      \
    X(status)                                                                                      \
    X(socket)                                                                                      \
    X(errorMessage)                                                                                \
    X(parameterStatus)                                                                             \
    X(setnonblocking)                                                                              \
    X(enterPipelineMode)                                                                           \
    X(pipelineSync)                                                                                \
    X(sendPrepare)                                                                                 \
    X(sendQueryPrepared)                                                                           \
    X(sendQueryParams)                                                                             \
    X(setSingleRowMode)                                                                            \
    X(flush)                                                                                       \
    X(consumeInput)                                                                                \
    X(isBusy)                                                                                      \
    X(getResult)                                                                                   \
    X(notifies)                                                                                    \
    X(backendPID)                                                                                  \
    X(resultStatus)                                                                                \
    X(resultErrorField)                                                                            \
    X(cmdStatus)                                                                                   \
    X(clear)                                                                                       \
    X(ntuples)                                                                                     \
    X(getvalue)                                                                                    \
    X(getlength)                                                                                   \
    X(setNoticeReceiver)

struct postgres_library {
#define FIELD(name) __typeof__(&PQ##name) name;
    POSTGRES_FUNCTIONS(FIELD)
#undef FIELD
};

enum postgres_phase {
    POSTGRES_DISCONNECTED,
    POSTGRES_CONNECTING,
    POSTGRES_CONNECTED,
};

struct postgres {
    PGconn *conn;             /* NULL: not connected */
    char *url, *redacted_url; /* the second without secrets */
    char *name;               /* for messages */
    const char *const *statements;
    enum postgres_phase phase;
    uint64_t attempt_until_ms, retry_at_ms; /* monotonic */
    struct tidings_error why;               /* it cannot be reached */
    bool is_concealed;
    struct tidings_error told, detail; /* the newest failure that was concealed: as clients see it,
                                        * and all of it */
    bool waits_to_write;               /* while connecting */
    bool is_fresh;                     /* connected, and nobody was told yet */
    bool is_lost;                      /* no more can be read */
    bool has_unsent;                   /* statements since the last end */
    uint64_t ended, waited;            /* ends that were sent, and waited for */
    struct {
        uint64_t since; /* it was sent with the end of that number; 0: it is not prepared */
        unsigned name;  /* another one after a failure: it may be there or not */
    } prepared[POSTGRES_MAX_STATEMENTS];
    char state[6], tag[32];
};

/* The functions of libpq, which postgres_create loads: for who has a connection. */
const struct postgres_library *postgres_loaded_library(void);
/* Wait until the connection can be read (or written, if asked for). 0: time is up. */
int postgres_wait(struct postgres *c, bool for_writing, uint64_t until_ms, bool *ret_readable);
/* What the server said, in our codes and with what to do; the connection is let go of when it is of
 * no use any more. `r` NULL: the connection itself failed. */
int postgres_failed(struct postgres *c, const PGresult *r, struct tidings_error *err);

#endif
