/* path.c - names on simulated disks: find, create, list, rename, remove, sync. */
#include "base/mem.h"
#include "sim/machine_int.h"

#include <stdlib.h>

static bool sim_next_name(const char **path, const char **name, size_t *size)
{
    const char *p = *path;
    for (;;) {
        while (*p == '/') {
            p++;
        }
        size_t n = strcspn(p, "/");
        *name = p;
        *size = n;
        p += n;
        if (n == 0) { return false; }
        if (n != 1 || (*name)[0] != '.') { break; }
    }
    *path = p;
    return true;
}

enum err sim_find(struct sim_host *host, const char *path, struct sim_place *out)
{
    *out = (struct sim_place){0};
    const char *name;
    size_t size;
    if (!sim_next_name(&path, &name, &size)) { return ERR_OK; }
    out->disk = sim_disk_of(host, name, size);
    out->inode = out->disk->root;
    while (sim_next_name(&path, &name, &size)) {
        if (size >= sizeof out->name) { return ERR_INVALID; }
        if (!out->inode || !out->inode->is_dir) {
            out->dir = NULL; /* a directory on the way is missing: nothing can be made here */
            out->inode = NULL;
            return ERR_NOTFOUND;
        }
        CHECKF(size != 2 || name[0] != '.' || name[1] != '.', "no '..' here: %s", path);
        out->dir = out->inode;
        memcpy(out->name, name, size);
        out->name[size] = '\0';
        out->inode = sim_entries_get(&out->dir->names_now, out->name);
    }
    return ERR_OK;
}

/* The place after one call of its disk; ERR_NOTFOUND unless something is there. */
static enum err sim_reach(struct sys *sys, const char *path, enum sim_call kind,
                          struct sim_place *out)
{
    struct sim_host *host = sys->process->host;
    sim_check_log_lock();
    enum err e = sim_find(host, path, out);
    if (e) { return e; }
    if (out->disk) {
        e = sim_disk_call(out->disk, kind);
        if (!e) { e = sim_find(host, path, out); }
        if (e) { return e; }
    }
    return out->inode || !out->disk ? ERR_OK : ERR_NOTFOUND;
}

enum err sys_path_stat(struct sys *sys, const char *path, struct sys_stat *out)
{
    *out = (struct sys_stat){0};
    struct sim_place place;
    enum err e = sim_reach(sys, path, SIM_CALL_READ, &place);
    if (e) { return e; }
    if (!place.disk) {
        *out = (struct sys_stat){.is_dir = true};
        return ERR_OK;
    }
    const struct sim_inode *i = place.inode;
    uint64_t allocated = i->reserved > i->now.size ? i->reserved : i->now.size;
    *out = (struct sys_stat){.size = i->now.size,
                             .device = place.disk->device,
                             .allocated = (allocated + 511) / 512 * 512,
                             .modified_ms = i->modified_ms,
                             .is_dir = i->is_dir};
    return ERR_OK;
}

enum err sys_dir_create(struct sys *sys, const char *path)
{
    struct sim_place place;
    enum err e = sim_reach(sys, path, SIM_CALL_WRITE, &place);
    if (!e) { return ERR_EXISTS; }
    if (e != ERR_NOTFOUND || !place.dir || place.inode) { return e; }
    if (sim_entries_get(&place.dir->names_now, place.name)) { return ERR_EXISTS; }
    place.inode = sim_inode_new(place.disk, true);
    sim_names_change(place.disk, NULL, NULL, place.dir, place.name, place.inode);
    sim_event(sys->process, "mkdir %s", path);
    return ERR_OK;
}

enum err sys_dir_sync(struct sys *sys, const char *path)
{
    struct sim_place place;
    enum err e = sim_find(sys->process->host, path, &place);
    if (e) { return e; }
    if (!place.disk) { return ERR_OK; }
    if (!place.inode || !place.inode->is_dir) { return ERR_NOTFOUND; }
    uint64_t seq = place.disk->seq;
    sim_world->counts.name_syncs++;
    e = sim_disk_call(place.disk, SIM_CALL_SYNC);
    if (!e) { sim_names_settle(place.disk, place.inode, seq); }
    sim_event(sys->process, "sync of directory %s: %s", path, err_name(e));
    return e;
}

enum err sys_fs_sync(struct sys *sys, const char *path)
{
    struct sim_place place;
    enum err e = sim_find(sys->process->host, path, &place);
    if (e) { return e; }
    if (!place.disk || !place.inode) { return ERR_NOTFOUND; }
    uint64_t seq = place.disk->seq;
    sim_event(sys->process, "sync of disk %s begins", place.disk->name);
    e = sim_disk_call(place.disk, SIM_CALL_SYNC);
    for (struct sim_inode *i = place.disk->inodes; i; i = i->next) {
        sim_inode_settle(i, seq, !e);
    }
    if (!e) { sim_names_settle(place.disk, NULL, seq); }
    sim_event(sys->process, "sync of disk %s: %s", place.disk->name, err_name(e));
    return e;
}

