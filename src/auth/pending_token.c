/* SPDX-License-Identifier: MIT
 *
 * Making a pending token, and sending it back to its cache with a verdict. Tokens are wiped.
 */
#include "auth/pending_token.h"

#include "base/mem.h"

struct pending_token *pending_token_create(struct mailbox *mailbox, struct tidings_str token)
{
    struct pending_token *p = mem_zalloc(sizeof(*p) + token.len + 1);
    if (!p) {
        return NULL;
    }
    list_init(&p->letter.link);
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

static void pending_token_drop(struct letter *letter)
{
    pending_token_destroy(list_entry(letter, struct pending_token, letter));
}

static void pending_token_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct pending_token *p = list_entry(letter, struct pending_token, letter);
    p->on_return(p);
    pending_token_destroy(p);
}

void pending_token_return(struct pending_token *p)
{
    p->letter.deliver = pending_token_deliver;
    p->letter.drop = pending_token_drop;
    mailbox_send(p->mailbox, &p->letter);
}
