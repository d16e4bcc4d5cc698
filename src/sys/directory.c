/* directory.c - names: create, list, rename, remove, and making them durable.
 *
 * Thread:     any. Calls marked BLOCKS in sys.h are for tasks that may wait.
 * Failure:    as file.c; a failed sync is always ERR_IO. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum err sys_path_stat(struct sys *sys, const char *path, struct sys_stat *out)
{
    (void)sys;
    *out = (struct sys_stat){0};
    struct stat st;
    if (stat(path, &st) < 0) { return sys_err(errno); }
    *out = (struct sys_stat){
        .size = (uint64_t)st.st_size,
        .device = (uint64_t)st.st_dev,
        .allocated = (uint64_t)st.st_blocks * 512,
        .modified_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000,
        .is_dir = S_ISDIR(st.st_mode),
    };
    return ERR_OK;
}

enum err sys_dir_create(struct sys *sys, const char *path)
{
    (void)sys;
    return mkdir(path, 0755) < 0 ? sys_err(errno) : ERR_OK;
}

static enum err sys_dir_open(const char *path, int *fd)
{
    do {
        *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? sys_err(errno) : ERR_OK;
}

enum err sys_dir_sync(struct sys *sys, const char *path)
{
    (void)sys;
    int fd;
    enum err e = sys_dir_open(path, &fd);
    if (e) { return e; }
    int rc;
    do {
        rc = fsync(fd);
    } while (rc < 0 && errno == EINTR);
    (void)close(fd);
    return rc < 0 ? ERR_IO : ERR_OK;
}

/* Takes fd in. The descriptor stays open, since the kernel reports a write-back error once to each
 * one that was open when it happened. */
static int sys_fs_sync_fd(struct sys *sys, struct sys_device *d, int fd)
{
    sys_mutex_lock(&sys->lock);
    if (d->sync_fd < 0) {
        d->sync_fd = fd;
    } else {
        (void)close(fd);
    }
    int kept = d->sync_fd;
    sys_mutex_unlock(&sys->lock);
    return kept;
}

enum err sys_fs_sync(struct sys *sys, const char *path)
{
    int fd;
    enum err e = sys_dir_open(path, &fd);
    if (e) { return e; }
    struct stat st;
    struct sys_device *d = fstat(fd, &st) < 0 ? NULL : sys_device_of(sys, (uint64_t)st.st_dev);
    int rc;
    if (d) { fd = sys_fs_sync_fd(sys, d, fd); }
    do {
        rc = syncfs(fd);
    } while (rc < 0 && errno == EINTR);
    if (!d) { (void)close(fd); }
    return rc < 0 ? ERR_IO : ERR_OK;
}

enum err sys_fs_free(struct sys *sys, const char *path, uint64_t *bytes)
{
    (void)sys;
    *bytes = 0;
    struct statvfs st;
    if (statvfs(path, &st) < 0) { return sys_err(errno); }
    *bytes = (uint64_t)st.f_bavail * (uint64_t)st.f_frsize;
    return ERR_OK;
}

enum err sys_fs_total(struct sys *sys, const char *path, uint64_t *bytes)
{
    (void)sys;
    *bytes = 0;
    struct statvfs st;
    if (statvfs(path, &st) < 0) { return sys_err(errno); }
    *bytes = (uint64_t)st.f_blocks * (uint64_t)st.f_frsize;
    return ERR_OK;
}

enum err sys_path_rename(struct sys *sys, const char *from, const char *to)
{
    (void)sys;
    return rename(from, to) < 0 ? sys_err(errno) : ERR_OK;
}

enum err sys_path_unlink(struct sys *sys, const char *path)
{
    (void)sys;
    return unlink(path) < 0 ? sys_err(errno) : ERR_OK;
}

enum err sys_dir_remove(struct sys *sys, const char *path)
{
    (void)sys;
    return rmdir(path) < 0 ? sys_err(errno) : ERR_OK;
}

struct sys_names {
    struct sys_name *at;
    size_t count;
    size_t capacity;
};

struct sys_name {
    char *text; /* owned */
    bool is_dir;
};

static int sys_name_cmp(const void *a, const void *b)
{
    const struct sys_name *x = a, *y = b;
    return strcmp(x->text, y->text);
}

static enum err sys_names_add(struct sys_names *names, const char *text, bool is_dir)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 16;
        struct sys_name *at = mem_realloc(names->at, capacity * sizeof *at);
        if (!at) { return ERR_NOMEM; }
        names->at = at;
        names->capacity = capacity;
    }
    char *copy = mem_strdup(text);
    if (!copy) { return ERR_NOMEM; }
    names->at[names->count++] = (struct sys_name){.text = copy, .is_dir = is_dir};
    return ERR_OK;
}

static void sys_names_fini(struct sys_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        mem_free(names->at[i].text);
    }
    mem_free(names->at);
}

static bool sys_dirent_is_dir(int fd, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) { return entry->d_type == DT_DIR; }
    struct stat st;
    return fstatat(fd, entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static enum err sys_names_read(struct sys_names *names, const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) { return sys_err(errno); }
    enum err e = ERR_OK;
    while (!e) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            e = errno ? sys_err(errno) : ERR_OK;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) { continue; }
        e = sys_names_add(names, entry->d_name, sys_dirent_is_dir(dirfd(dir), entry));
    }
    (void)closedir(dir);
    return e;
}

enum err sys_dir_list(struct sys *sys, const char *path,
                      enum err (*visit)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    (void)sys;
    struct sys_names names = {0};
    enum err e = sys_names_read(&names, path);
    if (!e && names.count > 1) { qsort(names.at, names.count, sizeof names.at[0], sys_name_cmp); }
    for (size_t i = 0; !e && i < names.count; i++) {
        e = visit(ctx, names.at[i].text, names.at[i].is_dir);
    }
    sys_names_fini(&names);
    return e;
}
