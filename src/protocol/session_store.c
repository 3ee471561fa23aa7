/* SPDX-License-Identifier: MIT
 *
 * Makes the requests to a store of sessions: on a worker, answered from any thread.
 */
#include "protocol/session_store.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "worker/worker.h"

static void session_job_free(struct session_job *job)
{
    mailbox_unref(job->reply_to);
    buf_deinit(&job->state);
    mem_free(job);
}

static void session_job_deliver(struct letter *letter, void *owner)
{
    struct session_job *job = list_entry(letter, struct session_job, letter);
    if (job->done) {
        job->done(job, owner);
    }
    session_job_free(job);
}

static void session_job_drop(struct letter *letter)
{
    session_job_free(list_entry(letter, struct session_job, letter));
}

struct session_job *session_job_create(struct worker *worker, enum session_op op,
                                       struct tidings_str key)
{
    struct session_job *job = mem_zalloc(sizeof(*job));
    if (job) {
        job->op = op;
        memcpy(job->key, key.ptr, key.len < SESSION_KEY_LEN ? key.len : SESSION_KEY_LEN);
        job->reply_to = mailbox_ref(worker->mailbox);
    }
    return job;
}

void session_job_answer(struct session_job *job)
{
    struct mailbox *reply_to =
        mailbox_ref(job->reply_to); /* the job may be gone before this returns */
    job->letter.deliver = session_job_deliver;
    job->letter.drop = session_job_drop;
    mailbox_send(reply_to, &job->letter);
    mailbox_unref(reply_to);
}

void session_make_key(struct tidings_str id, const struct principal *principal,
                      char ret[SESSION_KEY_LEN + 1])
{
    /* The program itself has no sessions over HTTP; it is told from everybody all the same. */
    unsigned char kind = principal ? (unsigned char)principal->kind : UINT8_MAX;
    unsigned char hash[SHA256_BYTES];
    struct sha256 h;
    sha256_init(&h);
    sha256_put(&h, &kind, 1);
    if (principal) {
        sha256_put(&h, principal->name.ptr, principal->name.len);
    }
    sha256_end(&h, hash);
    int n = snprintf(ret, SESSION_KEY_LEN + 1, "%.*s.", (int)SESSION_ID_LEN, id.ptr);
    for (size_t i = 0; n > 0 && i < SHA256_BYTES; i++) {
        n += snprintf(ret + n, SESSION_KEY_LEN + 1 - (size_t)n, "%02x", hash[i]);
    }
}
