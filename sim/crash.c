/* crash.c - what a power cut leaves of a disk.
 *
 * Names:    each change of a name that was not synced is kept or lost for itself. A directory whose
 *           name is lost takes along all that is below it, synced or not.
 * Content:  each 512-byte sector of each write is kept or lost for itself (torn, lost, reordered
 *           writes). A lost truncate takes the later writes along: the file system keeps the order
 *           of its own allocation. The size may be newer than the content (zeros) or older. */
#include "sim/machine_int.h"

#include <stdlib.h>

/* Chance in a thousand that a change which was not synced is kept. */
static unsigned sim_crash_permille(enum sim_keep keep)
{
    switch (keep) {
    case SIM_KEEP_NOTHING:
        return 0;
    case SIM_KEEP_ALL:
        return 1000;
    case SIM_KEEP_BY_CHANCE:
        break;
    }
    uint64_t kind = sim_below(sim_world, 5);
    return kind == 0 ? 0 : kind == 1 ? 1000 : 100 + (unsigned)sim_below(sim_world, 801);
}

static void sim_crash_names(struct sim_disk *d, unsigned permille)
{
    struct sim_name_change *c = d->first;
    while (c) {
        struct sim_name_change *next = c->next;
        if (sim_chance(sim_world, permille)) {
            sim_name_apply(c);
        } else {
            sim_world->counts.names_lost++;
            sim_event(NULL, "%s: %s: lost: name %s -> %s", d->host->name, d->name,
                      c->from ? c->from : "-", c->to ? c->to : "-");
        }
        free(c->from);
        free(c->to);
        free(c);
        c = next;
    }
    d->first = d->last = NULL;
}

/* Keeps some sectors of one write. */
static void sim_crash_write(struct sim_inode *i, const struct sim_change *c, unsigned permille)
{
    size_t done = 0;
    while (done < c->size) {
        size_t in_sector = SIM_SECTOR - (size_t)((c->pos + done) % SIM_SECTOR);
        size_t size = c->size - done < in_sector ? c->size - done : in_sector;
        if (sim_chance(sim_world, permille)) {
            sim_bytes_write(&i->durable, c->pos + done, c->data + done, size);
            sim_world->counts.sectors_kept++;
        } else {
            sim_world->counts.sectors_lost++;
        }
        done += size;
    }
}

static void sim_crash_content(struct sim_inode *i, unsigned permille)
{
    size_t old_size = i->durable.size;
    size_t new_size = i->now.size;
    bool is_cut = false; /* a truncate was lost: the story of this file ends there */
    while (i->first) {
        struct sim_change *c = i->first;
        i->first = c->next;
        if (!is_cut && c->is_truncate && sim_chance(sim_world, permille)) {
            sim_bytes_resize(&i->durable, (size_t)c->pos);
            old_size = i->durable.size;
        } else if (!is_cut && c->is_truncate) {
            sim_world->counts.truncates_lost++;
            is_cut = true;
        } else if (!is_cut) {
            sim_crash_write(i, c, permille);
        }
        free(c);
    }
    i->last = NULL;
    if (permille == 0 || permille == 1000 || is_cut) { return; }
    switch (sim_below(sim_world, 4)) {
    case 0: /* the size is newer than the content */
        if (new_size > i->durable.size) { sim_bytes_resize(&i->durable, new_size); }
        break;
    case 1: /* the size is older */
        if (old_size < i->durable.size) { sim_bytes_resize(&i->durable, old_size); }
        break;
    default:
        break;
    }
}

static void sim_mark(struct sim_inode *i)
{
    i->links++;
    if (i->is_marked) { return; }
    i->is_marked = true;
    for (size_t n = 0; n < i->names_durable.count; n++) {
        sim_mark(i->names_durable.at[n].inode);
    }
}

static void sim_names_copy(struct sim_inode *i)
{
    for (size_t n = 0; n < i->names_now.count; n++) {
        free(i->names_now.at[n].name);
    }
    i->names_now.count = 0;
    for (size_t n = 0; n < i->names_durable.count; n++) {
        sim_entries_set(&i->names_now, i->names_durable.at[n].name, i->names_durable.at[n].inode);
    }
}

static void sim_inode_reborn(struct sim_inode *i)
{
    if (i->is_dir) {
        sim_names_copy(i);
        return;
    }
    sim_bytes_resize(&i->now, 0);
    sim_bytes_write(&i->now, 0, i->durable.at, i->durable.size);
    i->reserved = 0;
    i->is_cold = sim_chance(sim_world, i->disk->faults.cold_permille);
}

void sim_disk_crash(struct sim_disk *d, enum sim_keep keep)
{
    unsigned permille = sim_crash_permille(keep);
    sim_event(NULL, "%s: %s: keeps %u in a thousand", d->host->name, d->name, permille);
    sim_crash_names(d, permille);
    for (struct sim_inode *i = d->inodes; i; i = i->next) {
        CHECK(i->opens == 0);
        i->links = 0;
        i->is_marked = i->is_locked = false;
        if (!i->is_dir) { sim_crash_content(i, permille); }
    }
    sim_mark(d->root);
    struct sim_inode **at = &d->inodes;
    while (*at) {
        struct sim_inode *i = *at;
        if (i->is_marked) {
            sim_inode_reborn(i);
            at = &i->next;
        } else {
            *at = i->next;
            sim_inode_free(i);
        }
    }
}
