/* SPDX-License-Identifier: MIT
 *
 * Caches verified tokens by digest, so that the token itself is not stored. Lists of identities are
 * in least-recently-used order.
 *
 * Identities from the token file are remembered as long as the file contains their lines, so that
 * their removal is noticed; there are no more of them than lines.
 */
#include "security/token_cache.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "security/remote_auth.h"
#include "security/token_file.h"
#include "security/verifier.h"

/* -------------------------------------------------------------------------------------------------
 * Creates pending tokens, and returns them to their cache with a verdict. Tokens are wiped.
 */

static struct pending_token *pending_token_create(struct mailbox *mailbox, struct tidings_str token)
{
    struct pending_token *p = mem_zalloc(sizeof(*p) + token.len + 1);
    if (!p) {
        return NULL;
    }
    list_init(&p->message.link);
    list_init(&p->waiting);
    list_init(&p->link);
    p->mailbox = mailbox_ref(mailbox);
    p->token_len = token.len;
    memcpy(p->token, token.ptr, token.len);
    return p;
}

void pending_token_destroy(struct pending_token *p)
{
    identity_destroy(p->verdict.identity);
    mailbox_unref(p->mailbox);
    mem_free_secret(p, sizeof(*p) + p->token_len);
}

static void pending_token_drop(struct thread_message *message)
{
    pending_token_destroy(list_entry(message, struct pending_token, message));
}

static void pending_token_deliver(struct thread_message *message, void *owner)
{
    (void)owner;
    struct pending_token *p = list_entry(message, struct pending_token, message);
    p->on_return(p);
    pending_token_destroy(p);
}

void pending_token_return(struct pending_token *p)
{
    p->message.deliver = pending_token_deliver;
    p->message.drop = pending_token_drop;
    mailbox_send(p->mailbox, &p->message);
}

/* ---------------------------------------------------------------------------------------------- */

struct token_cache {
    struct token_cache_shared *shared;
    struct verifier *verifier;
    struct mailbox *mailbox;
    auth_release_fn release;
    auth_may_wait_fn may_wait;
    struct map known;  /* digest -> struct identity */
    struct list order; /* those that can be evicted */
    struct list lines; /* identities of the token file … */
    size_t line_count;
    struct list gone;        /* … and those with removed lines: the next review reports them */
    unsigned generation;     /* generation of the cached identities, … */
    unsigned reviewed;       /* … and of the last review */
    struct list pending;     /* pending tokens */
    struct identity *unkept; /* the last answer, if it could not be cached */
    struct counters *counters;
};

/* ---- cached identities ----------------------------------------------------------------------- */

static struct tidings_str token_cache_key_of(const struct identity *i)
{
    return tidings_strn((const char *)i->digest, SHA256_BYTES);
}

static void let_go(struct token_cache *c, struct identity *i)
{
    if (i && i->is.attached && c->release) {
        c->release(i->is.attached);
    }
    identity_destroy(i);
}

static void token_cache_forget(struct token_cache *c, struct identity *i)
{
    map_remove(&c->known, token_cache_key_of(i));
    c->line_count -= i->is.kind == AUTH_BY_FILE;
    list_remove(&i->link);
    let_go(c, i);
}

static void forget_all(struct token_cache *c, struct list *some)
{
    list_each (it, next, some) {
        token_cache_forget(c, list_entry(it, struct identity, link));
    }
}

static struct list *list_of(struct token_cache *c, const struct identity *i)
{
    return i->is.kind == AUTH_BY_FILE ? &c->lines : &c->order;
}

/* Takes ownership. Without memory it is valid for this one answer. */
static void token_cache_remember(struct token_cache *c, struct identity *i,
                                 const unsigned char *digest)
{
    memcpy(i->digest, digest, SHA256_BYTES);
    bool is_full = c->known.count - c->line_count >= TOKEN_CACHE_MAX;
    if (i->is.kind != AUTH_BY_FILE && is_full) {
        token_cache_forget(c, list_entry(c->order.next, struct identity, link));
    }
    void *old = NULL;
    if (map_put(&c->known, token_cache_key_of(i), i, &old) < 0) {
        c->unkept = i;
        return;
    }
    if (old) {
        c->line_count -= ((struct identity *)old)->is.kind == AUTH_BY_FILE;
        list_remove(&((struct identity *)old)->link);
        let_go(c, old);
    }
    c->line_count += i->is.kind == AUTH_BY_FILE;
    list_append(list_of(c, i), &i->link);
}

