/* SPDX-License-Identifier: MIT
 *
 * Capabilities by their system calls: the bounding set first, which takes one of them to change.
 */
#include "base/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define WORDS _LINUX_CAPABILITY_U32S_3

static int capabilities_read(struct __user_cap_data_struct data[WORDS])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &header, data) < 0 ? -errno : 0;
}

static uint64_t capabilities_join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

uint64_t capabilities_get(void)
{
    struct __user_cap_data_struct data[WORDS] = {{0}};
    return capabilities_read(data) == 0 ? capabilities_join(data[0].effective, data[1].effective)
                                        : 0;
}

/* Calls that fail since the kernel knows fewer capabilities end it. */
static int capabilities_bound(uint64_t kept)
{
    for (unsigned i = 0; i < 64; i++) {
        int has = prctl(PR_CAPBSET_READ, i, 0, 0, 0);
        if (has < 0) {
            break;
        }
        if (has == 1 && !(kept & CAPABILITY(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

int capabilities_keep(uint64_t wanted, struct tidings_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[WORDS] = {{0}};
    int rc = capabilities_read(data);
    uint64_t permitted = capabilities_join(data[0].permitted, data[1].permitted);
    uint64_t inheritable = capabilities_join(data[0].inheritable, data[1].inheritable);
    if (rc == 0 && permitted == 0 && inheritable == 0) {
        return 0;
    }
    uint64_t kept = permitted & wanted;
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (rc == 0 && (capabilities_get() & CAPABILITY(CAP_SETPCAP))) {
        rc = capabilities_bound(kept);
    }
    data[0] = (struct __user_cap_data_struct){(uint32_t)kept, (uint32_t)kept, 0};
    data[1] = (struct __user_cap_data_struct){(uint32_t)(kept >> 32), (uint32_t)(kept >> 32), 0};
    if (rc == 0 && syscall(SYS_capset, &header, data) < 0) {
        rc = -errno;
    }
    return rc < 0 ? error_errno(err, -rc, "give up capabilities") : 0;
}
