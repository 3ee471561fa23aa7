/* SPDX-License-Identifier: MIT
 *
 * Questions to legacy clients: the stream they use, their answers, and calls whose client refuses,
 * cancels, is late, disconnects, resumes, or is another principal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define FORM                                                                                       \
    "{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":{"       \
    "\"type\":\"string\"}},\"required\":[\"name\"]}}"
#define ACCEPT "{\"action\":\"accept\",\"content\":{\"name\":\"Ann\"}}"
#define ASKED "elicitation/create"
#define CANCELLED "notifications/cancelled"

static struct harness b;

/* Asks for a name, keeps a state, greets. */
static void greet(void *user, struct tidings_call *h)
{
    struct tidings_error err;
    char text[256];
    struct tidings_str answer = tidings_call_answer(h, "who"), state = tidings_call_state(h);
    int rc;
    if (answer.len > 0) {
        snprintf(text, sizeof(text), "%.*s %.*s", STR_ARG(state), STR_ARG(answer));
        rc = tidings_call_text(h, tidings_str(text), &err);
    } else {
        rc = tidings_call_text(h, STR("of the first round"), &err);
        rc = rc < 0 ? rc : tidings_call_ask(h, "who", ASKED, tidings_str(user), &err);
        rc = rc < 0 ? rc : tidings_call_keep(h, STR("kept"), &err);
    }
    tidings_call_done(h, rc, &err);
}

/* Asks every kind of question, then returns the number of answers. */
static void ask_all(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    int rc = 0;
    if (tidings_call_answer(h, "roots").len > 0) {
        rc = tidings_call_text(h, tidings_call_answer(h, "roots"), &err);
        rc = rc < 0 ? rc : tidings_call_text(h, tidings_call_answer(h, "model"), &err);
    } else {
        rc = tidings_call_ask(h, "roots", "roots/list", STR("{}"), &err);
        rc = rc < 0 ? rc
                    : tidings_call_ask(h, "model", "sampling/createMessage",
                                       STR("{\"messages\":[],\"maxTokens\":1}"), &err);
    }
    tidings_call_done(h, rc, &err);
}

static void ask_much(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    int rc = 0;
    for (unsigned i = 0; i < CALL_MAX_INPUT_REQUESTS && rc == 0; i++) {
        rc = tidings_call_ask(h, text_of("q%u", i), "roots/list", STR("{}"), &err);
    }
    tidings_call_done(h, rc, &err);
}

/* Asks the model, which may use a tool. */
static void ask_with_tools(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str answer = tidings_call_answer(h, "model");
    int rc =
        answer.len > 0
            ? tidings_call_text(h, answer, &err)
            : tidings_call_ask(h, "model", "sampling/createMessage",
                               STR("{\"messages\":[],\"maxTokens\":1,\"tools\":[{\"name\":\"t\","
                                   "\"inputSchema\":{\"type\":\"object\"}}],\"toolChoice\":{"
                                   "\"mode\":\"auto\"}}"),
                               &err);
    tidings_call_done(h, rc, &err);
}

static int setup(void **state)
{
    (void)state;
    static char form[] = FORM, url[] = "{\"mode\":\"url\",\"message\":\"?\",\"url\":\"https://x\"}";
    harness_init(&b);
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "greet", .handler = greet, .user = form});
    harness_add_tool(&b, &(struct harness_tool){.name = "visit", .handler = greet, .user = url});
    harness_add_tool(&b, &(struct harness_tool){
                             .name = "pool", .handler = greet, .user = form, .is_blocking = true});
    harness_add_tool(&b, &(struct harness_tool){.name = "all", .handler = ask_all});
    harness_add_tool(&b, &(struct harness_tool){.name = "much", .handler = ask_much});
    harness_add_tool(&b, &(struct harness_tool){.name = "tools", .handler = ask_with_tools});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

/* ---- clients with capabilities --------------------------------------------------------------- */

#define EVERYTHING "\"elicitation\":{},\"sampling\":{},\"roots\":{}"

