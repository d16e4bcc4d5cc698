/* producer_ids.c - the block that is not used up. */
#include "api/producer_ids.h"

#include "base/mem.h"
#include "sys/sys.h"

struct producer_ids {
    struct sys_mutex lock;
    int64_t next, end; /* guarded by lock; empty: equal */
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
    sys_mutex_lock(&p->lock);
    bool is_taken = p->next < p->end;
    if (is_taken) { *id = p->next++; }
    sys_mutex_unlock(&p->lock);
    return is_taken;
}

void producer_ids_add(struct producer_ids *p, int64_t first, int64_t count)
{
    sys_mutex_lock(&p->lock);
    if (count > p->end - p->next) {
        p->next = first;
        p->end = first + count;
    }
    sys_mutex_unlock(&p->lock);
}
