/* producer_ids.c - the blocks that are not used up. */
#include "api/producer_ids.h"

#include "base/mem.h"
#include "sys/sys.h"

#define PRODUCER_ID_BLOCKS 16 /* fetched at the same time by requests that found nothing left */

struct producer_ids {
    struct sys_mutex lock;
    struct {
        int64_t next, end;
    } blocks[PRODUCER_ID_BLOCKS]; /* empty ones: next == end */
};

struct producer_ids *producer_ids_create(void)
{
    struct producer_ids *p = mem_new(struct producer_ids);
    if (p) { sys_mutex_init(&p->lock, SYS_RANK_LEAF); }
    return p;
}

void producer_ids_destroy(struct producer_ids *p)
{
    if (!p) { return; }
    sys_mutex_fini(&p->lock);
    mem_free(p);
}

bool producer_ids_take(struct producer_ids *p, int64_t *id)
{
    bool is_taken = false;
    sys_mutex_lock(&p->lock);
    for (size_t i = 0; i < PRODUCER_ID_BLOCKS && !is_taken; i++) {
        if (p->blocks[i].next < p->blocks[i].end) {
            *id = p->blocks[i].next++;
            is_taken = true;
        }
    }
    sys_mutex_unlock(&p->lock);
    return is_taken;
}

void producer_ids_add(struct producer_ids *p, int64_t first, int64_t count)
{
    sys_mutex_lock(&p->lock);
    for (size_t i = 0; i < PRODUCER_ID_BLOCKS; i++) {
        if (p->blocks[i].next == p->blocks[i].end) {
            p->blocks[i].next = first;
            p->blocks[i].end = first + count;
            break;
        }
    }
    sys_mutex_unlock(&p->lock);
}