static void begin(struct client *c, const char *session, const char *capabilities)
{
    client_legacy(c, session, "1", "initialize",
                  text_of("\"protocolVersion\":\"2025-11-25\",\"capabilities\":{%s},"
                          "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}",
                          capabilities));
}

static struct harness_session open_session(const char *name, const char *capabilities)
{
    struct harness_session s = {.harness = &b};
    struct client *c = client_http(&b);
    if (name) {
        client_is(c, PRINCIPAL_TOKEN, name, "", 0);
    }
    begin(c, NULL, capabilities);
    snprintf(s.id, sizeof(s.id), "%s", client_answer(c)->session);
    client_free(c);
    return s;
}

static struct client *call(struct harness_session *s, const char *tool)
{
    struct client *c = session_request(s, "7", "tools/call", text_of("\"name\":\"%s\"", tool));
    harness_run_until_idle(&b);
    return c;
}

/* A response by `name` (NULL: anonymous); returns the status. */
static int respond(struct harness_session *s, const char *name, const char *id, const char *body)
{
    struct client *c = client_http(&b);
    const struct dialect_headers headers = {.session_id = tidings_str(s->id)};
    if (name) {
        client_is(c, PRINCIPAL_TOKEN, name, "", 0);
    }
    client_say(c, &headers, text_of("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}", id, body));
    harness_run_until_idle(&b);
    int status = client_count_kind(c, SAID_ACCEPTED) > 0 ? 202 : client_answer(c)->status;
    client_free(c);
    return status;
}

/* The last message on the stream of a call. */
static const char *last_event(const struct client *c)
{
    size_t n = client_count_kind(c, SAID_EVENT);
    assert_true(n > 0);
    return client_nth_kind(c, SAID_EVENT, n - 1)->text;
}

static bool was_asked(void *client)
{
    return client_count(client, ASKED) > 0;
}

static bool was_cancelled(void *client)
{
    return client_count(client, CANCELLED) > 0;
}

static bool has_ended(void *client)
{
    return client_count_kind(client, SAID_END) > 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void question_is_a_request_on_the_stream_of_the_call(void **state)
{
    (void)state;
    const char *const tools[] = {"greet", "pool"};
    struct harness_session s = open_session(NULL, EVERYTHING);
    for (unsigned i = 0; i < 2; i++) {
        struct client *c = call(&s, tools[i]);
        harness_until(&b, was_asked, c);
        const char *asked = client_nth(c, ASKED, 0);
        assert_json(asked, "params|requestedSchema|required|0", "name");
        assert_json(asked, "id", text_of("%u", i + 1));
        assert_int_equal(client_count_kind(c, SAID_PRIME), 1);
        assert_int_equal(respond(&s, NULL, text_of("%u", i + 1), "\"result\":" ACCEPT), 202);
        harness_until(&b, has_ended, c);
        assert_json(last_event(c), "id", "7");
        assert_json(last_event(c), "result|content|0|text", "kept " ACCEPT);
        assert_no_json(last_event(c), "result|content|1");
        assert_int_equal(client_count(c, CANCELLED), 0);
        client_free(c);
    }
    assert_int_equal(session_delete(&s), 204);
}

static void pipe_receives_questions_on_itself(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b), *other = client_pipe(&b);
    begin(c, NULL, EVERYTHING);
    begin(other, NULL, EVERYTHING);
    client_legacy(c, NULL, "8", "tools/call", "\"name\":\"all\"");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, "roots/list", 0), "id", "1");
    assert_json(client_nth(c, "sampling/createMessage", 0), "id", "2");
    /* Another connection, an unknown id, an invalid id, an answer twice. */
    client_say(other, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"roots\":[]}}");
    client_say(c, NULL, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"roots\":[]}}");
    client_say(c, NULL, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"roots\":[]}}");
    size_t before = client_count_kind(c, SAID_ANSWER);
    client_say(c, NULL,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"roots\":[{\"uri\":\"file:///r\"}]}}");
    client_say(c, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"roots\":[]}}");
    assert_int_equal(client_count_kind(c, SAID_ANSWER), before);
    client_say(c, NULL,
               "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"role\":\"assistant\",\"model\":\"m\","
               "\"content\":{\"type\":\"text\",\"text\":\"hi\"}}}");
    harness_run_until_idle(&b);
    const char *answer = client_nth_kind(c, SAID_ANSWER, before)->text;
    assert_json(answer, "id", "8");
    assert_non_null(strstr(answer, "file:///r"));
    assert_non_null(strstr(answer, "assistant"));
    client_free(c);
    client_free(other);
}

