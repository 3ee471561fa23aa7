/* SPDX-License-Identifier: MIT
 *
 * Blanking comments and trailing commas in JSON files, byte by byte, strings left alone.
 */
#include "json/comments.h"

#include <stdbool.h>
#include <string.h>

unsigned json_blank_comments(char *text, size_t len)
{
    unsigned line = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        line += text[i] == '\n' ? 1 : 0;
        if (in_string) {
            in_string = text[i] != '"' && text[i] != '\n';
            i += text[i] == '\\' ? 1 : 0;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '/') {
            for (; i < len && text[i] != '\n'; i++) {
                text[i] = ' ';
            }
            line += i < len ? 1 : 0;
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '*') {
            unsigned opened = line;
            text[i] = text[i + 1] = ' ';
            for (i += 2; i + 1 < len && !(text[i] == '*' && text[i + 1] == '/'); i++) {
                line += text[i] == '\n' ? 1 : 0;
                text[i] = text[i] == '\n' ? '\n' : ' ';
            }
            if (i + 1 >= len) {
                return opened;
            }
            text[i] = text[i + 1] = ' ';
            i++;
        }
    }
    return 0;
}

void json_blank_commas(char *text, size_t len)
{
    char *comma = NULL;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            in_string = c != '"' && c != '\n';
            i += c == '\\' ? 1 : 0;
            continue;
        }
        if (comma && (c == '}' || c == ']')) {
            *comma = ' ';
        }
        if (c == ',') {
            comma = text + i;
        } else if (c == '\0' || !strchr(" \t\r\n", c)) {
            comma = NULL;
        }
        in_string = c == '"';
    }
}

bool json_is_list(const struct json *v)
{
    return jv_is(v, JV_ARRAY) || jv_is(v, JV_STRING);
}

size_t json_list_count(const struct json *v)
{
    return jv_is(v, JV_STRING) ? 1 : jv_is(v, JV_ARRAY) ? jv_count(v) : 0;
}

const struct json *json_list_at(const struct json *v, size_t index)
{
    return jv_is(v, JV_STRING) ? v : jv_at(v, index);
}
