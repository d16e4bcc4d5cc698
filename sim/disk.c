/* disk.c - inodes, what is in the page cache and what is durable, faults of a device.
 *
 * Content: 'now' is what a read sees, 'durable' what a crash leaves for sure; between them a list
 * of changes in order. A sync applies the changes made before it began to 'durable'. A failed sync
 * forgets them: the pages are clean, the next sync succeeds, the data is gone at a crash (or at
 * once, when the page is dropped from the cache).
 * Names:      the same for directories, with one list of changes a disk. */
#include "sim/machine_int.h"

#include <stdlib.h>

/* ---- bytes ---- */

void sim_bytes_resize(struct sim_bytes *b, size_t size)
{
    if (size > b->capacity) {
        size_t capacity = b->capacity ? b->capacity : 512;
        while (capacity < size) {
            capacity *= 2;
        }
        b->at = realloc(b->at, capacity);
        CHECK(b->at);
        b->capacity = capacity;
    }
    if (size > b->size) { memset(b->at + b->size, 0, size - b->size); }
    b->size = size;
}

void sim_bytes_write(struct sim_bytes *b, uint64_t pos, const void *data, size_t size)
{
    if (size == 0) { return; }
    if (pos + size > b->size) { sim_bytes_resize(b, (size_t)pos + size); }
    memcpy(b->at + pos, data, size);
}

static void sim_bytes_change(struct sim_bytes *b, const struct sim_change *c)
{
    if (c->is_truncate) {
        sim_bytes_resize(b, (size_t)c->pos);
    } else {
        sim_bytes_write(b, c->pos, c->data, c->size);
    }
}

/* ---- names ---- */

static size_t sim_entries_find(const struct sim_entries *e, const char *name)
{
    size_t i = 0;
    while (i < e->count && strcmp(e->at[i].name, name) != 0) {
        i++;
    }
    return i;
}

struct sim_inode *sim_entries_get(const struct sim_entries *e, const char *name)
{
    size_t i = sim_entries_find(e, name);
    return i < e->count ? e->at[i].inode : NULL;
}

/* inode NULL removes the name. */
void sim_entries_set(struct sim_entries *e, const char *name, struct sim_inode *inode)
{
    size_t i = sim_entries_find(e, name);
    if (i < e->count && inode) {
        e->at[i].inode = inode;
    } else if (i < e->count) {
        free(e->at[i].name);
        memmove(&e->at[i], &e->at[i + 1], (e->count - i - 1) * sizeof e->at[0]);
        e->count--;
    } else if (inode) {
        if (e->count == e->capacity) {
            e->capacity = e->capacity ? e->capacity * 2 : 8;
            e->at = realloc(e->at, e->capacity * sizeof e->at[0]);
            CHECK(e->at);
        }
        e->at[e->count++] = (struct sim_entry){.name = sim_strdup(name), .inode = inode};
    }
}

static void sim_name_free(struct sim_name_change *c)
{
    free(c->from);
    free(c->to);
    free(c);
}

void sim_name_apply(const struct sim_name_change *c)
{
    if (c->from_dir) { sim_entries_set(&c->from_dir->names_durable, c->from, NULL); }
    if (c->to_dir) { sim_entries_set(&c->to_dir->names_durable, c->to, c->inode); }
}

void sim_names_change(struct sim_disk *d, struct sim_inode *from_dir, const char *from,
                      struct sim_inode *to_dir, const char *to, struct sim_inode *inode)
{
    if (from_dir) {
        sim_entries_set(&from_dir->names_now, from, NULL);
        inode->links--;
    }
    if (to_dir) {
        struct sim_inode *replaced = sim_entries_get(&to_dir->names_now, to);
        if (replaced) { replaced->links--; }
        sim_entries_set(&to_dir->names_now, to, inode);
        inode->links++;
    }
    struct sim_name_change *c = sim_alloc(sizeof *c);
    *c = (struct sim_name_change){
        .seq = ++d->seq,
        .from_dir = from_dir,
        .to_dir = to_dir,
        .from = from_dir ? sim_strdup(from) : NULL,
        .to = to_dir ? sim_strdup(to) : NULL,
        .inode = inode,
    };
    if (d->last) {
        d->last->next = c;
    } else {
        d->first = c;
    }
    d->last = c;
}

/* dir NULL: every directory of the disk. */
void sim_names_settle(struct sim_disk *d, const struct sim_inode *dir, uint64_t seq)
{
    struct sim_name_change **at = &d->first;
    d->last = NULL;
    while (*at) {
        struct sim_name_change *c = *at;
        if (c->seq <= seq && (!dir || c->from_dir == dir || c->to_dir == dir)) {
            sim_name_apply(c);
            *at = c->next;
            sim_name_free(c);
        } else {
            d->last = c;
            at = &c->next;
        }
    }
}