static void answer_from_another_session_is_ignored(void **state)
{
    (void)state;
    struct harness_session mine = open_session("alice", EVERYTHING);
    struct harness_session theirs = open_session("mallory", EVERYTHING);
    struct client *c = client_http(&b);
    client_is(c, PRINCIPAL_TOKEN, "alice", "", 0);
    client_legacy(c, mine.id, "7", "tools/call", "\"name\":\"greet\"");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, ASKED, 0), "id", "1");
    size_t before = c->count;
    assert_int_equal(respond(&theirs, "mallory", "1", "\"result\":" ACCEPT), 202);
    assert_int_equal(respond(&mine, "mallory", "1", "\"result\":" ACCEPT), 404);
    assert_int_equal(respond(&mine, NULL, "1", "\"result\":" ACCEPT), 404);
    assert_int_equal(c->count, before);
    /* They may not open its stream either. */
    char id[256];
    snprintf(id, sizeof(id), "%s", client_nth_kind(c, SAID_PRIME, 0)->id);
    struct client *get = client_http(&b);
    const struct dialect_headers headers = {.session_id = tidings_str(theirs.id),
                                            .last_event_id = tidings_str(id)};
    client_is(get, PRINCIPAL_TOKEN, "mallory", "", 0);
    get->is_waiting = true;
    inbound_get(&get->channel, &headers);
    assert_int_equal(client_answer(get)->status, 404);
    client_free(get);
    assert_int_equal(respond(&mine, "alice", "1", "\"result\":" ACCEPT), 202);
    assert_json(last_event(c), "result|content|0|text", "kept " ACCEPT);
    client_free(c);
}

static void invalid_answers_fail_the_call(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } rows[] = {
        {"\"result\":{\"action\":\"accept\",\"content\":{\"name\":7}}", "/name"},
        {"\"result\":{\"action\":\"accept\"}", "'content' is missing"},
        {"\"result\":{\"action\":\"accept\",\"content\":[]}", "'content' must be an object"},
        {"\"result\":{\"action\":\"maybe\"}", "accept, decline or cancel"},
        {"\"result\":[]", "must be an object"},
        {"\"error\":{\"code\":-1,\"message\":\"not now\"}", "refused to answer 'who': not now"},
        {"\"error\":{}", "refused to answer 'who'"},
    };
    struct harness_session s = open_session(NULL, EVERYTHING);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = call(&s, "greet");
        assert_int_equal(respond(&s, NULL, text_of("%zu", i + 1), rows[i].body), 202);
        assert_json(last_event(c), "result|isError", "true");
        assert_non_null(strstr(last_event(c), rows[i].why));
        client_free(c);
    }
    /* Other open questions are withdrawn. */
    struct client *c = call(&s, "all");
    const char *roots = json_at(client_nth(c, "roots/list", 0), "id");
    assert_int_equal(respond(&s, NULL, roots, "\"result\":{\"roots\":[1]}"), 202);
    assert_json(client_nth(c, CANCELLED, 0), "params|requestId",
                json_at(client_nth(c, "sampling/createMessage", 0), "id"));
    assert_json(last_event(c), "result|isError", "true");
    client_free(c);
    /* Declining is an answer. */
    c = call(&s, "greet");
    const char *id = json_at(client_nth(c, ASKED, 0), "id");
    assert_int_equal(respond(&s, NULL, id, "\"result\":{\"action\":\"decline\"}"), 202);
    assert_json(last_event(c), "result|content|0|text", "kept {\"action\":\"decline\"}");
    client_free(c);
}

