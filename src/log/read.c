/* read.c - from an offset to a run of whole batches in one segment file.
 *
 * Place:      log/.
 * Thread:     any. The plan is made under the lock from what is in memory (ring of the last
 *             batches, hints of earlier readers, sparse index of the active segment); what needs
 *             the file is read without it. Tail reads need no file read at all.
 * Rules:      [RD-1] a slice begins at the head of the batch that holds the offset and ends behind
 *             a whole batch. [RD-2] an index entry from a file is believed only after its batch
 *             agrees. [RD-3] bytes that are no batch are rot: their offsets answer ERR_CORRUPT,
 *             others go on. */
#include "log/log_int.h"

/* Where in one segment something was found or must be looked for. */
struct place {
    uint64_t pos;
    int64_t offset; /* base of the batch at pos, when known */
    bool known; /* pos is the answer; otherwise the walk starts there */
};

struct plan {
    int64_t base;
    uint64_t size; /* published bytes of the segment */
    int64_t end; /* one past its last offset */
    bool active;
    bool may_block;
    bool memory_index; /* the sparse index is in memory, under the lock */
    struct sys_file *file;
    struct sys_file *index_file;
    struct place from;
    struct place to; /* one past the last byte that may be given */
    int64_t offset_max;
    uint32_t generation; /* of the log: what is found later is of files that were not cut since */
};

/* ---- what is known in memory, under the lock ---- */

static bool ring_find(const struct log *log, int64_t offset, struct log_ring *out) HOLDS(log->lock);
static bool ring_find(const struct log *log, int64_t offset, struct log_ring *out)
{
    const struct log_warm *w = log->warm;
    if (!w || w->ring_count == 0) { return false; }
    uint32_t first = w->ring_count > LOG_RING_COUNT ? w->ring_count - LOG_RING_COUNT : 0;
    if (w->ring[first % LOG_RING_COUNT].base > offset) { return false; }
    uint32_t low = first, high = w->ring_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (w->ring[mid % LOG_RING_COUNT].base <= offset) {
            low = mid;
        } else {
            high = mid;
        }
    }
    /* In a gap between two batches the next one is meant. */
    if (w->ring[low % LOG_RING_COUNT].last < offset && ++low == w->ring_count) { return false; }
    *out = w->ring[low % LOG_RING_COUNT];
    return true;
}

/* The place of the batch that holds offset, as far as memory knows. */
static struct place place_of(const struct log *log, const struct plan *p, int64_t offset)
    HOLDS(log->lock);
static struct place place_of(const struct log *log, const struct plan *p, int64_t offset)
{
    struct log_ring r;
    if (offset <= p->base) { return (struct place){.pos = 0, .offset = p->base, .known = true}; }
    if (p->active && log->rot_count == 0 && ring_find(log, offset, &r)) {
        return (struct place){.pos = r.pos, .offset = r.base, .known = true};
    }
    for (uint32_t i = 0; log->warm && i < LOG_HINTS_COUNT; i++) {
        if (log->warm->hints[i].base == p->base && log->warm->hints[i].offset == offset &&
            log->warm->hints[i].pos > 0) {
            return (struct place){.pos = log->warm->hints[i].pos, .offset = offset, .known = true};
        }
    }
    struct index_entry n;
    if (p->memory_index && index_find_offset(&log->warm->index, (uint32_t)(offset - p->base), &n)) {
        return (struct place){.pos = n.pos};
    }
    return (struct place){0};
}