/* Returns true if the file still has the same line. */
static bool token_cache_has_line(const struct token_file *file, const struct identity *i)
{
    struct identity *now = NULL;
    bool same = file && token_file_find(file, i->digest, &now) == 0 && now &&
                str_eq(now->is.name, i->is.name) && now->is.scope_count == i->is.scope_count;
    for (size_t n = 0; same && n < i->is.scope_count; n++) {
        same = str_eq(now->is.scopes[n], i->is.scopes[n]);
    }
    identity_destroy(now);
    return same;
}

/* The verifier has new data: forgets all cached identities, except for lines that the file still
 * contains. */
static void token_cache_catch_up(struct token_cache *c)
{
    unsigned generation = verifier_generation(c->verifier);
    if (generation == c->generation) {
        return;
    }
    c->generation = generation;
    forget_all(c, &c->order);
    struct token_file *file = token_file_of(shared_map_find(c->verifier->shared, TOKEN_FILE_KEY));
    list_each (it, next, &c->lines) {
        struct identity *i = list_entry(it, struct identity, link);
        if (!token_cache_has_line(file, i)) {
            map_remove(&c->known, token_cache_key_of(i));
            c->line_count--;
            list_remove(it);
            list_append(&c->gone, it);
        }
    }
    shared_value_unref(file ? token_file_value(file) : NULL);
}

void token_cache_review(struct token_cache *c, auth_revoked_fn fn, void *user)
{
    token_cache_catch_up(c);
    c->reviewed = c->generation;
    while (!list_empty(&c->gone)) {
        struct identity *i = list_entry(c->gone.next, struct identity, link);
        list_remove(&i->link);
        if (i->is.attached) {
            fn(user, i->is.attached);
        }
        let_go(c, i);
    }
}

bool token_cache_needs_review(const struct token_cache *c)
{
    return c->reviewed != verifier_generation(c->verifier);
}

static bool token_cache_is_over(int64_t when_ms, int64_t now_ms)
{
    return when_ms != 0 && when_ms <= now_ms;
}

