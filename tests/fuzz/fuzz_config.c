/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a configuration file: an answer, no crash; accepted input prints and reads back.
 */
#include <stdlib.h>

#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c;
    struct tidings_error err;
    if (config_init(&c, &err) == 0 &&
        config_load_text(&c, "tidings.json", tidings_strn((const char *)data, size), &err) == 0) {
        struct buf printed;
        struct config again;
        buf_init(&printed, 1u << 24);
        if (config_print(&c, &printed) < 0 || config_init(&again, &err) < 0 ||
            config_load_text(&again, "/tidings.json", buf_str(&printed), &err) < 0) {
            abort();
        }
        config_deinit(&again);
        buf_deinit(&printed);
    }
    config_deinit(&c);
    return 0;
}