/* Files of segment i: opened only for who may wait. */
static enum err plan_files(struct log *log, uint32_t i, struct plan *p) HOLDS(log->lock);
static enum err plan_files(struct log *log, uint32_t i, struct plan *p)
{
    struct segment *s = &log->segments[i];
    bool is_open = s->file && (p->active || s->index_file);
    if (!is_open && !p->may_block) { return ERR_AGAIN; }
    enum err e = log_open_segment(log, i);
    if (e) { return e; }
    if (!p->active && !s->index_file) {
        char path[LOG_PATH_SIZE];
        log_path_segment(log, s->base, ".index", path);
        log_files_begin(log);
        e = sys_file_open(log->env->sys, path, SYS_READ, &s->index_file);
        log_files_end(log);
        if (e && e != ERR_NOTFOUND) { return log_device_error(log, e, "opening an index"); }
    }
    p->file = sys_file_ref(s->file);
    p->index_file = s->index_file && !p->active ? sys_file_ref(s->index_file) : NULL;
    return ERR_OK;
}

static enum err plan_make(struct log *log, const struct log_read_args *a, struct plan *p)
    HOLDS(log->lock);
static enum err plan_make(struct log *log, const struct log_read_args *a, struct plan *p)
{
    enum err e = log_usable(log);
    if (e) { return e; }
    if (a->offset < log_start_offset(log) || a->offset > log_leo(log)) { return ERR_RANGE; }
    p->offset_max = a->offset_max < log_leo(log) ? a->offset_max : log_leo(log);
    if (a->offset >= p->offset_max) { return ERR_OK; }
    uint32_t i = log_find_segment(log, a->offset);
    /* A gap at the end of a segment: the next one has the next record. */
    while (i + 1 < log->segments_count && a->offset >= log->segments[i].end) {
        i++;
    }
    p->active = i + 1 == log->segments_count;
    if (p->active && !log->warm) {
        if (!p->may_block) { return ERR_AGAIN; }
        e = log_warm_up(log);
        if (e) { return e; }
        /* Warming up may have found that the files changed. */
        if (a->offset > log_leo(log)) { return ERR_RANGE; }
        i = log_find_segment(log, a->offset);
        p->active = i + 1 == log->segments_count;
        if (p->offset_max > log_leo(log)) { p->offset_max = log_leo(log); }
    }
    atomic_store_explicit(&log->is_used, true, memory_order_relaxed);
    e = plan_files(log, i, p);
    if (e) { return e; }
    const struct segment *s = &log->segments[i];
    p->base = s->base;
    p->size = s->size;
    p->end = s->end;
    p->memory_index = p->active;
    p->generation = log->cut_generation;
    p->from = place_of(log, p, a->offset);
    if (p->offset_max >= p->end) {
        p->to = (struct place){.pos = p->size, .offset = p->end, .known = true};
        p->offset_max = p->end;
    } else {
        p->to = place_of(log, p, p->offset_max);
    }
    return ERR_OK;
}

static void plan_fini(struct plan *p)
{
    sys_file_unref(p->file);
    sys_file_unref(p->index_file);
}

/* ---- what needs the file ---- */

/* The last index entry at or below an offset or position; pos 0 when there is none. */
struct seek {
    bool by_pos;
    uint32_t key;
};

static enum err seek_entry(struct log *log, const struct plan *p, struct seek s,
                           struct index_entry *out)
{
    bool found = false;
    enum err e = ERR_OK;
    *out = (struct index_entry){0, 0};
    if (p->memory_index) {
        if (!log_lock_if(log, p->may_block)) { return ERR_AGAIN; }
        /* It may have rolled or gone cold meanwhile: then there is no shortcut this time. */
        if (log->warm && log_active(log)->base == p->base) {
            const struct index *x = &log->warm->index;
            found = s.by_pos ? index_find_pos(x, s.key, out) : index_find_offset(x, s.key, out);
        }
        log_unlock(log);
    } else if (p->index_file) {
        e = s.by_pos ? index_file_find_pos(p->index_file, s.key, &found, out)
                     : index_file_find_offset(p->index_file, s.key, &found, out);
    }
    if (!found || out->pos >= p->size) { *out = (struct index_entry){0, 0}; }
    return e;
}

static struct walk_span span_of(const struct plan *p)
{
    return (struct walk_span){.file = p->file,
                              .base = p->base,
                              .end = p->end,
                              .size = p->size,
                              .generation = p->generation,
                              .may_block = p->may_block};
}

