/* pool.c - memory that requests use again and again: receive buffers, requests, scratch memory.
 *
 * Thread:     the processor's, but for net_scratch_create().
 * Ownership:  a buffer is held by its connection while it has unsplit bytes, and by each request
 *             whose frame lies in it.
 * Invariants: what a pool keeps is bounded per class; last in is first out, so it is warm.
 * Failure:    NULL or ERR_NOMEM; the connection is then closed. */
#include "net/net_int.h"

/* A batch.size of 64 KiB, 256 KiB or 1 MiB fits with what stands around it. */
static const size_t net_buf_sizes[NET_BUF_CLASSES] = {(size_t)16 << 10, (size_t)68 << 10,
                                                      (size_t)272 << 10, (size_t)1088 << 10};
static const unsigned net_buf_kept_max[NET_BUF_CLASSES] = {64, 32, 8, 2};

#define NET_BUF_ROUND ((size_t)64 << 10)
#define NET_REQS_KEPT_MIN 4096 /* and no more than connections beyond it */
#define NET_SCRATCHES_KEPT_MAX 128
#define NET_SCRATCH_CHUNK ((size_t)16 << 10)
#define NET_SCRATCH_BUF_KEPT ((size_t)64 << 10)
#define NET_PARK_CHUNK 1024
#define NET_PARK_LIMIT ((size_t)4 << 20)

unsigned net_buf_class(size_t size)
{
    unsigned i = 0;
    while (i < NET_BUF_CLASSES && net_buf_sizes[i] < size) {
        i++;
    }
    return i;
}

size_t net_buf_class_size(unsigned index)
{
    return net_buf_sizes[index < NET_BUF_CLASSES ? index : NET_BUF_CLASSES - 1];
}

struct net_buf *net_buf_get(struct net_processor *p, size_t size)
{
    unsigned class_index = net_buf_class(size);
    struct net_buf *b = NULL;
    if (class_index < NET_BUF_CLASSES) {
        size = net_buf_sizes[class_index];
        b = p->bufs[class_index];
    } else {
        size = (size + NET_BUF_ROUND - 1) & ~(NET_BUF_ROUND - 1);
    }
    if (b) {
        p->bufs[class_index] = b->next;
        p->bufs_count[class_index]--;
    } else {
        net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1);
        b = mem_alloc(sizeof *b + size);
        if (!b) { return NULL; }
        b->cap = size;
        b->class_index = class_index;
    }
    b->next = NULL;
    b->refs = 1;
    return b;
}

void net_buf_unref(struct net_processor *p, struct net_buf *b)
{
    if (!b) { return; }
    CHECK(b->refs > 0);
    if (--b->refs > 0) { return; }
    unsigned i = b->class_index;
    if (i >= NET_BUF_CLASSES || p->bufs_count[i] >= net_buf_kept_max[i]) {
        mem_free(b);
        return;
    }
    b->next = p->bufs[i];
    p->bufs[i] = b;
    p->bufs_count[i]++;
}

struct net_req *net_req_get(struct net_processor *p)
{
    struct net_req *r = p->reqs;
    if (r) {
        p->reqs = r->run_next;
        p->reqs_count--;
    } else {
        net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1);
        r = mem_alloc(sizeof *r);
        if (!r) { return NULL; }
        arena_init(&r->park, NET_PARK_CHUNK, NET_PARK_LIMIT);
    }
    struct arena park = r->park;
    *r = (struct net_req){.park = park};
    list_init(&r->order);
    r->pub.park_arena = &r->park;
    return r;
}

void net_req_put(struct net_processor *p, struct net_req *r)
{
    CHECK(!r->scratch && !r->buf && !r->charged);
    if (r->reserved) { net_budget_give(&p->plane->budget, r->reserved); }
    if (p->reqs_count >= NET_REQS_KEPT_MIN && p->reqs_count >= p->conns_count) {
        arena_fini(&r->park);
        mem_free(r);
        return;
    }
    arena_reset(&r->park);
    r->run_next = p->reqs;
    p->reqs = r;
    p->reqs_count++;
}

struct net_scratch *net_scratch_create(void)
{
    struct net_scratch *s = mem_new(struct net_scratch);
    if (!s) { return NULL; }
    arena_init(&s->arena, NET_SCRATCH_CHUNK, NET_SCRATCH_CHUNK);
    wire_buf_init(&s->buf, NET_ANSWER_BYTES_MAX);
    return s;
}

static void net_scratch_destroy(struct net_scratch *s)
{
    arena_fini(&s->arena);
    wire_buf_fini(&s->buf);
    mem_free(s);
}

void net_req_give_scratch(struct net_req *r, struct net_scratch *s, size_t frame_size)
{
    DCHECK(!r->scratch);
    s->arena.limit = 8 * frame_size + ((size_t)64 << 10);
    r->scratch = s;
    r->scratch_cap = s->buf.cap;
    r->pub.arena = &s->arena;
    r->pub.answer = (struct net_answer){.buf = s->buf};
}

enum err net_req_attach(struct net_processor *p, struct net_req *r, size_t frame_size)
{
    struct net_scratch *s = p->scratches;
    if (s) {
        p->scratches = s->next;
        p->scratches_count--;
    } else {
        net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1);
        s = net_scratch_create();
        if (!s) { return ERR_NOMEM; }
    }
    net_req_give_scratch(r, s, frame_size);
    return ERR_OK;
}

void net_req_detach(struct net_processor *p, struct net_req *r)
{
    struct net_scratch *s = r->scratch;
    if (!s) { return; }
    net_req_release_parts(r);
    s->buf = r->pub.answer.buf;
    r->pub.answer.buf = (struct wire_buf){0};
    r->pub.arena = NULL;
    r->scratch = NULL;
    if (s->buf.cap != r->scratch_cap) { net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1); }
    if (s->arena.total > NET_SCRATCH_CHUNK) { net_tally_add(&p->tally, NET_COUNT_ALLOCATIONS, 1); }
    if (p->scratches_count >= NET_SCRATCHES_KEPT_MAX) {
        net_scratch_destroy(s);
        return;
    }
    arena_reset(&s->arena);
    s->buf.size = 0;
    if (s->buf.cap > NET_SCRATCH_BUF_KEPT) { wire_buf_fini(&s->buf); }
    s->next = p->scratches;
    p->scratches = s;
    p->scratches_count++;
}

void net_req_drop_frame(struct net_processor *p, struct net_req *r)
{
    net_buf_unref(p, r->buf);
    r->buf = NULL;
    r->pub.frame = (struct mslice){NULL, 0};
    if (r->charged) {
        net_budget_give(&p->plane->budget, r->charged);
        r->charged = 0;
    }
}

void net_pool_fini(struct net_processor *p)
{
    for (unsigned i = 0; i < NET_BUF_CLASSES; i++) {
        while (p->bufs[i]) {
            struct net_buf *b = p->bufs[i];
            p->bufs[i] = b->next;
            mem_free(b);
        }
    }
    while (p->reqs) {
        struct net_req *r = p->reqs;
        p->reqs = r->run_next;
        arena_fini(&r->park);
        mem_free(r);
    }
    while (p->scratches) {
        struct net_scratch *s = p->scratches;
        p->scratches = s->next;
        net_scratch_destroy(s);
    }
}
