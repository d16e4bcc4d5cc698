/* file.c - open files over simulated disks. Each function does what src/sys/file.c says. */
#include "base/crc32c.h"
#include "sim/machine_int.h"

#include <stdlib.h>

static void sim_file_add(struct sys_file *f)
{
    struct sys_file **end = &f->process->files;
    while (*end) {
        end = &(*end)->next;
    }
    *end = f;
}

void sim_file_drop(struct sys_file *f)
{
    struct sys_file **at = &f->process->files;
    while (*at != f) {
        at = &(*at)->next;
    }
    *at = f->next;
    f->inode->opens--;
    if (f->has_lock) { f->inode->is_locked = false; }
    free(f->path);
    free(f);
}

static enum err sim_open_create(struct sim_process *p, struct sim_place *place, unsigned flags)
{
    if (place->inode) { return flags & SYS_EXCLUSIVE ? ERR_EXISTS : ERR_OK; }
    if (!(flags & SYS_CREATE)) { return ERR_NOTFOUND; }
    if (sim_disk_space_used(place->disk) >= place->disk->faults.space_bytes) {
        sim_world->counts.no_space++;
        return ERR_NOSPACE;
    }
    place->inode = sim_inode_new(place->disk, false);
    place->inode->modified_ms = sys_wall_ms(&p->sys);
    sim_names_change(place->disk, NULL, NULL, place->dir, place->name, place->inode);
    return ERR_OK;
}

enum err sys_file_open(struct sys *sys, const char *path, unsigned flags, struct sys_file **out)
{
    *out = NULL;
    struct sim_process *p = sys->process;
    struct sim_place place;
    sim_check_log_lock();
    enum err e = sim_find(p->host, path, &place);
    if (e) { return e; }
    if (!place.disk || (place.inode && place.inode->is_dir && flags & SYS_WRITE)) {
        return ERR_INVALID;
    }
    e = sim_disk_call(place.disk, flags & SYS_CREATE ? SIM_CALL_WRITE : SIM_CALL_READ);
    if (e) { return e; }
    e = sim_find(p->host, path, &place); /* the call may have taken its time */
    if (!e) { e = sim_open_create(p, &place, flags); }
    sim_event(p, "open %s flags %u: %s", path, flags, err_name(e));
    if (e) { return e; }
    if (flags & SYS_TRUNCATE && place.inode->now.size > 0) {
        sim_change_add(place.inode, true, 0, NULL, 0);
    }
    struct sys_file *f = sim_alloc(sizeof *f);
    *f = (struct sys_file){.process = p,
                           .inode = place.inode,
                           .path = sim_strdup(path),
                           .refs = 1,
                           .is_writable = flags & SYS_WRITE};
    f->inode->opens++;
    sim_file_add(f);
    *out = f;
    return ERR_OK;
}

struct sys_file *sys_file_ref(struct sys_file *f)
{
    CHECK(f->refs > 0);
    f->refs++;
    return f;
}

void sys_file_unref(struct sys_file *f)
{
    if (!f) { return; }
    CHECK(f->refs > 0);
    if (--f->refs == 0) { sim_file_drop(f); }
}

uint64_t sys_file_device(const struct sys_file *f)
{
    return f->inode->disk->device;
}

/* A processor (a task with a poller) must not wait for the disk. */
void sim_file_note_read(const struct sys_file *f)
{
    const struct sim_fiber *fiber = sim_world->fiber;
    if (f->inode->is_cold && fiber && fiber->task && fiber->task->poller) {
        sim_world->counts.cold_reads_in_poller++;
        sim_event(f->process, "cold read of %s in %s", f->path, fiber->name);
    }
    f->inode->is_cold = false;
}

enum err sys_file_read(struct sys_file *f, void *buf, size_t size, uint64_t pos, size_t *got)
{
    *got = 0;
    enum err e = sim_disk_call(f->inode->disk, SIM_CALL_READ);
    if (e) {
        sim_event(f->process, "read %s %llu+%zu: %s", f->path, (unsigned long long)pos, size,
                  err_name(e));
        return e;
    }
    sim_file_note_read(f);
    const struct sim_bytes *b = &f->inode->now;
    if (pos < b->size) {
        *got = b->size - (size_t)pos < size ? b->size - (size_t)pos : size;
        memcpy(buf, b->at + pos, *got);
    }
    return ERR_OK;
}

