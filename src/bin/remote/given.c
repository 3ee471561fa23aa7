/* SPDX-License-Identifier: MIT
 *
 * Reads what is given to a command: arguments that are JSON, files, standard input.
 */
#include "bin/remote/given.h"

#include <errno.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/remote/target.h"

#define INPUT_MAX (16u << 20)

char *given_bytes(const char *path, size_t max, size_t *ret_len, struct tidings_error *err)
{
    bool is_input = strcmp(path, "-") == 0;
    FILE *in = is_input ? stdin : fopen(path, "rbe");
    size_t len = 0, room = 0;
    char *text = NULL;
    if (!in) {
        tidings_fail(err, errno == ENOENT ? TIDINGS_E_NOTFOUND : TIDINGS_E_IO, "%.160s: %s", path,
                     strerror(errno));
        target_is_innocent();
        return NULL;
    }
    if (is_input && is_terminal(stdin) && is_terminal(stderr)) {
        fputs("(reading standard input; Ctrl-D ends it)\n", stderr);
    }
    for (size_t n = 1; n > 0 && len <= max; len += n) {
        if (room - len < 2) {
            room = room > 0 ? 2 * room : 65536;
            char *more = realloc(text, room);
            if (!more) {
                tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
                goto fail;
            }
            text = more;
        }
        n = fread(text + len, 1, room - len - 1, in);
    }
    if (ferror(in) || len > max) {
        tidings_fail(err, len > max ? TIDINGS_E_LIMIT : TIDINGS_E_IO, "%.160s: %s", path,
                     len > max ? "it is too large" : strerror(errno));
        goto fail;
    }
    text[len] = '\0';
    *ret_len = len;
    if (!is_input) {
        fclose(in);
    }
    return text;
fail:
    target_is_innocent();
    if (!is_input) {
        fclose(in);
    }
    free(text);
    return NULL;
}

char *given_json(const char *argument, struct tidings_error *err)
{
    struct tidings_error why = {0};
    size_t len = 0;
    char *input = NULL;
    if (strcmp(argument, "-") == 0 || argument[0] == '@') {
        input = given_bytes(argument[0] == '@' ? argument + 1 : "-", INPUT_MAX, &len, err);
        if (!input) {
            return NULL;
        }
    }
    char *json =
        tidings_json_compact(input ? tidings_strn(input, len) : tidings_str(argument), &why);
    if (!json) {
        bool is_pair = !input && strchr(argument, '=') && !strpbrk(argument, "{[\"");
        tidings_fail(err, why.code, "%s%.60s%s: %s%s", input ? "" : "'",
                     argument[0] == '@'           ? argument + 1
                     : strcmp(argument, "-") == 0 ? "standard input"
                                                  : argument,
                     input ? "" : "'", why.text,
                     is_pair ? "; JSON is wanted, such as {\"name\": \"value\"}" : "");
    }
    free(input);
    return json;
}