/* Begins a walk at an index entry if its batch agrees [RD-2], else at the front. */
static enum err walk_at(const struct plan *p, const struct index_entry *n, struct walk *w)
{
    struct batch_header h;
    struct walk_span span = span_of(p);
    walk_init(w, &span, n->pos);
    if (n->pos == 0) { return ERR_OK; }
    enum err e = walk_peek(w, &h);
    if (e == ERR_OK && batch_last_offset(&h) == p->base + n->offset) { return ERR_OK; }
    if (e && e != ERR_CORRUPT) { return e; }
    walk_init(w, &span, 0);
    return ERR_OK;
}

/* Would a search in the index file of a closed segment wait? */
static bool index_is_cold(const struct plan *p)
{
    uint64_t size = 0;
    if (!p->index_file || sys_file_size(p->index_file, &size) != ERR_OK) { return false; }
    return size > 0 && !sys_file_is_warm(p->index_file, 0, size);
}

/* Walks to the batch that holds offset (or the first one behind it, in a gap). is_end: the place is
 * where a slice must end, so rot in front of it is no error. */
struct locate {
    int64_t offset;
    bool is_end;
};

/* ERR_CORRUPT: pos is inside a range that is known to be rotten. Headers there may look sound. */
static enum err check_rot(struct log *log, const struct plan *p, uint64_t pos)
{
    struct log_rot rot;
    if (log_rot_count(log) == 0) { return ERR_OK; }
    if (!log_lock_if(log, p->may_block)) { return ERR_AGAIN; }
    bool found = log_rot_find_pos(log, p->base, pos, &rot);
    log_unlock(log);
    return found ? ERR_CORRUPT : ERR_OK;
}

/* walk_peek() that sees known rot too. */
static enum err peek_sound(struct log *log, const struct plan *p, struct walk *w,
                           struct batch_header *h)
{
    enum err e = w->pos < w->end ? check_rot(log, p, w->pos) : ERR_OK;
    return e ? e : walk_peek(w, h);
}

static enum err locate(struct log *log, const struct plan *p, struct locate l, struct place *place)
{
    struct index_entry n;
    struct walk w;
    struct batch_header h;
    if (!p->may_block && index_is_cold(p)) { return ERR_AGAIN; }
    enum err e = seek_entry(log, p, (struct seek){.key = (uint32_t)(l.offset - p->base)}, &n);
    if (!e) { e = walk_at(p, &n, &w); }
    bool found = false;
    while (!e && (e = peek_sound(log, p, &w, &h)) != ERR_RANGE) {
        if (e == ERR_CORRUPT) {
            struct log_rot rot;
            e = log_skip_rot_unlocked(log, &w, &rot);
            if (e == ERR_AGAIN && found) { return ERR_OK; }
            if (e) { return e; }
            if (found && rot.pos > place->pos) { return ERR_OK; }
            found = false;
            if (l.offset >= rot.offset && l.offset < rot.offset_end) {
                *place = (struct place){.pos = rot.pos, .offset = rot.offset, .known = true};
                return l.is_end ? ERR_OK : ERR_CORRUPT;
            }
            continue;
        }
        if (e) { return e; }
        if (found) { return ERR_OK; }
        if (batch_last_offset(&h) >= l.offset) {
            *place = (struct place){.pos = w.pos, .offset = h.base_offset, .known = true};
            /* Believed when the next batch agrees: a header's offsets are under no CRC. */
            found = true;
        }
        walk_advance(&w, &h);
    }
    if (e != ERR_RANGE) { return e; }
    if (found) { return ERR_OK; }
    *place = (struct place){.pos = p->size, .offset = p->end, .known = true};
    return ERR_OK;
}

