/* SPDX-License-Identifier: MIT
 *
 * The least a program can do to look like a server on pipes: it answers the first line it gets with
 * one canned line and the third with another (the second is a notification), then waits for the end
 * of its input. It understands nothing. What bench/coldstart takes beyond this is tidings' own.
 */
#include <string.h>
#include <unistd.h>

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":"
    "{\"resources\":{}},\"serverInfo\":{\"name\":\"baseline\",\"version\":\"0\"}}}\n";
static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"resources\":[]}}\n";

int main(void)
{
    char bytes[4096];
    int lines = 0;
    for (;;) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
        if (n <= 0) {
            return 0;
        }
        const char *at = bytes;
        const char *end = bytes + n;
        while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
            at++;
            lines++;
            const char *answer = lines == 1 ? hello : lines == 3 ? list : "";
            if (write(STDOUT_FILENO, answer, strlen(answer)) < 0) {
                return 1;
            }
        }
    }
}
