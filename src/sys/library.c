/* library.c - shared libraries that only some commands and some brokers need: loaded when they are
 * asked for, since what a library brings along would cost time and memory in all others.
 *
 * Thread:     any.
 * Ownership:  a library that was loaded stays for the life of the process. */
#include "sys/sys_int.h"

#include <dlfcn.h>
#include <string.h>

enum err sys_library_load(const char *name, const char *const *symbols, size_t count,
                          sys_function **out)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) { return ERR_NOTFOUND; }
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(library, symbols[i]);
        if (!at) { return ERR_UNSUPPORTED; }
        _Static_assert(sizeof at == sizeof out[i], "POSIX: dlsym() gives functions, too");
        memcpy(&out[i], &at, sizeof at);
    }
    return ERR_OK;
}
