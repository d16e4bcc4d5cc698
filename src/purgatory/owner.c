/* owner.c - the owner of delayed operations: inbox, wheel, ready queue.
 *
 * Place:      see owner.h.
 * Thread:     'inbox' is pushed to by any thread; all else is the owner's thread alone.
 *
 * The inbox is one word: 0 (empty, the owner is awake), ASLEEP (empty, and the next post must wake
 * it), or the newest of a list of operations. A push is one exchange, and the push that replaces
 * ASLEEP wakes: so a wake per sleep, and none is lost [OWN-2].
 *
 * An operation comes through the inbox for one of two causes. Parked elsewhere: the message is a
 * reference, so it cannot be posted again before the owner has taken it. Completed elsewhere:
 * posted by who dropped the last reference, once [OWN-1]. The number of references tells which. */
#include "purgatory/purg_int.h"
#include "purgatory/wheel_int.h"

#define ASLEEP ((uintptr_t)1)
#ifdef PURG_MUTANT_RACE /* planted bug: what was written before a post is not published by it */
#define POST_ORDER memory_order_relaxed
#else
#define POST_ORDER memory_order_release
#endif
#define STEP_ROUNDS_MAX 16 /* then the loop gets its turn, even if others keep posting */

struct purg_owner {
    /* Constant. */
    struct purg_env env;
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
    size_t step_max;
    /* The owner's thread. */
    struct purg_wheel wheel;
    struct purg_op *ready_head, *ready_tail;
    size_t ops_count; /* armed or ready */
    uint64_t now_ns;
    bool is_stepping;
    bool is_closing;
    /* Any thread: release by purg_owner_post, acquire by inbox_take. */
    _Alignas(PURG_CACHE_LINE) _Atomic(uintptr_t) inbox;
};

struct purg_owner *purg_owner_create(const struct purg_env *env,
                                     const struct purg_owner_options *options)
{
    struct purg_owner *owner = env->alloc(env->ctx, sizeof *owner, PURG_CACHE_LINE);
    if (!owner) { return NULL; }
    owner->env = *env;
    owner->wake = options->wake;
    owner->wake_ctx = options->wake_ctx;
    owner->step_max = options->step_max ? options->step_max : PURG_STEP_MAX_DEFAULT;
    owner->now_ns = options->start_ns;
    atomic_init(&owner->inbox, 0);
    struct purg_wheel_options wheel = {
        .tick_ns = options->tick_ns, .slots = options->slots, .start_ns = options->start_ns};
    if (!purg_wheel_init(&owner->wheel, env, &wheel)) {
        env->free(env->ctx, owner, sizeof *owner);
        return NULL;
    }
    return owner;
}

void purg_owner_destroy(struct purg_owner *owner)
{
    if (!owner) { return; }
    if (owner->is_stepping) {
        purg_misuse(&owner->env, "purg_owner_destroy: called from one of its own callbacks");
    }
    if (!purg_owner_is_idle(owner)) {
        purg_misuse(&owner->env, "purg_owner_destroy: operations are left");
    }
    purg_wheel_fini(&owner->wheel);
    struct purg_env env = owner->env;
    env.free(env.ctx, owner, sizeof *owner);
}

const struct purg_env *purg_owner_env(const struct purg_owner *owner)
{
    return &owner->env;
}

void purg_owner_post(struct purg_owner *owner, struct purg_op *op)
{
    uintptr_t head = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
    do {
        op->queue_next = head == ASLEEP ? NULL : (struct purg_op *)head;
    } while (!atomic_compare_exchange_weak_explicit(&owner->inbox, &head, (uintptr_t)op, POST_ORDER,
                                                    memory_order_relaxed));
    /* From here on the operation is the owner's. */
    if (head == ASLEEP && owner->wake) { owner->wake(owner->wake_ctx); }
}

void purg_owner_ready(struct purg_owner *owner, struct purg_op *op)
{
    /* The timer stays in the wheel until on_complete is next: then its neighbours are at hand. If
     * it comes due before, it finds the operation ended. */
    if (purg_timer_is_added(&op->timer)) { purg_timer_prefetch(&op->timer); }
    if (!op->is_counted) { /* ended before its timer started */
        op->is_counted = true;
        owner->ops_count++;
    }
    op->queue_next = NULL;
    if (owner->ready_tail) {
        owner->ready_tail->queue_next = op;
    } else {
        owner->ready_head = op;
    }
    owner->ready_tail = op;
}

void purg_owner_arm(struct purg_owner *owner, struct purg_op *op)
{
    op->is_counted = true;
    owner->ops_count++;
    purg_timer_add(&owner->wheel, &op->timer, op->timer.deadline_ns);
    if (owner->is_closing) { purg_op_cancel(op, owner, PURG_SHUTDOWN); }
}

