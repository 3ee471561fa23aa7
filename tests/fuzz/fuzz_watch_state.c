/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the state of a watch: rejected with an error message, or read; a state that was read
 * is written such that it reads back the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const struct watch_state *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        abort();
    }
    watch_state_write(out, s);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct watch_state first = {0}, second = {0};
    struct tidings_error err = {0};
    if (watch_state_parse(tidings_strn((const char *)data, size), &first, &err) < 0) {
        return err.code < 0 && err.text[0] && !first.marks ? 0 : (abort(), 0);
    }
    char *text = written(&first);
    if (first.count > WATCH_STATE_MAX || watch_state_parse(tidings_str(text), &second, &err) < 0 ||
        second.count != first.count) {
        abort();
    }
    char *again = written(&second);
    if (strcmp(text, again) != 0) {
        abort();
    }
    free(text);
    free(again);
    watch_state_deinit(&first);
    watch_state_deinit(&second);
    return 0;
}
