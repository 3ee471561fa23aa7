/* SPDX-License-Identifier: MIT
 *
 * The numbers in the settings of a mount of files (provider/file.h says what they mean), as they
 * are in effect.
 */
#ifndef PROVIDER_FILE_SETTINGS_H
#define PROVIDER_FILE_SETTINGS_H

#include <stdint.h>

struct file_settings {
    int64_t max_read;
    int64_t max_watches;
    int64_t quiet_ms;
    int64_t modify_ms;
    int64_t linger_ms;
    int64_t poll_ms;
    int64_t kept_nodes;
};

#endif
