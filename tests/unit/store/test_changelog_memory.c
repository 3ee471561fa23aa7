/* SPDX-License-Identifier: MIT
 *
 * The change log in memory keeps the contract of change logs and makes no further promises. */
#include "contract/changelog_suite.c"

int main(void)
{
    return changelog_suite("memory", changelog_memory_create);
}