/* The end of the last whole batch that fits between from and limit. */
static enum err cut_at(struct log *log, const struct plan *p, uint64_t limit, struct place *to)
{
    struct index_entry n;
    struct walk w;
    struct batch_header h;
    enum err e = seek_entry(log, p, (struct seek){.by_pos = true, .key = (uint32_t)limit}, &n);
    if (e) { return e; }
    if (n.pos > p->from.pos) {
        e = walk_at(p, &n, &w);
        if (e) { return e; }
    }
    if (n.pos <= p->from.pos || w.pos < p->from.pos) {
        struct walk_span span = span_of(p);
        walk_init(&w, &span, p->from.pos);
        w.offset_min = p->from.offset;
    }
    w.end = p->to.pos;
    while ((e = walk_peek(&w, &h)) == ERR_OK && w.pos + batch_size(&h) <= limit) {
        walk_advance(&w, &h);
    }
    if (e && e != ERR_RANGE && e != ERR_CORRUPT) { return e; }
    *to = (struct place){.pos = w.pos, .offset = w.offset_min, .known = true};
    if (e == ERR_OK) { to->offset = h.base_offset; }
    if (e == ERR_RANGE) { to->offset = p->to.offset; }
    return ERR_OK;
}

/* Known rot ends a slice before it; at its very beginning it is an error. */
static enum err stop_at_rot(struct log *log, struct plan *p, int64_t offset)
{
    enum err e = ERR_OK;
    if (!log_lock_if(log, p->may_block)) { return ERR_AGAIN; }
    for (uint32_t i = 0; i < log->rot_count; i++) {
        const struct log_rot *r = &log->rot[i];
        if (r->base != p->base || r->pos < p->from.pos || r->pos >= p->to.pos) { continue; }
        p->to = (struct place){.pos = r->pos, .offset = r->offset, .known = true};
        if (r->pos == p->from.pos && offset < r->offset_end) { e = ERR_CORRUPT; }
    }
    log_unlock(log);
    return e;
}

static enum err first_size(const struct plan *p, uint64_t *size, int64_t *next)
{
    struct walk w;
    struct batch_header h;
    struct walk_span span = span_of(p);
    walk_init(&w, &span, p->from.pos);
    enum err e = walk_peek(&w, &h);
    if (e) { return e == ERR_RANGE ? ERR_CORRUPT : e; }
    *size = batch_size(&h);
    *next = batch_last_offset(&h) + 1;
    return ERR_OK;
}

/* Shortens p->to to whole batches within bytes_max. */
static enum err plan_limit(struct log *log, const struct log_read_args *a, struct plan *p,
                           bool *is_cut)
{
    if (p->to.pos - p->from.pos <= a->bytes_max) { return ERR_OK; }
    struct place to = {0};
    enum err e = cut_at(log, p, p->from.pos + a->bytes_max, &to);
    if (e) { return e; }
    if (to.pos == p->from.pos && a->min_one) {
        uint64_t size = 0;
        e = first_size(p, &size, &to.offset);
        if (e) { return e; }
        to.pos += size;
    }
    *is_cut = to.pos == p->from.pos;
    p->to = to;
    return ERR_OK;
}

static enum err plan_run(struct log *log, const struct log_read_args *a, struct plan *p,
                         struct log_slice *out)
{
    struct locate l = {.offset = a->offset};
    /* A hint may have led to where the slice before ended: in front of rot. */
    enum err e = p->from.known ? check_rot(log, p, p->from.pos) : ERR_CORRUPT;
    if (e == ERR_CORRUPT) { e = locate(log, p, l, &p->from); }
    l.offset = p->offset_max;
    l.is_end = true;
    if (!e && !p->to.known) { e = locate(log, p, l, &p->to); }
    if (!e && log_rot_count(log) > 0) { e = stop_at_rot(log, p, a->offset); }
    if (e) { return e; }
    bool is_cut = false;
    if (p->from.pos < p->to.pos) { e = plan_limit(log, a, p, &is_cut); }
    if (e) { return e; }
    if (p->from.pos >= p->to.pos) {
        out->is_cut = is_cut;
        return ERR_OK;
    }
    out->pos = p->from.pos;
    out->size = (size_t)(p->to.pos - p->from.pos);
    out->offset_first = p->from.offset;
    out->offset_next = p->to.offset;
    out->file = p->file;
    p->file = NULL;
    return ERR_OK;
}