/* ---- inodes ---- */

struct sim_inode *sim_inode_new(struct sim_disk *d, bool is_dir)
{
    struct sim_inode *i = sim_alloc(sizeof *i);
    i->disk = d;
    i->is_dir = is_dir;
    i->next = d->inodes;
    d->inodes = i;
    return i;
}

void sim_change_add(struct sim_inode *i, bool is_truncate, uint64_t pos, const void *data,
                    size_t size)
{
    struct sim_change *c = sim_alloc(sizeof *c + size);
    c->seq = ++i->disk->seq;
    c->is_truncate = is_truncate;
    c->pos = pos;
    c->size = size;
    if (size) { memcpy(c->data, data, size); }
    sim_bytes_change(&i->now, c);
    if (i->last) {
        i->last->next = c;
    } else {
        i->first = c;
    }
    i->last = c;
}

void sim_inode_settle(struct sim_inode *i, uint64_t seq, bool is_kept)
{
    while (i->first && i->first->seq <= seq) {
        struct sim_change *c = i->first;
        if (is_kept) { sim_bytes_change(&i->durable, c); }
        i->first = c->next;
        if (!i->first) { i->last = NULL; }
        free(c);
    }
    if (is_kept || !sim_chance(sim_world, 500)) { return; }
    /* The clean pages leave the cache: reads see the disk again, under the size of the inode. */
    size_t size = i->now.size;
    sim_bytes_resize(&i->now, 0);
    sim_bytes_write(&i->now, 0, i->durable.at, i->durable.size);
    for (const struct sim_change *c = i->first; c; c = c->next) {
        sim_bytes_change(&i->now, c);
    }
    sim_bytes_resize(&i->now, size);
}

static void sim_entries_free(struct sim_entries *e)
{
    for (size_t n = 0; n < e->count; n++) {
        free(e->at[n].name);
    }
    free(e->at);
    *e = (struct sim_entries){0};
}

void sim_inode_free(struct sim_inode *i)
{
    while (i->first) {
        struct sim_change *c = i->first;
        i->first = c->next;
        free(c);
    }
    free(i->now.at);
    free(i->durable.at);
    sim_entries_free(&i->names_now);
    sim_entries_free(&i->names_durable);
    free(i);
}

/* ---- disks ---- */

struct sim_disk *sim_disk_of(struct sim_host *host, const char *name, size_t size)
{
    struct sim_disk **at = &host->disks;
    for (; *at; at = &(*at)->next) {
        if (strlen((*at)->name) == size && memcmp((*at)->name, name, size) == 0) { return *at; }
    }
    CHECK(size < SIM_NAME_SIZE);
    struct sim_disk *d = sim_alloc(sizeof *d);
    memcpy(d->name, name, size);
    d->host = host;
    d->device = ++host->sim->devices_made;
    d->faults.space_bytes = UINT64_MAX;
    d->root = sim_inode_new(d, true);
    d->root->links = 1;
    *at = d;
    return d;
}

void sim_disk_free(struct sim_disk *d)
{
    while (d->first) {
        struct sim_name_change *c = d->first;
        d->first = c->next;
        sim_name_free(c);
    }
    while (d->inodes) {
        struct sim_inode *i = d->inodes;
        d->inodes = i->next;
        sim_inode_free(i);
    }
    free(d);
}

uint64_t sim_disk_space_used(const struct sim_disk *d)
{
    uint64_t used = 0;
    for (const struct sim_inode *i = d->inodes; i; i = i->next) {
        if (i->is_dir || (i->links == 0 && i->opens == 0)) { continue; }
        used += i->reserved > i->now.size ? i->reserved : i->now.size;
    }
    return used;
}

static bool sim_fails(const struct sim_disk *d, unsigned *in, unsigned ppm)
{
    if (d->faults.is_dead) { return true; }
    if (*in > 0 && --*in == 0) { return true; }
    return ppm > 0 && sim_below(sim_world, 1000000) < ppm;
}

/* As src/sys counts it: a sync is made to wait and says nothing about the device. */
static void sim_disk_wait(struct sim_disk *d, uint64_t ns, bool is_stamped)
{
    uint64_t started = sim_world->now_ns;
    unsigned slot = SIM_CALLS_MAX;
    for (unsigned i = 0; is_stamped && i < SIM_CALLS_MAX; i++) {
        if (d->started_ns[i] != 0) { continue; }
        slot = i;
        d->started_ns[i] = started;
        break;
    }
    if (ns > 0) {
        sim_fiber_sleep_until(started + ns);
    } else {
        sim_preempt();
    }
    if (slot < SIM_CALLS_MAX) { d->started_ns[slot] = 0; }
    if (!is_stamped) { return; }
    if (ns > 5 * SYS_MS) {
        d->slow_left = 10;
    } else if (d->slow_left > 0) {
        d->slow_left--;
    }
}

