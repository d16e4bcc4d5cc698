/* lock.c - locks and flags of simulated processes.
 *
 * Invariants: as in src/sys: rising ranks, no lock over the end of a step. A lock that is taken
 * twice by one fiber aborts; one that another fiber holds is waited for. */
#include "sim/machine_int.h"

#define SIM_MUTEX_MAGIC 0x6d75746578ULL

struct sim_mutex {
    uint64_t magic;
    const struct sim_fiber *holder;
    bool is_held;
};

_Static_assert(sizeof(struct sim_mutex) <= sizeof((struct sys_mutex){0}.opaque), "it fits");

static struct sim_mutex *sim_mutex_inner(const struct sys_mutex *m)
{
    union {
        const void *in;
        struct sim_mutex *out;
    } u = {.in = m->opaque};
    CHECKF(u.out->magic == SIM_MUTEX_MAGIC, "a lock of rank %u was not initialised", m->rank);
    return u.out;
}

bool sim_mutex_is_held(const struct sys_mutex *m)
{
    return sim_mutex_inner(m)->is_held;
}

void sys_mutex_init(struct sys_mutex *m, unsigned rank)
{
    memset(m, 0, sizeof *m);
    m->rank = rank;
    struct sim_mutex fresh = {.magic = SIM_MUTEX_MAGIC};
    memcpy(m->opaque, &fresh, sizeof fresh);
}

void sys_mutex_fini(struct sys_mutex *m)
{
    CHECK(!sim_mutex_inner(m)->is_held);
    memset(m, 0, sizeof *m);
}

static void sim_rank_take(struct sim_fiber *f, unsigned rank)
{
    if (!f) { return; }
    for (unsigned i = 0; i < f->held_count; i++) {
        CHECKF(f->held[i] < rank, "rank %u is held, %u is taken", f->held[i], rank);
    }
    CHECK(f->held_count < SIM_HELD_MAX);
    f->held[f->held_count++] = rank;
}

static void sim_rank_give(struct sim_fiber *f, unsigned rank)
{
    unsigned i = 0;
    if (!f) { return; }
    while (i < f->held_count && f->held[i] != rank) {
        i++;
    }
    CHECKF(i < f->held_count, "a lock of rank %u is given back that is not held", rank);
    f->held[i] = f->held[--f->held_count];
}

NO_THREAD_SAFETY void sys_mutex_lock(struct sys_mutex *m)
{
    sim_preempt();
    struct sim_fiber *f = sim_world->fiber;
    struct sim_mutex *inner = sim_mutex_inner(m);
    sim_rank_take(f, m->rank);
    while (inner->is_held) {
        CHECK(f);
        sim_world->counts.lock_waits++;
        f->lock = m;
        sim_fiber_wait(SIM_LOCKED);
    }
    inner->is_held = true;
    inner->holder = f;
}

NO_THREAD_SAFETY void sys_mutex_unlock(struct sys_mutex *m)
{
    struct sim_fiber *f = sim_world->fiber;
    struct sim_mutex *inner = sim_mutex_inner(m);
    CHECKF(inner->is_held && inner->holder == f, "a lock of rank %u is given back by another",
           m->rank);
    inner->is_held = false;
    inner->holder = NULL;
    sim_rank_give(f, m->rank);
    sim_preempt();
}

void sys_word_wait(_Atomic(uint32_t) *word, uint32_t value)
{
    struct sim_fiber *f = sim_world->fiber;
    CHECK(f);
    sim_world->counts.lock_waits++;
    f->word = word;
    f->word_value = value;
    sim_fiber_wait(SIM_AWAITING);
}

void sys_word_wake(_Atomic(uint32_t) *word)
{
    (void)word; /* who waits looks at the word */
}

void sys_word_taking(enum sys_lock_rank rank)
{
    sim_preempt();
    sim_rank_take(sim_world->fiber, rank);
}

void sys_word_giving(enum sys_lock_rank rank)
{
    sim_rank_give(sim_world->fiber, rank);
}

bool sys_wait_flag(struct sys *sys, _Atomic int *flag, uint64_t deadline_ns)
{
    (void)sys;
    struct sim *sim = sim_world;
    while (atomic_load(flag) == 0) {
        if (sim->now_ns >= deadline_ns) { return false; }
        if (!sim->fiber) { /* the harness */
            if (!sim_step(sim, deadline_ns)) { return atomic_load(flag) != 0; }
            continue;
        }
        sim->fiber->flag = flag;
        sim->fiber->until_ns = deadline_ns;
        sim_fiber_wait(SIM_FLAGGED);
    }
    return true;
}

void sys_signal_flag(struct sys *sys, _Atomic int *flag, int value)
{
    (void)sys;
    atomic_store(flag, value);
    sim_preempt();
}