static void questions_require_a_declared_capability(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, "\"elicitation\":{\"form\":{}}");
    struct client *c = call(&s, "visit");
    assert_json(client_answer(c)->text, "error|code", "-32021");
    assert_json(client_answer(c)->text, "error|data|requiredCapabilities|elicitation|url", "{}");
    client_free(c);
    struct harness_session other = open_session(NULL, "\"elicitation\":{\"url\":{}}");
    c = call(&other, "greet");
    assert_json(client_answer(c)->text, "error|code", "-32021");
    client_free(c);
    c = call(&other, "visit");
    assert_json(client_nth(c, ASKED, 0), "params|mode", "url");
    client_free(c);
}

static void model_questions_with_tools_require_the_declaration(void **state)
{
    (void)state;
    static const char used[] = "{\"role\":\"assistant\",\"model\":\"m\",\"stopReason\":\"toolUse\","
                               "\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"t\","
                               "\"input\":{}}]}";
    struct harness_session without = open_session(NULL, "\"sampling\":{}");
    struct client *c = call(&without, "tools");
    assert_json(client_answer(c)->text, "error|code", "-32021");
    assert_json(client_answer(c)->text, "error|data|requiredCapabilities|sampling|tools", "{}");
    client_free(c);
    struct harness_session s = open_session(NULL, "\"sampling\":{\"tools\":{}}");
    c = call(&s, "tools");
    assert_json(client_nth(c, "sampling/createMessage", 0), "params|tools|0|name", "t");
    assert_json(client_nth(c, "sampling/createMessage", 0), "params|toolChoice|mode", "auto");
    assert_int_equal(respond(&s, NULL, "1", text_of("\"result\":%s", used)), 202);
    assert_json(last_event(c), "result|content|0|text", used);
    client_free(c);
}

#define BATCH(tool)                                                                                \
    "[{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool        \
    "\"}},"                                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}]"

/* 2025-03-26: the call is one of a batch, and so are the answers. */
static void calls_of_a_batch_ask_and_answers_arrive_in_one(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_legacy(c, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-03-26\",\"capabilities\":{" EVERYTHING "},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    size_t before = client_count_kind(c, SAID_ANSWER);
    client_say(c, NULL, BATCH("all"));
    harness_run_until_idle(&b);
    assert_json(client_nth(c, "roots/list", 0), "id", "1");
    assert_json(client_nth(c, "sampling/createMessage", 0), "id", "2");
    client_say(c, NULL,
               "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"roots\":[{\"uri\":\"file:///r\"}]}},"
               "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"role\":\"assistant\",\"model\":\"m\","
               "\"content\":{\"type\":\"text\",\"text\":\"hi\"}}}]");
    harness_run_until_idle(&b);
    const char *answer = client_nth_kind(c, SAID_ANSWER, before)->text;
    assert_non_null(strstr(answer, "file:///r"));
    assert_non_null(strstr(answer, "\"id\":8"));
    assert_non_null(strstr(answer, "\"id\":9"));
    client_free(c);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void cancelled_call_withdraws_its_question(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, EVERYTHING);
    struct client *c = call(&s, "greet"), *n = client_http(&b);
    client_notify(n, s.id, "notifications/cancelled", "\"requestId\":7");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, CANCELLED, 0), "params|requestId", "1");
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    assert_int_equal(respond(&s, NULL, "1", "\"result\":" ACCEPT), 202);
    assert_int_equal(b.worker[0]->limit_counters->in_use[LIMIT_CALLS], 0);
    client_free(n);
    client_free(c);
}