static void note_hint(struct log *log, const struct plan *p)
{
    if (p->to.pos >= p->size) { return; } /* the ring knows the end */
    if (!log_lock_if(log, p->may_block)) { return; }
    struct log_warm *w = log->warm;
    if (w && log->cut_generation == p->generation) {
        uint32_t i = w->hint_next++ % LOG_HINTS_COUNT;
        w->hints[i].offset = p->to.offset;
        w->hints[i].pos = p->to.pos;
        w->hints[i].base = p->base;
    }
    log_unlock(log);
}

/* One attempt in the segment of a->offset. *next: the records go on there, in another segment; -1:
 * they do not, or something was found. */
static enum err read_segment(struct log *log, const struct log_read_args *a, struct log_slice *out,
                             int64_t *next)
{
    struct plan p = {.may_block = a->may_block};
    *next = -1;
    if (!log_lock_if(log, p.may_block)) { return ERR_AGAIN; }
    enum err e = plan_make(log, a, &p);
    log_unlock(log);
    if (!e && p.file) { e = plan_run(log, a, &p, out); }
    if (e == ERR_IO) { e = log_device_error(log, e, "reading"); }
    if (!e && out->file) { note_hint(log, &p); }
    bool is_behind_last = p.file && p.from.known && p.from.pos >= p.size;
    if (!e && is_behind_last && !p.active && p.end > a->offset && p.end < a->offset_max) {
        *next = p.end; /* a gap at the end: compaction or rot took its last records */
    }
    plan_fini(&p);
    return e;
}

enum err log_read(struct log *log, const struct log_read_args *a, struct log_slice *out)
{
    struct log_read_args args = *a;
    *out = (struct log_slice){0};
    for (;;) { /* the offset rises each time */
        int64_t next;
        enum err e = read_segment(log, &args, out, &next);
        if (e || next < 0) { return e; }
        args.offset = next;
    }
}

void log_slice_release(struct log_slice *s)
{
    sys_file_unref(s->file);
    *s = (struct log_slice){0};
}

/* ---- how much is there ---- */

/* The position of offset in segment i as far as memory knows, rounded down. */
static uint64_t near_pos(const struct log *log, uint32_t i, int64_t offset) HOLDS(log->lock);
static uint64_t near_pos(const struct log *log, uint32_t i, int64_t offset)
{
    const struct segment *s = &log->segments[i];
    if (offset >= s->end) { return s->size; }
    struct plan p = {.base = s->base, .active = i + 1 == log->segments_count};
    p.memory_index = p.active && log->warm;
    return place_of(log, &p, offset).pos;
}

size_t log_bytes_between(struct log *log, int64_t offset, int64_t offset_max, size_t bytes_max)
{
    uint64_t sum = 0;
    if (offset >= offset_max || offset >= log_leo(log)) { return 0; }
    if (!log_lock_now(log)) { return bytes_max; } /* something; the read will tell how much */
    int64_t leo = log_leo(log);
    if (offset_max > leo) { offset_max = leo; }
    if (offset < offset_max) {
        uint32_t i = log_find_segment(log, offset), last = log_find_segment(log, offset_max);
        uint64_t from = near_pos(log, i, offset);
        for (; i <= last && sum < bytes_max; i++, from = 0) {
            uint64_t to = i == last ? near_pos(log, i, offset_max) : log->segments[i].size;
            if (to > from) { sum += to - from; }
        }
        if (sum == 0) { sum = 1; } /* there is something */
    }
    log_unlock(log);
    return sum < bytes_max ? (size_t)sum : bytes_max;
}