void purg_owner_disarm(struct purg_owner *owner, struct purg_op *op)
{
    purg_timer_remove(&owner->wheel, &op->timer);
    op->is_counted = false;
    owner->ops_count--;
}

/* Takes all messages, oldest first. Returns whether there were any. */
static bool inbox_take(struct purg_owner *owner)
{
    uintptr_t head = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
    if (head != 0) { head = atomic_exchange_explicit(&owner->inbox, 0, memory_order_acquire); }
    struct purg_op *newest = head == ASLEEP ? NULL : (struct purg_op *)head;
    struct purg_op *oldest = NULL;
    while (newest) {
        struct purg_op *next = newest->queue_next;
        purg_prefetch_write(&newest->timer);
        newest->queue_next = oldest;
        oldest = newest;
        newest = next;
    }
    bool any = oldest != NULL;
    while (oldest) {
        struct purg_op *op = oldest;
        oldest = op->queue_next;
        if (purg_op_is_over(op)) {
            purg_owner_ready(owner, op);
        } else { /* parked by another thread: the message is a reference */
            if (purg_op_is_parked(op)) { purg_owner_arm(owner, op); }
            purg_op_unref(op, owner);
        }
    }
    return any;
}

/* Runs on_complete of at most 'max' operations. */
static size_t ready_run(struct purg_owner *owner, size_t max)
{
    size_t count = 0;
    while (count < max && owner->ready_head) {
        struct purg_op *op = owner->ready_head;
        owner->ready_head = op->queue_next;
        if (!owner->ready_head) { owner->ready_tail = NULL; }
        owner->ops_count--;
        op->is_counted = false;
        purg_timer_remove(&owner->wheel, &op->timer);
        count++;
        op->type->on_complete(op, purg_op_reason(op)); /* may free it */
    }
    return count;
}

uint64_t purg_owner_step(struct purg_owner *owner, uint64_t now_ns)
{
    if (owner->is_stepping) {
        purg_misuse(&owner->env, "purg_owner_step: called from one of its own callbacks");
    }
    owner->is_stepping = true;
    owner->now_ns = now_ns;
    size_t ready_left = owner->step_max;
    size_t due_left = owner->step_max;
    uint64_t next_ns = 0;
    for (int round = 0; round < STEP_ROUNDS_MAX; round++) {
        ready_left -= ready_run(owner, ready_left);
        due_left -= purg_wheel_advance(&owner->wheel, now_ns, due_left);
        inbox_take(owner);
        if (ready_left == 0 || due_left == 0) { break; }
        if (owner->ready_head || purg_wheel_next_ns(&owner->wheel) <= now_ns) { continue; }
        uintptr_t empty = 0;
        if (atomic_compare_exchange_strong_explicit(&owner->inbox, &empty, ASLEEP,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            next_ns = purg_wheel_next_ns(&owner->wheel);
            break;
        }
    }
    owner->is_stepping = false;
    return next_ns;
}

static bool inbox_is_empty(const struct purg_owner *owner)
{
    uintptr_t head = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
    return head == 0 || head == ASLEEP;
}

uint64_t purg_owner_next_ns(const struct purg_owner *owner)
{
    if (owner->ready_head || !inbox_is_empty(owner)) { return 0; }
    return purg_wheel_next_ns(&owner->wheel);
}

void purg_owner_shutdown(struct purg_owner *owner)
{
    owner->is_closing = true;
    struct purg_link *plain = NULL; /* timers that are no operation's, chained by prev */
    struct purg_timer *timer;
    while ((timer = purg_wheel_take_any(&owner->wheel)) != NULL) {
        if (purg_op_is_timer(timer)) {
            purg_op_cancel(PURG_CONTAINER(timer, struct purg_op, timer), owner, PURG_SHUTDOWN);
        } else {
            timer->link.prev = plain;
            plain = &timer->link;
        }
    }
    while (plain) {
        timer = PURG_CONTAINER(plain, struct purg_timer, link);
        plain = plain->prev;
        purg_timer_add(&owner->wheel, timer, timer->deadline_ns);
    }
}

bool purg_owner_is_idle(const struct purg_owner *owner)
{
    return owner->ops_count == 0 && inbox_is_empty(owner);
}

size_t purg_owner_count(const struct purg_owner *owner)
{
    return owner->ops_count;
}

struct purg_wheel *purg_owner_wheel(struct purg_owner *owner)
{
    return &owner->wheel;
}

uint64_t purg_owner_now_ns(const struct purg_owner *owner)
{
    return owner->now_ns;
}