static struct identity *token_cache_recall(struct token_cache *c, const unsigned char *digest,
                                           int64_t now_ms)
{
    token_cache_catch_up(c);
    struct identity *i = map_find(&c->known, tidings_strn((const char *)digest, SHA256_BYTES));
    if (i && (token_cache_is_over(i->until_ms, now_ms) ||
              token_cache_is_over(i->is.expires_ms, now_ms))) {
        token_cache_forget(c, i);
        i = NULL;
    }
    if (i) {
        list_remove(&i->link);
        list_append(list_of(c, i), &i->link);
    }
    return i;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* RFC 6750 §2.1: b64token. */
static bool token_cache_is_token(struct tidings_str s)
{
    size_t len = s.len;
    while (len > 0 && s.ptr[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.' || c == '_' || c == '~' || c == '+' || c == '/')) {
            return false;
        }
    }
    return len > 0 && s.len <= AUTH_TOKEN_MAX;
}

static void token_cache_refuse(struct token_cache *c, enum auth_outcome outcome, const char *why,
                               struct auth_answer *answer)
{
    counters_refuse(c->counters, outcome, why);
    *answer = (struct auth_answer){.outcome = outcome, .description = why};
}

static void token_cache_accept(struct identity *i, struct auth_answer *answer)
{
    *answer = (struct auth_answer){.outcome = AUTH_OK, .identity = &i->is};
}

static void token_cache_conclude(struct token_cache *c, const struct verdict *v,
                                 const unsigned char *digest, struct auth_answer *answer)
{
    if (v->outcome != AUTH_OK) {
        token_cache_refuse(c, v->outcome, v->why, answer);
        return;
    }
    counters_add(&c->counters->counts.verified, 1);
    token_cache_remember(c, v->identity, digest);
    token_cache_accept(v->identity, answer);
}

/* ---- tokens that wait ------------------------------------------------------------------------ */

static void on_return(struct pending_token *p)
{
    struct token_cache *c = p->cache;
    struct auth_answer answer;
    if (!c) {
        return;
    }
    if (p->verdict.need == VERDICT_NEEDS_KEYS) {
        verifier_check(c->verifier, tidings_strn(p->token, p->token_len), p->digest,
                       clock_wall_ms(), &p->verdict);
    }
    let_go(c, c->unkept);
    c->unkept = NULL;
    token_cache_conclude(c, &p->verdict, p->digest, &answer);
    p->verdict.identity = NULL;
    token_cache_cancel(p);
    p->fn(p->user, &answer);
}

void token_cache_cancel(struct pending_token *pending)
{
    if (pending) {
        counters_add(&pending->cache->counters->counts.waiting, -1);
        pending->cache = NULL;
        list_remove(&pending->link);
    }
}

/* NULL: there is no remote thread to send it to, or no memory. */
static struct pending_token *make_pending(struct token_cache *c, struct tidings_str token,
                                          const unsigned char *digest, const struct verdict *v)
{
    struct pending_token *p = NULL;
    if (c->shared->remote) {
        p = pending_token_create(c->mailbox, token);
    }
    if (!p) {
        return NULL;
    }
    p->on_return = on_return;
    p->verdict = *v;
    p->generation = c->generation;
    p->cache = c;
    list_append(&c->pending, &p->link);
    counters_add(&c->counters->counts.waiting, 1);
    memcpy(p->digest, digest, SHA256_BYTES);
    return p;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool token_cache_verify(struct token_cache *c, struct tidings_str token,
                               const unsigned char *digest, struct auth_answer *answer,
                               struct pending_token **ret, void *user)
{
    struct verdict v;
    verifier_check(c->verifier, token, digest, clock_wall_ms(), &v);
    struct pending_token *p = NULL;
    if (v.need != VERDICT_FINAL) {
        bool may_wait = !c->may_wait || c->may_wait(user);
        p = may_wait ? make_pending(c, token, digest, &v) : NULL;
        if (!p) {
            token_cache_refuse(c, AUTH_UNAVAILABLE, "too many tokens wait to be verified", answer);
            return true;
        }
        *ret = p;
        return false;
    }
    token_cache_conclude(c, &v, digest, answer);
    return true;
}

bool token_cache_ask(struct token_cache *c, struct tidings_str token, struct auth_answer *answer,
                     struct pending_token **pending, auth_answer_fn fn, void *user)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    let_go(c, c->unkept);
    c->unkept = NULL;
    if (!token_cache_is_token(token)) {
        token_cache_refuse(c, AUTH_MALFORMED,
                           "the token has characters or a length that no token has", answer);
        return true;
    }
    sha256_init(&hash);
    sha256_put(&hash, token.ptr, token.len);
    sha256_end(&hash, digest);
    struct identity *known = token_cache_recall(c, digest, clock_wall_ms());
    if (known) {
        counters_add(&c->counters->counts.remembered, 1);
        token_cache_accept(known, answer);
        return true;
    }
    if (token_cache_verify(c, token, digest, answer, pending, user)) {
        return true;
    }
    (*pending)->fn = fn;
    (*pending)->user = user;
    remote_ask(c->shared->remote, *pending);
    return false;
}

void token_cache_set_may_wait(struct token_cache *c, auth_may_wait_fn may)
{
    c->may_wait = may;
}

/* ---- the cache itself ------------------------------------------------------------------------ */

struct token_cache *token_cache_create(struct token_cache_shared *shared, struct mailbox *mailbox,
                                       auth_release_fn release, struct tidings_error *err)
{
    struct token_cache *c = mem_zalloc(sizeof(*c));
    struct counters *counters = c ? counters_create(&shared->counters) : NULL;
    if (!counters) {
        mem_free(c);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    c->shared = shared;
    c->verifier = shared->verifier;
    c->counters = counters;
    c->mailbox = mailbox_ref(mailbox);
    c->release = release;
    c->generation = c->reviewed = verifier_generation(shared->verifier);
    map_init(&c->known);
    list_init(&c->order);
    list_init(&c->lines);
    list_init(&c->gone);
    list_init(&c->pending);
    return c;
}

void token_cache_destroy(struct token_cache *c)
{
    if (!c) {
        return;
    }
    list_each (it, next, &c->pending) {
        token_cache_cancel(list_entry(it, struct pending_token, link));
    }
    forget_all(c, &c->order);
    forget_all(c, &c->lines);
    list_each (it, next, &c->gone) {
        let_go(c, list_entry(it, struct identity, link));
    }
    let_go(c, c->unkept);
    map_deinit(&c->known);
    mailbox_unref(c->mailbox);
    mem_free(c);
}

const struct auth_counts *token_cache_counts(const struct token_cache *c)
{
    return &c->counters->counts;
}
