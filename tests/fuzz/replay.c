/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target over files without a fuzzing engine, so that every ordinary test run replays
 * the corpora: each file whole, and short ones also cut after every byte. Each input lies in memory
 * of exactly its size, so that a sanitizer sees a read beyond it.
 *
 * usage: fuzz_NAME [-v] FILE-OR-DIRECTORY…; -v names each input before it is run
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CUT_MAX_BYTES 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool verbose;

static bool run_bytes(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) {
        return false;
    }
    if (size) {
        memcpy(exact, data, size);
    }
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return true;
}

static bool run_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    bool ok = file && data && fread(data, 1, size, file) == size;
    if (!ok) {
        fprintf(stderr, "cannot read '%s'\n", path);
    }
    if (ok && verbose) {
        fprintf(stderr, "%s\n", path);
    }
    for (size_t cut = size <= CUT_MAX_BYTES ? 0 : size; ok && cut <= size; cut++) {
        ok = run_bytes(data, cut);
    }
    free(data);
    if (file) {
        fclose(file);
    }
    return ok;
}

static bool run_path(const char *path, size_t *count)
{
    struct stat about;
    if (stat(path, &about) < 0) {
        fprintf(stderr, "cannot read '%s'\n", path);
        return false;
    }
    if (!S_ISDIR(about.st_mode)) {
        ++*count;
        return run_file(path, (size_t)about.st_size);
    }
    DIR *dir = opendir(path);
    bool ok = dir != NULL;
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        char name[4096];
        int len = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && len > 0 && (size_t)len < sizeof name) {
            ok = run_path(name, count);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return ok;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    bool ok = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            verbose = true;
        } else {
            ok = run_path(argv[i], &count) && ok;
        }
    }
    printf("%zu inputs\n", count);
    return ok && count > 0 ? 0 : 1;
}
