/* SPDX-License-Identifier: MIT
 *
 * A worker's desk: what was verified is remembered by the digest of its token, so that the token
 * itself is kept nowhere. Lists of identities have the one not used for the longest time first.
 *
 * Identities of the file of tokens are remembered as long as their lines stand in it, so that it is
 * noticed when one is taken away; there are no more of them than lines.
 */
#include "auth/remote.h"
#include "auth/token_file.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

struct auth_desk {
    struct auth *auth;
    struct mailbox *mailbox;
    auth_release_fn release;
    struct map known;  /* digest -> struct identity */
    struct list order; /* those that may be forgotten */
    struct list lines; /* those of the file … */
    size_t line_count;
    struct list gone;        /* … and those it does not have any more: told by the next review */
    unsigned generation;     /* of what is known, … */
    unsigned reviewed;       /* … and of the last review */
    struct list questions;   /* that wait */
    struct identity *unkept; /* the answer to the last question, when it could not be remembered */
    struct ledger *ledger;
};

/* ---- what is known --------------------------------------------------------------------------- */

static struct tidings_str key_of(const struct identity *i)
{
    return tidings_strn((const char *)i->digest, SHA256_BYTES);
}

static void let_go(struct auth_desk *d, struct identity *i)
{
    if (i && i->is.attached && d->release) {
        d->release(i->is.attached);
    }
    identity_destroy(i);
}

static void forget(struct auth_desk *d, struct identity *i)
{
    map_remove(&d->known, key_of(i));
    d->line_count -= i->is.kind == AUTH_BY_FILE;
    list_remove(&i->link);
    let_go(d, i);
}

static void forget_all(struct auth_desk *d, struct list *some)
{
    list_each (it, next, some) {
        forget(d, list_entry(it, struct identity, link));
    }
}

static struct list *list_of(struct auth_desk *d, const struct identity *i)
{
    return i->is.kind == AUTH_BY_FILE ? &d->lines : &d->order;
}

/* Takes it. Without memory it is good for this one answer. */
static void remember(struct auth_desk *d, struct identity *i, const unsigned char *digest)
{
    memcpy(i->digest, digest, SHA256_BYTES);
    bool is_full = d->known.count - d->line_count >= AUTH_DESK_REMEMBERS;
    if (i->is.kind != AUTH_BY_FILE && is_full) {
        forget(d, list_entry(d->order.next, struct identity, link));
    }
    void *old = NULL;
    if (map_put(&d->known, key_of(i), i, &old) < 0) {
        d->unkept = i;
        return;
    }
    if (old) {
        d->line_count -= ((struct identity *)old)->is.kind == AUTH_BY_FILE;
        list_remove(&((struct identity *)old)->link);
        let_go(d, old);
    }
    d->line_count += i->is.kind == AUTH_BY_FILE;
    list_append(list_of(d, i), &i->link);
}

/* Does the file say the same of it as before? */
static bool stands(const struct token_file *file, const struct identity *i)
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

/* Something has been loaded since: what is known from before counts no more, except lines that are
 * still there. */
static void look_again(struct auth_desk *d)
{
    unsigned generation = __atomic_load_n(&d->auth->generation, __ATOMIC_ACQUIRE);
    if (generation == d->generation) {
        return;
    }
    d->generation = generation;
    forget_all(d, &d->order);
    struct token_file *file = token_file_of(shared_map_find(d->auth->shared, TOKEN_FILE_KEY));
    list_each (it, next, &d->lines) {
        struct identity *i = list_entry(it, struct identity, link);
        if (!stands(file, i)) {
            map_remove(&d->known, key_of(i));
            d->line_count--;
            list_remove(it);
            list_append(&d->gone, it);
        }
    }
    shared_value_unref(file ? token_file_value(file) : NULL);
}

void auth_desk_review(struct auth_desk *d, auth_revoked_fn fn, void *user)
{
    look_again(d);
    d->reviewed = d->generation;
    while (!list_empty(&d->gone)) {
        struct identity *i = list_entry(d->gone.next, struct identity, link);
        list_remove(&i->link);
        if (i->is.attached) {
            fn(user, i->is.attached);
        }
        let_go(d, i);
    }
}

bool auth_desk_has_news(const struct auth_desk *d)
{
    return d->reviewed != __atomic_load_n(&d->auth->generation, __ATOMIC_ACQUIRE);
}

static bool is_over(int64_t when_ms, int64_t now_ms)
{
    return when_ms != 0 && when_ms <= now_ms;
}