/* How much of a write from pos fits on the disk. */
static size_t sim_room(const struct sim_inode *i, uint64_t pos, size_t size)
{
    uint64_t space = i->disk->faults.space_bytes;
    if (space == UINT64_MAX) { return size; }
    uint64_t used = sim_disk_space_used(i->disk);
    uint64_t has = i->reserved > i->now.size ? i->reserved : i->now.size;
    uint64_t end = has + (space > used ? space - used : 0);
    if (pos >= end) { return 0; }
    return end - pos < size ? (size_t)(end - pos) : size;
}

enum err sys_file_write(struct sys_file *f, const struct sys_iov *iov, size_t iov_count,
                        uint64_t pos, size_t *written)
{
    *written = 0;
    if (!f->is_writable) { return ERR_IO; } /* EBADF in src/sys */
    struct sim_inode *i = f->inode;
    enum err e = sim_disk_call(i->disk, SIM_CALL_WRITE);
    uint32_t crc = 0;
    for (size_t n = 0; !e && n < iov_count; n++) {
        size_t fits = sim_room(i, pos + *written, iov[n].size);
        if (fits) { sim_change_add(i, false, pos + *written, iov[n].at, fits); }
        crc = crc32c(crc, iov[n].at, fits);
        *written += fits;
        if (fits < iov[n].size) {
            sim_world->counts.no_space++;
            e = ERR_NOSPACE;
        }
    }
    i->modified_ms = sys_wall_ms(&f->process->sys);
    sim_event(f->process, "write %s %llu+%zu crc %08x: %s", f->path, (unsigned long long)pos,
              *written, crc, err_name(e));
    return e;
}

enum err sys_file_sync(struct sys_file *f)
{
    struct sim_inode *i = f->inode;
    uint64_t seq = i->disk->seq; /* what comes while it runs is not covered */
    sim_event(f->process, "sync %s begins", f->path);
    enum err e = sim_disk_call(i->disk, SIM_CALL_SYNC);
    sim_inode_settle(i, seq, !e);
    sim_event(f->process, "sync %s: %s", f->path, err_name(e));
    return e;
}

enum err sys_file_truncate(struct sys_file *f, uint64_t size)
{
    if (!f->is_writable) { return ERR_INVALID; }
    struct sim_inode *i = f->inode;
    enum err e = sim_disk_call(i->disk, SIM_CALL_WRITE);
    if (!e) {
        if (size != i->now.size) { sim_change_add(i, true, size, NULL, 0); }
        i->reserved = 0;
        i->modified_ms = sys_wall_ms(&f->process->sys);
    }
    sim_event(f->process, "truncate %s to %llu: %s", f->path, (unsigned long long)size,
              err_name(e));
    return e;
}

enum err sys_file_size(struct sys_file *f, uint64_t *size)
{
    *size = f->inode->now.size;
    return ERR_OK;
}

enum err sys_file_reserve(struct sys_file *f, uint64_t pos, uint64_t size)
{
    struct sim_inode *i = f->inode;
    enum err e = sim_disk_call(i->disk, SIM_CALL_WRITE);
    if (e) { return e; }
    CHECK(size <= SIZE_MAX);
    if (sim_room(i, pos, (size_t)size) < size) {
        sim_world->counts.no_space++;
        return ERR_NOSPACE;
    }
    if (pos + size > i->reserved) { i->reserved = pos + size; }
    return ERR_OK;
}

bool sys_file_is_warm(struct sys_file *f, uint64_t pos, uint64_t size)
{
    (void)pos;
    if (size == 0) { return true; }
    /* Now and then the kernel needs the page for something else. */
    if (sim_chance(sim_world, f->inode->disk->faults.cold_permille / 10)) {
        f->inode->is_cold = true;
    }
    return !f->inode->is_cold;
}

enum err sys_file_warm(struct sys_file *f, uint64_t pos, uint64_t size)
{
    (void)pos;
    (void)size;
    struct sim_disk *d = f->inode->disk;
    if (f->inode->is_cold) {
        sim_fiber_sleep_until(sim_world->now_ns + 1 + sim_below(sim_world, SYS_MS));
    }
    enum err e = sim_disk_call(d, SIM_CALL_READ);
    if (!e) { f->inode->is_cold = false; }
    return e;
}

enum err sys_lock_take(struct sys *sys, const char *path, struct sys_file **out)
{
    enum err e = sys_file_open(sys, path, SYS_WRITE | SYS_CREATE, out);
    if (e) { return e; }
    if ((*out)->inode->is_locked) {
        sys_file_unref(*out);
        *out = NULL;
        return ERR_BUSY;
    }
    (*out)->inode->is_locked = (*out)->has_lock = true;
    return ERR_OK;
}