enum err sys_fs_free(struct sys *sys, const char *path, uint64_t *bytes)
{
    *bytes = 0;
    struct sim_place place;
    enum err e = sim_find(sys->process->host, path, &place);
    if (e) { return e; }
    uint64_t space = place.disk ? place.disk->faults.space_bytes : UINT64_MAX;
    uint64_t used = place.disk ? sim_disk_space_used(place.disk) : 0;
    *bytes = space > used ? space - used : 0;
    return ERR_OK;
}

enum err sys_fs_total(struct sys *sys, const char *path, uint64_t *bytes)
{
    *bytes = 0;
    struct sim_place place;
    enum err e = sim_find(sys->process->host, path, &place);
    if (!e) { *bytes = place.disk ? place.disk->faults.space_bytes : UINT64_MAX; }
    return e;
}

/* What a rename may replace. */
static enum err sim_may_replace(const struct sim_inode *by, const struct sim_inode *old)
{
    if (!old) { return ERR_OK; }
    if (old->is_dir != by->is_dir) { return ERR_INVALID; }
    return old->names_now.count > 0 ? ERR_EXISTS : ERR_OK;
}

enum err sys_path_rename(struct sys *sys, const char *from, const char *to)
{
    struct sim_place source, target;
    enum err e = sim_reach(sys, from, SIM_CALL_WRITE, &source);
    if (!e) { e = sim_find(sys->process->host, to, &target); }
    if (e) { return e; }
    if (!source.dir || !target.dir || source.disk != target.disk) { return ERR_UNSUPPORTED; }
    if (source.inode == target.inode) { return ERR_OK; }
    e = sim_may_replace(source.inode, target.inode);
    if (!e) {
        sim_names_change(source.disk, source.dir, source.name, target.dir, target.name,
                         source.inode);
    }
    sim_event(sys->process, "rename %s to %s: %s", from, to, err_name(e));
    return e;
}

static enum err sim_remove(struct sys *sys, const char *path, bool is_dir)
{
    struct sim_place place;
    enum err e = sim_reach(sys, path, SIM_CALL_WRITE, &place);
    if (e) { return e; }
    if (!place.dir) { return ERR_BUSY; }
    if (place.inode->is_dir != is_dir) { return is_dir ? ERR_NOTFOUND : ERR_INVALID; }
    if (place.inode->names_now.count > 0) { return ERR_EXISTS; }
    sim_names_change(place.disk, place.dir, place.name, NULL, NULL, place.inode);
    sim_event(sys->process, "remove %s", path);
    return ERR_OK;
}

enum err sys_path_unlink(struct sys *sys, const char *path)
{
    return sim_remove(sys, path, false);
}

enum err sys_dir_remove(struct sys *sys, const char *path)
{
    return sim_remove(sys, path, true);
}

static int sim_name_cmp(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Copies of the names in order, in the heap of the process; NULL-terminated. */
static char **sim_names_sorted(const struct sim_inode *dir)
{
    char **names = mem_array(dir->names_now.count + 1, sizeof *names);
    for (size_t i = 0; names && i < dir->names_now.count; i++) {
        names[i] = mem_strdup(dir->names_now.at[i].name);
        if (names[i]) { continue; }
        while (i > 0) {
            mem_free(names[--i]);
        }
        mem_free(names);
        return NULL;
    }
    if (names && dir->names_now.count > 1) {
        qsort(names, dir->names_now.count, sizeof *names, sim_name_cmp);
    }
    return names;
}

enum err sys_dir_list(struct sys *sys, const char *path,
                      enum err (*visit)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    struct sim_place place;
    enum err e = sim_reach(sys, path, SIM_CALL_READ, &place);
    if (e) { return e; }
    if (!place.inode || !place.inode->is_dir) { return ERR_NOTFOUND; }
    char **names = sim_names_sorted(place.inode);
    if (!names) { return ERR_NOMEM; }
    for (size_t i = 0; names[i]; i++) {
        /* A name that the visitor has removed meanwhile was listed as what it is no more. */
        const struct sim_inode *child = sim_entries_get(&place.inode->names_now, names[i]);
        if (!e && child) { e = visit(ctx, names[i], child->is_dir); }
        mem_free(names[i]);
    }
    mem_free(names);
    return e;
}
