/* SPDX-License-Identifier: MIT
 *
 * The state of a flow, and its steps.
 */
#ifndef OAUTH_FLOW_PRIVATE_H
#define OAUTH_FLOW_PRIVATE_H

#include "oauth/alarm.h"
#include "oauth/assertion.h"
#include "oauth/callback.h"
#include "oauth/flow.h"
#include "oauth/metadata.h"
#include "oauth/scope.h"
#include "oauth/url.h"

/* What came back to a request. */
struct flow_answer {
    long status;
    struct tidings_str body;
    const char *challenge, *nonce;
};
typedef void (*flow_answer_fn)(struct flow *f, const struct flow_answer *answer);

struct flow {
    struct flow_host host;
    enum flow_kind kind;
    flow_done_fn done;
    void *user;
    char *server;
    bool is_over; /* told; freed when the stack is back */
    struct loop_discard discard;

    /* the request under way */
    struct fetch_transfer *transfer; /* NULL: none */
    struct buf body;
    flow_answer_fn on_answer;

    /* what is known */
    char *metadata_url;  /* that the server named; NULL: none */
    struct buf wanted;   /* scopes that the server named */
    bool wants_proof;    /* of a key (DPoP) */
    unsigned place;      /* which of the addresses of a document is tried */
    struct token before; /* `resource` NULL: none */
    struct resource_metadata resource;
    struct server_metadata issuer;
    struct buf scope; /* to be asked for */
    char *client_id, *client_secret;
    unsigned client_auth;    /* enum client_auth */
    struct private_key *key; /* tokens are bound to it; NULL: they are not */
    char nonce[256];
    bool is_nonce_tried;

    /* a person */
    struct alarm deadline, next; /* the whole; the next question of a device */
    struct callback *callback;
    char state[RANDOM_TEXT_MAX], verifier[RANDOM_TEXT_MAX];
    char *redirect_uri, *code;
    char *device_code;
    uint64_t interval_ms;
    bool is_exchanging; /* what is asked uses up a code or a refresh token */
    char *assertion;    /* that an identity provider gave */
};

struct flow_request {
    const char *method, *url;
    struct tidings_str body;
    const char *content_type;          /* NULL: no body */
    const char *authorization, *proof; /* whole lines; NULL: none */
};

/* May the server have us go there? Else the flow is over. */
bool flow_may_ask(struct flow *f, const char *url);
/* Send it; the answer, or the failure of the flow, follows. */
void flow_ask(struct flow *f, const struct flow_request *r, flow_answer_fn fn);
/* It is over. */
void flow_fail(struct flow *f, const struct tidings_error *why);
void flow_failf(struct flow *f, int code, const char *format, ...) TIDINGS_PRINTF(3, 4);
void flow_succeed(struct flow *f, struct token *token);

/* ---- the steps ------------------------------------------------------------------------------- */

void flow_discover(struct flow *f);      /* flow_discover.c: resource, server */
void flow_discovered(struct flow *f);    /* flow_client.c: who we are there; register */
void flow_identified(struct flow *f);    /* flow_person.c, flow_token.c: by the grant */
void flow_ask_token(struct flow *f);     /* by the grant, or the refresh token */
void flow_ask_assertion(struct flow *f); /* of the identity provider */
void flow_revoke(struct flow *f);

/* Who we are, into the form or as a line of its own: `authorization` stays empty otherwise. */
int flow_put_client(struct flow *f, struct buf *form, struct buf *authorization);
/* POST the form to an endpoint of the authorization server, with who we are and a proof. */
void flow_post_form(struct flow *f, const char *url, struct buf *form, flow_answer_fn fn);

#endif