bool sys_device_is_slow(struct sys *sys, uint64_t device)
{
    for (const struct sim_disk *d = sys->process->host->disks; d; d = d->next) {
        if (d->device != device) { continue; }
        if (d->slow_left > 0) { return true; }
        for (unsigned i = 0; i < SIM_CALLS_MAX; i++) {
            if (d->started_ns[i] && sim_world->now_ns - d->started_ns[i] > 5 * SYS_MS) {
                return true;
            }
        }
    }
    return false;
}

static uint64_t sim_sync_ns(const struct sim_disk *d)
{
    uint64_t min = d->faults.sync_max_ns ? d->faults.sync_min_ns : 100000;
    uint64_t max = d->faults.sync_max_ns ? d->faults.sync_max_ns : 3 * SYS_MS;
    CHECK(min <= max);
    return min + sim_below(sim_world, max - min + 1);
}

void sim_check_log_lock(void)
{
    const struct sim_fiber *f = sim_world->fiber;
    for (unsigned i = 0; f && i < f->held_count; i++) {
        CHECKF(f->held[i] != SYS_RANK_LOG, "%s works on files under a log's lock", f->name);
    }
}

enum err sim_disk_call(struct sim_disk *d, enum sim_call kind)
{
    struct sim_counts *counts = &sim_world->counts;
    bool fails = false;
    if (kind != SIM_CALL_WRITE) { sim_check_log_lock(); }
    switch (kind) {
    case SIM_CALL_WRITE:
        counts->writes++;
        sim_disk_wait(d, d->faults.call_ns, true);
        fails = sim_fails(d, &d->faults.write_error_in, d->faults.write_error_ppm);
        counts->write_errors += fails;
        break;
    case SIM_CALL_READ:
        counts->reads++;
        sim_disk_wait(d, d->faults.call_ns, true);
        fails = sim_fails(d, &d->faults.read_error_in, d->faults.read_error_ppm);
        break;
    case SIM_CALL_SYNC:
        counts->syncs++;
        sim_disk_wait(d, d->faults.call_ns + sim_sync_ns(d), false);
        fails = sim_fails(d, &d->faults.sync_error_in, d->faults.sync_error_ppm);
        counts->sync_errors += fails;
        break;
    }
    return fails ? ERR_IO : ERR_OK;
}

/* ---- the harness's view ---- */

struct sim_disk_faults *sim_disk_faults(struct sim_host *host, const char *disk)
{
    return &sim_disk_of(host, disk, strlen(disk))->faults;
}

uint64_t sim_disk_device(struct sim_host *host, const char *disk)
{
    return sim_disk_of(host, disk, strlen(disk))->device;
}

uint64_t sim_disk_used(struct sim_host *host, const char *disk)
{
    return sim_disk_space_used(sim_disk_of(host, disk, strlen(disk)));
}

bool sim_disk_peek(struct sim_host *host, const char *path, bool durable, void *buf, size_t size,
                   size_t *got)
{
    struct sim_place place;
    *got = 0;
    if (sim_find(host, path, &place) || !place.inode || place.inode->is_dir) { return false; }
    const struct sim_bytes *b = durable ? &place.inode->durable : &place.inode->now;
    *got = b->size < size ? b->size : size;
    if (*got) { memcpy(buf, b->at, *got); }
    return true;
}

void sim_disk_list(struct sim_host *host, const char *path,
                   void (*visit)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    struct sim_place place;
    if (sim_find(host, path, &place) || !place.inode) { return; }
    for (size_t i = 0; i < place.inode->names_now.count; i++) {
        const struct sim_entry *e = &place.inode->names_now.at[i];
        visit(ctx, e->name, e->inode->is_dir);
    }
}

bool sim_disk_rot(struct sim_host *host, const char *path, uint64_t pos, uint8_t flip)
{
    struct sim_place place;
    if (sim_find(host, path, &place) || !place.inode || place.inode->is_dir) { return false; }
    struct sim_inode *i = place.inode;
    if (pos >= i->now.size) { return false; }
    i->now.at[pos] ^= flip;
    if (pos < i->durable.size) { i->durable.at[pos] ^= flip; }
    sim_event(NULL, "%s: rot in %s at %llu", host->name, path, (unsigned long long)pos);
    return true;
}
