/* SPDX-License-Identifier: MIT
 *
 * Any string as an instant: accepted input is written in our one spelling and read back as the
 * same.
 */
#include <stdlib.h>

#include "base/str.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str text = tidings_strn(size ? (const char *)data : "", size);
    struct tidings_error err = {0};
    char room[TIMELINE_TEXT];
    int64_t ms = 0, again = 1;
    if (timeline_parse(text, &ms, &err) == 0) {
        require(ms < TIMELINE_FOREVER);
        require(timeline_parse(timeline_text(ms, room), &again, &err) == 0 && again == ms);
    } else {
        require(err.text[0] != '\0');
    }
    return 0;
}