static void unanswered_question_times_out(void **state)
{
    (void)state;
    b.limits.ask_timeout_ms = 5;
    struct client *c = client_pipe(&b);
    begin(c, NULL, EVERYTHING);
    client_legacy(c, NULL, "8", "tools/call", "\"name\":\"greet\"");
    harness_until(&b, was_cancelled, c);
    assert_json(client_nth(c, CANCELLED, 0), "params|requestId", "1");
    assert_non_null(strstr(c->said[c->count - 1].text, "within 5 ms (--ask-timeout)"));
    assert_json(c->said[c->count - 1].text, "result|isError", "true");
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_ASK_TIME], 1);
    client_free(c);
}

static void disconnected_client_cancels_its_call(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    begin(c, NULL, EVERYTHING);
    client_legacy(c, NULL, "8", "tools/call", "\"name\":\"greet\"");
    client_legacy(c, NULL, "9", "tools/call", "\"name\":\"all\"");
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->limit_counters->in_use[LIMIT_CALLS], 2);
    client_free(c);
    assert_int_equal(b.worker[0]->limit_counters->in_use[LIMIT_CALLS], 0);
    struct harness_session s = open_session(NULL, EVERYTHING);
    c = call(&s, "all");
    assert_int_equal(session_delete(&s), 204);
    assert_int_equal(client_count(c, CANCELLED), 2);
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    assert_int_equal(b.worker[0]->limit_counters->in_use[LIMIT_CALLS], 0);
    client_free(c);
}

static void open_questions_are_limited(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    begin(c, NULL, EVERYTHING);
    for (unsigned i = 0; i < 5; i++) {
        client_legacy(c, NULL, text_of("%u", 10 + i), "tools/call", "\"name\":\"much\"");
    }
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, "roots/list"), 64);
    assert_non_null(strstr(c->said[c->count - 1].text, "64 questions wait for this client"));
    assert_json(c->said[c->count - 1].text, "id", "14");
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_QUESTIONS], 1);
    client_free(c);
}

/* ---- lost streams ---------------------------------------------------------------------------- */

static void lost_stream_resumes_with_unanswered_questions(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, EVERYTHING);
    struct client *c = call(&s, "greet");
    char prime[256], event[256];
    snprintf(prime, sizeof(prime), "%s", client_nth_kind(c, SAID_PRIME, 0)->id);
    snprintf(event, sizeof(event), "%s", client_nth_said(c, ASKED, 0)->id);
    client_vanish(c);
    struct client *again = session_stream(&s, prime);
    assert_json(client_nth(again, ASKED, 0), "id", "1");
    assert_string_equal(client_nth_said(again, ASKED, 0)->id, event);
    /* Once more, while the server considers the last stream open; that stream has the question. */
    struct client *third = session_stream(&s, event);
    assert_int_equal(client_count_kind(again, SAID_END), 1);
    assert_int_equal(client_count(third, ASKED), 0);
    assert_int_equal(respond(&s, NULL, "1", "\"result\":" ACCEPT), 202);
    assert_json(last_event(third), "result|content|0|text", "kept " ACCEPT);
    assert_int_equal(client_count_kind(third, SAID_END), 1);
    client_free(third);
    third = session_stream(&s, event);
    assert_int_equal(client_answer(third)->status, 400);
    client_free(third);
    client_free(again);
    client_free(c);
}

static void answer_is_retained_for_a_resuming_client(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, EVERYTHING);
    char event[256];
    for (unsigned i = 0; i < 3; i++) {
        struct client *c = call(&s, "greet");
        snprintf(event, sizeof(event), "%s", client_nth_said(c, ASKED, 0)->id);
        client_vanish(c);
        assert_int_equal(respond(&s, NULL, text_of("%u", i + 1), "\"result\":" ACCEPT), 202);
        client_free(c);
        if (i == 0) {
            c = session_stream(&s, event);
            assert_json(last_event(c), "id", "7");
            assert_json(last_event(c), "result|content|0|text", "kept " ACCEPT);
            client_free(c);
        } else if (i == 1) { /* the client that cancels no longer needs it */
            c = client_http(&b);
            client_notify(c, s.id, "notifications/cancelled", "\"requestId\":7");
            client_free(c);
            assert_int_equal(b.worker[0]->requests->retained_bytes, 0);
        }
    }
    assert_true(b.worker[0]->requests->retained_bytes > 0);
    assert_int_equal(session_delete(&s), 204);
    assert_int_equal(b.worker[0]->requests->retained_bytes, 0);
}

