/* SPDX-License-Identifier: MIT
 *
 * What a client is offered: the list of tools or prompts, and the answer when there is none of that
 * name.
 */
#include "base/str.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "request/page.h"
#include "request/request.h"

#define UNKNOWN_MAX 4096u /* bytes of a sentence with names in it */

bool call_is_offered(const struct request *request, const struct feature *f)
{
    if (f->writes.len == 0) {
        return true;
    }
    if (!access_writes(request->principal, f->writes)) {
        return false;
    }
    struct channel_facts facts = {0};
    if (!access_is_by_rule(request->principal) && request->channel) {
        channel_get_facts(request->channel, &facts);
    }
    return access_is_by_rule(request->principal) || facts.is_local;
}

void call_refuse_unknown(struct request *request, enum feature_kind kind, const char *what,
                         struct tidings_str name)
{
    struct tidings_str near[FEATURE_SUGGESTIONS];
    const struct feature_list *list = request->worker->handlers->features[kind];
    size_t found = feature_suggest(list, name, near), count = 0;
    for (size_t i = 0; i < found; i++) {
        if (call_is_offered(request, feature_find(list, near[i]))) {
            near[count++] = near[i];
        }
    }
    struct buf text, data;
    struct jw w;
    buf_init(&text, UNKNOWN_MAX);
    buf_init(&data, UNKNOWN_MAX);
    buf_putf(&text, "unknown %s '%.*s'", what, STR_ARG_MAX(name, 128));
    jw_init(&w, &data);
    jw_begin_object(&w);
    jw_key(&w, STR("suggestions"));
    jw_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        buf_putf(&text, "%s'%.*s'", i == 0 ? "; did you mean " : " or ", STR_ARG(near[i]));
        jw_string(&w, near[i]);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    buf_puts(&text, count > 0 ? STR("?") : STR_EMPTY);
    request_fail_details(request, TIDINGS_E_INVALID,
                         text.failed ? STR("out of memory") : buf_str(&text),
                         count > 0 && !data.failed ? buf_str(&data) : STR_EMPTY);
    buf_deinit(&data);
    buf_deinit(&text);
}

void call_list(struct request *request, enum feature_kind kind, struct tidings_str key, char source)
{
    struct tidings_str after;
    const char sources[] = {source, '\0'};
    size_t wanted = page_size(request);
    if (wanted == 0 || !page_read_cursor(request, sources, NULL, &after)) {
        return;
    }
    const struct feature_list *list = request->worker->handlers->features[kind];
    size_t count = list ? list->count : 0, at = feature_list_after(list, after);
    size_t end = count - at < wanted ? count : at + wanted;
    request_begin(request);
    jw_key(&request->w, key);
    jw_begin_array(&request->w);
    for (size_t i = at; list && i < end; i++) {
        if (call_is_offered(request, list->at[i])) {
            jw_raw(&request->w, list->at[i]->row);
        }
    }
    jw_end_array(&request->w);
    if (list && end < count) {
        page_write_cursor(&request->w, source, list->at[end - 1]->name);
    }
    request_end(request, CACHE_NOW);
}
