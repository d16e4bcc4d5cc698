/* parent.c - the directory above a path; over the rest of sys.h, so the simulator compiles it too.
 */
#include "base/mem.h"
#include "sys/sys.h"

enum err sys_parent_sync(struct sys *sys, const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') {
        size--;
    }
    while (size > 0 && path[size - 1] != '/') {
        size--;
    }
    while (size > 1 && path[size - 1] == '/') {
        size--;
    }
    char *parent = size > 0 ? mem_strndup(path, size) : mem_strdup(".");
    if (!parent) { return ERR_NOMEM; }
    enum err e = sys_dir_sync(sys, parent);
    mem_free(parent);
    return e == ERR_ACCESS ? ERR_OK : e;
}
