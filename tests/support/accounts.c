/* SPDX-License-Identifier: MIT
 *
 * The accounts: how often each id was asked and answered.
 */
#include "support/accounts.h"

#include "base/str.h"
#include "formats/json_write.h"
#include "formats/rpc.h"
#include "support/dialogue.h"

#define IDS_MAX 512u

struct account {
    char id[64]; /* as JSON; longer ones are not counted */
    unsigned asked, answered;
    bool lasts; /* a listen: may stay unanswered */
};

static struct {
    struct account of[IDS_MAX];
    size_t count;
    unsigned nameless, nameless_answers; /* errors that name no request */
    bool has_cancelled, has_batches;
} a;

void accounts_begin(void)
{
    memset(&a, 0, sizeof(a));
}

void accounts_end(void)
{
    accounts_begin();
}

static struct account *find(struct json *id)
{
    struct buf text;
    struct jw w;
    buf_init(&text, sizeof(a.of[0].id) - 1);
    jw_init(&w, &text);
    jw_value(&w, id);
    struct account *found = NULL;
    for (size_t i = 0; i < a.count && !found && !text.failed; i++) {
        found = str_eq(tidings_str(a.of[i].id), buf_str(&text)) ? &a.of[i] : NULL;
    }
    if (!found && !text.failed && a.count < IDS_MAX) {
        found = &a.of[a.count++];
        memcpy(found->id, text.ptr, text.len + 1);
    }
    buf_deinit(&text);
    return found;
}

static void ask(struct json *message)
{
    struct rpc_message m;
    int rc = rpc_read(message, &m, NULL);
    if (!m.id) {
        a.nameless += rc < 0;
        a.has_cancelled = a.has_cancelled || str_eq(m.method, STR("notifications/cancelled"));
        return;
    }
    struct account *account = rc < 0 || m.kind == RPC_REQUEST ? find(m.id) : NULL;
    if (account) {
        account->asked++;
        account->lasts =
            account->lasts || (rc == 0 && str_eq(m.method, STR("subscriptions/listen")));
    }
}

void accounts_asked(struct tidings_str message, unsigned max_depth)
{
    struct json *root = NULL;
    if (jv_parse(message, max_depth, &root, NULL) < 0) {
        a.nameless++;
    } else if (jv_is(root, JV_ARRAY)) {
        a.has_batches = true;
        a.nameless++;
        for (size_t i = 0; i < jv_count(root); i++) {
            ask(jv_at(root, i));
        }
    } else {
        ask(root);
    }
    jv_unref(root);
}

static void tell(struct json *message)
{
    dialogue_require(str_eq(jv_str(jv_get(message, "jsonrpc")), STR("2.0")), "JSON-RPC is told");
    struct json *id = jv_get(message, "id");
    if (jv_get(message, "method")) {
        dialogue_require(!jv_get(message, "result") && !jv_get(message, "error"), "one kind");
        return; /* a notification, or a request of the server's own */
    }
    dialogue_require(!jv_get(message, "result") != !jv_get(message, "error"),
                     "a result or an error");
    if (!id || jv_is(id, JV_NULL)) {
        a.nameless_answers++;
        return;
    }
    struct account *account = find(id);
    if (account) {
        dialogue_require(account->answered++ < account->asked, "nobody is answered unasked");
    }
}

void accounts_told(struct tidings_str message)
{
    struct json *root = NULL;
    dialogue_require(jv_parse(message, 512, &root, NULL) == 0, "JSON is told");
    if (jv_is(root, JV_ARRAY)) {
        dialogue_require(a.has_batches && jv_count(root) > 0, "a batch answers a batch");
        for (size_t i = 0; i < jv_count(root); i++) {
            tell(jv_at(root, i));
        }
    } else {
        tell(root);
    }
    jv_unref(root);
}

void accounts_check(bool all)
{
    dialogue_require(a.nameless_answers <= a.nameless || a.has_batches, "no error without a cause");
    for (size_t i = 0; i < a.count; i++) {
        const struct account *one = &a.of[i];
        bool may_lack = one->lasts || a.has_cancelled || a.has_batches || a.count == IDS_MAX;
        dialogue_require(!all || may_lack || one->answered == one->asked,
                         "every request is answered");
    }
}