static struct identity *recall(struct auth_desk *d, const unsigned char *digest, int64_t now_ms)
{
    look_again(d);
    struct identity *i = map_find(&d->known, tidings_strn((const char *)digest, SHA256_BYTES));
    if (i && (is_over(i->until_ms, now_ms) || is_over(i->is.expires_ms, now_ms))) {
        forget(d, i);
        i = NULL;
    }
    if (i) {
        list_remove(&i->link);
        list_append(list_of(d, i), &i->link);
    }
    return i;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* RFC 6750 §2.1: b64token. */
static bool is_token(struct tidings_str s)
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

static void refuse(struct auth_desk *d, enum auth_outcome outcome, const char *why,
                   struct auth_answer *answer)
{
    ledger_refuse(d->ledger, outcome, why);
    *answer = (struct auth_answer){.outcome = outcome, .description = why};
}

static void accept(struct identity *i, struct auth_answer *answer)
{
    *answer = (struct auth_answer){.outcome = AUTH_OK, .identity = &i->is};
}

static void settle(struct auth_desk *d, const struct verdict *v, const unsigned char *digest,
                   struct auth_answer *answer)
{
    if (v->outcome != AUTH_OK) {
        refuse(d, v->outcome, v->why, answer);
        return;
    }
    ledger_add(&d->ledger->counts.verified, 1);
    remember(d, v->identity, digest);
    accept(v->identity, answer);
}

/* ---- questions that wait --------------------------------------------------------------------- */

void question_destroy(struct auth_question *q)
{
    identity_destroy(q->verdict.identity);
    mailbox_unref(q->home);
    mem_free_secret(q, sizeof(*q) + q->token_len);
}

static void drop_answer(struct letter *letter)
{
    question_destroy(list_entry(letter, struct auth_question, letter));
}

static void deliver_answer(struct letter *letter, void *owner)
{
    (void)owner;
    struct auth_question *q = list_entry(letter, struct auth_question, letter);
    struct auth_desk *d = q->desk;
    struct auth_answer answer;
    if (d) {
        if (q->verdict.need == VERDICT_NEEDS_KEYS) {
            verdict_find(d->auth, tidings_strn(q->token, q->token_len), q->digest, clock_wall_ms(),
                         &q->verdict);
        }
        let_go(d, d->unkept);
        d->unkept = NULL;
        settle(d, &q->verdict, q->digest, &answer);
        q->verdict.identity = NULL;
        auth_cancel(q);
        q->fn(q->user, &answer);
    }
    question_destroy(q);
}

void question_return(struct auth_question *q)
{
    q->letter.deliver = deliver_answer;
    q->letter.drop = drop_answer;
    mailbox_send(q->home, &q->letter);
}

void auth_cancel(struct auth_question *q)
{
    if (q) {
        ledger_add(&q->desk->ledger->counts.waiting, -1);
        q->desk = NULL;
        list_remove(&q->link);
    }
}

/* NULL: there is nobody to ask, or one too many asks already. */
static struct auth_question *put_question(struct auth_desk *d, struct tidings_str token,
                                          const unsigned char *digest, const struct verdict *v)
{
    struct auth_question *q = NULL;
    if (d->auth->remote && d->ledger->counts.waiting < AUTH_DESK_WAITING) {
        q = mem_zalloc(sizeof(*q) + token.len + 1);
    }
    if (!q) {
        return NULL;
    }
    list_init(&q->letter.link);
    list_init(&q->waiting);
    q->home = mailbox_ref(d->mailbox);
    q->auth = d->auth;
    q->verdict = *v;
    q->generation = d->generation;
    q->desk = d;
    list_append(&d->questions, &q->link);
    ledger_add(&d->ledger->counts.waiting, 1);
    memcpy(q->digest, digest, SHA256_BYTES);
    q->token_len = token.len;
    memcpy(q->token, token.ptr, token.len);
    return q;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool find_out(struct auth_desk *d, struct tidings_str token, const unsigned char *digest,
                     struct auth_answer *answer, struct auth_question **ret)
{
    struct verdict v;
    verdict_find(d->auth, token, digest, clock_wall_ms(), &v);
    struct auth_question *q = NULL;
    if (v.need != VERDICT_FINAL) {
        q = put_question(d, token, digest, &v);
        if (!q) {
            refuse(d, AUTH_UNAVAILABLE, "too many wait for an answer about their tokens", answer);
            return true;
        }
        *ret = q;
        return false;
    }
    settle(d, &v, digest, answer);
    return true;
}

bool auth_ask(struct auth_desk *d, struct tidings_str token, struct auth_answer *answer,
              struct auth_question **question, auth_answer_fn fn, void *user)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    let_go(d, d->unkept);
    d->unkept = NULL;
    if (!is_token(token)) {
        refuse(d, AUTH_MALFORMED, "the token has characters or a length that no token has", answer);
        return true;
    }
    sha256_init(&hash);
    sha256_put(&hash, token.ptr, token.len);
    sha256_end(&hash, digest);
    struct identity *known = recall(d, digest, clock_wall_ms());
    if (known) {
        ledger_add(&d->ledger->counts.remembered, 1);
        accept(known, answer);
        return true;
    }
    if (find_out(d, token, digest, answer, question)) {
        return true;
    }
    (*question)->fn = fn;
    (*question)->user = user;
    remote_ask(d->auth->remote, *question);
    return false;
}

/* ---- the desk itself ------------------------------------------------------------------------- */

struct auth_desk *auth_desk_create(struct auth *a, struct mailbox *mailbox, auth_release_fn release,
                                   struct tidings_error *err)
{
    struct auth_desk *d = mem_zalloc(sizeof(*d));
    struct ledger *ledger = d ? ledger_create(&a->ledgers) : NULL;
    if (!ledger) {
        mem_free(d);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    d->auth = a;
    d->ledger = ledger;
    d->mailbox = mailbox_ref(mailbox);
    d->release = release;
    d->generation = d->reviewed = __atomic_load_n(&a->generation, __ATOMIC_ACQUIRE);
    map_init(&d->known);
    list_init(&d->order);
    list_init(&d->lines);
    list_init(&d->gone);
    list_init(&d->questions);
    return d;
}

void auth_desk_destroy(struct auth_desk *d)
{
    if (!d) {
        return;
    }
    list_each (it, next, &d->questions) {
        auth_cancel(list_entry(it, struct auth_question, link));
    }
    forget_all(d, &d->order);
    forget_all(d, &d->lines);
    list_each (it, next, &d->gone) {
        let_go(d, list_entry(it, struct identity, link));
    }
    let_go(d, d->unkept);
    map_deinit(&d->known);
    mailbox_unref(d->mailbox);
    mem_free(d);
}

const struct auth_counts *auth_desk_counts(const struct auth_desk *d)
{
    return &d->ledger->counts;
}