static void retained_answer_expires(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, EVERYTHING);
    struct requests *all = b.worker[0]->requests;
    struct client *c = call(&s, "greet");
    char event[256];
    snprintf(event, sizeof(event), "%s", client_nth_said(c, ASKED, 0)->id);
    client_vanish(c);
    assert_int_equal(respond(&s, NULL, "1", "\"result\":" ACCEPT), 202);
    client_free(c);
    struct request *kept = list_entry(all->retained.next, struct request, job_link);
    uint64_t begun = kept->job_begun_ms;
    kept->job_begun_ms = begun - REQUEST_RETAINED_MS / 2;
    requests_drop_retained(b.worker[0]);
    assert_true(all->retained_bytes > 0);
    kept->job_begun_ms = begun - REQUEST_RETAINED_MS;
    requests_drop_retained(b.worker[0]);
    assert_int_equal(all->retained_bytes, 0);
    assert_true(list_empty(&all->retained));
    c = session_stream(&s, event);
    assert_int_equal(client_answer(c)->status, 400);
    client_free(c);
}

static void client_without_a_stream_is_asked_on_the_session_stream(void **state)
{
    (void)state;
    struct harness_session s = open_session(NULL, EVERYTHING);
    for (unsigned i = 0; i < 2; i++) {
        struct client *get = i == 1 ? session_stream(&s, NULL) : NULL;
        struct client *c = client_http(&b);
        c->takes_no_stream = true;
        client_legacy(c, s.id, "7", "tools/call", "\"name\":\"greet\"");
        harness_run_until_idle(&b);
        if (!get) {
            assert_non_null(strstr(client_answer(c)->text, "takes no event stream"));
            client_free(c);
            continue;
        }
        assert_json(client_nth(get, ASKED, 0), "id", "2");
        char event[256];
        snprintf(event, sizeof(event), "%s", client_nth_said(get, ASKED, 0)->id);
        client_vanish(get);
        struct client *fresh = session_stream(&s, NULL);
        assert_int_equal(client_count(fresh, ASKED), 1);
        snprintf(event, sizeof(event), "%s", client_nth_said(fresh, ASKED, 0)->id);
        client_vanish(fresh);
        struct client *resumed = session_stream(&s, event);
        assert_int_equal(client_count(resumed, ASKED), 0);
        assert_int_equal(respond(&s, NULL, "2", "\"result\":" ACCEPT), 202);
        assert_json(client_answer(c)->text, "result|content|0|text", "kept " ACCEPT);
        client_free(resumed);
        client_free(fresh);
        client_free(get);
        client_free(c);
    }
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(question_is_a_request_on_the_stream_of_the_call),
        WITH_BENCH(pipe_receives_questions_on_itself),
        WITH_BENCH(answer_from_another_session_is_ignored),
        WITH_BENCH(invalid_answers_fail_the_call),
        WITH_BENCH(questions_require_a_declared_capability),
        WITH_BENCH(model_questions_with_tools_require_the_declaration),
        WITH_BENCH(calls_of_a_batch_ask_and_answers_arrive_in_one),
        WITH_BENCH(cancelled_call_withdraws_its_question),
        WITH_BENCH(unanswered_question_times_out),
        WITH_BENCH(disconnected_client_cancels_its_call),
        WITH_BENCH(open_questions_are_limited),
        WITH_BENCH(lost_stream_resumes_with_unanswered_questions),
        WITH_BENCH(answer_is_retained_for_a_resuming_client),
        WITH_BENCH(retained_answer_expires),
        WITH_BENCH(client_without_a_stream_is_asked_on_the_session_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
