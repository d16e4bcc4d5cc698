/* wheel.c - hierarchical timing wheel: digits of the deadline choose level and slot.
 *
 * Place:      see wheel.h.
 * Source:     Varghese and Lauck (1987), scheme 7, with bitmaps.
 * Thread:     the owner's only.
 *
 * The clock and each deadline are numbers of ticks, read as digits in base 'slots'. A level has a
 * slot for each value of one digit, and that for two turns of it, the clock's and the next. A turn
 * is a slot of the level above. A timer enters the lowest level whose two turns reach it. So:
 *   - what lies in the clock's turn of a level comes before all that lies in levels above;
 *   - as long as the clock does not reach the start of a slot, what lies in it need not move;
 *   - when the clock reaches it, at level 0 its timers are due, at a higher level they are placed
 *     again, lower (cascade);
 *   - one turn before that they may already be: a slot is emptied bit by bit as timers fire, since
 *     all at once, thousands, would make those late that are due first.
 * Deadlines are rounded up to ticks, the clock down: never early [WHL-1]. */
#include "purgatory/purg_int.h"
#include "purgatory/wheel_int.h"

#define NO_TICK UINT64_MAX /* no timer has it: at ticks of 1 ns it is PURG_NEVER's */
/* Timers, in pairs, that at each level move down ahead of time beside as many as fire. */
#define CASCADE_PAIRS_MIN 16
/* When so many fire, of those that fire next so many are fetched, in pairs; 16 KiB. */
#define FETCH_FIRED_MIN 8
#define FETCH_PAIRS_MAX 128

static void link_init(struct purg_link *head)
{
    head->next = head;
    head->prev = head;
}

static bool link_is_empty(const struct purg_link *head)
{
    return head->next == head;
}

/* Returns whether the list was empty. */
static bool link_add_tail(struct purg_link *head, struct purg_link *link)
{
    struct purg_link *last = head->prev;
    link->prev = last;
    last->next = link;
    link->next = head;
    head->prev = link;
    return last == head;
}

static void link_remove(struct purg_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = NULL;
}

/* Moves all of 'from' behind all of 'to'. */
static void link_splice(struct purg_link *to, struct purg_link *from)
{
    if (link_is_empty(from)) { return; }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    link_init(from);
}

static struct purg_timer *timer_of(struct purg_link *link)
{
    return PURG_CONTAINER(link, struct purg_timer, link);
}

static size_t level_size(const struct purg_wheel *wheel)
{
    return (wheel->level_mask + 1) * sizeof(struct purg_link);
}

static void reach_set(const struct purg_wheel *wheel, struct purg_wheel_level *level)
{
    uint64_t turn = wheel->tick >> level->shift >> wheel->bits; /* the clock's */
    if (turn + 1 >= wheel->tick_max >> level->shift >> wheel->bits) {
        level->reach_ns = UINT64_MAX; /* there is no third one */
    } else {
        uint64_t third = (turn + 2) << wheel->bits << level->shift;
        level->reach_ns = (third - 1) * wheel->tick_ns;
    }
}

static void clock_set(struct purg_wheel *wheel, uint64_t tick)
{
    uint64_t changed = (wheel->tick ^ tick) >> wheel->bits;
    wheel->tick = tick;
    wheel->clock_ns = tick * wheel->tick_ns;
    for (uint32_t i = 0; changed != 0; i++) { /* up to where the turn is the same */
        reach_set(wheel, &wheel->levels[i]);
        changed >>= wheel->bits;
    }
}

static bool levels_init(struct purg_wheel *wheel)
{
    uint32_t highest = 63u - (uint32_t)__builtin_clzll(wheel->tick_max); /* bit that can differ */
    uint32_t levels = highest / wheel->bits + 1;
    size_t size = levels * level_size(wheel);
    struct purg_link *slots = wheel->env.alloc(wheel->env.ctx, size, PURG_CACHE_LINE);
    if (!slots) { return false; }
    for (size_t i = 0; i < size / sizeof *slots; i++) {
        link_init(&slots[i]);
    }
    for (uint32_t i = 0; i < levels; i++) {
        struct purg_wheel_level *level = &wheel->levels[i];
        *level = (struct purg_wheel_level){.slots = slots, .shift = i * wheel->bits};
        slots += wheel->level_mask + 1;
        reach_set(wheel, level);
    }
    wheel->levels_count = levels;
    return true;
}

/* See purg_wheel_near_tick(). */
static void inverse_init(struct purg_wheel *wheel)
{
    if (wheel->tick_ns > PURG_WHEEL_NEAR_NS) { return; } /* near_ns is 0: always divided */
    wheel->near_ns = PURG_WHEEL_NEAR_NS;
    while ((uint64_t)1 << wheel->inverse_shift < wheel->tick_ns) {
        wheel->inverse_shift++;
    }
#ifdef __SIZEOF_INT128__
    unsigned __int128 dividend = (unsigned __int128)1 << (63 + wheel->inverse_shift);
    wheel->inverse = (uint64_t)((dividend + wheel->tick_ns - 1) / wheel->tick_ns);
#endif
}

bool purg_wheel_init(struct purg_wheel *wheel, const struct purg_env *env,
                     const struct purg_wheel_options *options)
{
    uint32_t slots = options->slots ? options->slots : PURG_SLOTS_DEFAULT;
    if (slots < PURG_SLOTS_MIN || slots > PURG_SLOTS_MAX || (slots & (slots - 1)) != 0) {
        purg_misuse(env, "purg_wheel_init: slots is no power of two between 8 and 64");
    }
    *wheel = (struct purg_wheel){
        .env = *env,
        .tick_ns = options->tick_ns ? options->tick_ns : PURG_TICK_NS_DEFAULT,
        .bits = (uint16_t)__builtin_ctz(slots),
        .level_mask = 2 * slots - 1,
    };
    wheel->tick_max = UINT64_MAX / wheel->tick_ns;
    inverse_init(wheel);
    link_init(&wheel->due);
    link_init(&wheel->never);
    if (!levels_init(wheel)) { return false; }
    clock_set(wheel, options->start_ns / wheel->tick_ns);
    return true;
}

void purg_wheel_fini(struct purg_wheel *wheel)
{
    if (wheel->levels_count == 0) { return; }
    if (purg_wheel_count(wheel) > 0) {
        purg_misuse(&wheel->env, "purg_wheel_fini: timers are left");
    }
    size_t size = wheel->levels_count * level_size(wheel);
    wheel->env.free(wheel->env.ctx, wheel->levels[0].slots, size);
    wheel->levels_count = 0;
}

void purg_timer_init(struct purg_timer *timer,
                     void (*on_due)(struct purg_timer *timer, uint64_t now_ns))
{
    *timer = (struct purg_timer){.on_due = on_due};
}

/* A list's first timer came or its last one went; if it is a slot its bit follows [WHL-5]. */
static void slot_changed(struct purg_wheel *wheel, const struct purg_link *head)
{
    size_t pos = (size_t)((uintptr_t)head - (uintptr_t)wheel->levels[0].slots);
    size_t index = pos / sizeof *head;
    size_t number = index >> (wheel->bits + 1);
    if (number >= wheel->levels_count) { return; } /* due or never */
    struct purg_wheel_level *level = &wheel->levels[number];
    size_t turn = index >> wheel->bits & 1;
    uint64_t bit = (uint64_t)1 << (index & (wheel->level_mask >> 1));
    if (link_is_empty(head)) {
        level->occupied[turn] &= ~bit;
        if ((level->occupied[0] | level->occupied[1]) == 0) {
            wheel->levels_mask &= ~(1u << number);
        }
    } else {
        level->occupied[turn] |= bit;
        wheel->levels_mask |= 1u << number;
    }
}

static void list_add(struct purg_wheel *wheel, struct purg_link *head, struct purg_timer *timer)
{
    if (link_add_tail(head, &timer->link)) { slot_changed(wheel, head); }
}

/* Where no clock gets in practice: centuries away. */
static __attribute__((noinline)) void place_far(struct purg_wheel *wheel, struct purg_timer *timer)
{
    uint64_t deadline_ns = timer->deadline_ns;
    if (deadline_ns <= wheel->clock_ns) {
        list_add(wheel, &wheel->due, timer);
        return;
    }
    uint64_t tick = (deadline_ns - 1) / wheel->tick_ns + 1;
    bool is_reached = tick <= wheel->tick_max && deadline_ns != PURG_NEVER;
    list_add(wheel, is_reached ? purg_wheel_slot(wheel, deadline_ns, tick) : &wheel->never, timer);
}

static inline void place(struct purg_wheel *wheel, struct purg_timer *timer, uint64_t deadline_ns)
{
    if (__builtin_expect(deadline_ns > wheel->near_ns, 0)) {
        place_far(wheel, timer);
    } else {
        list_add(wheel, purg_wheel_near_list(wheel, deadline_ns), timer);
    }
}

void purg_timer_add(struct purg_wheel *wheel, struct purg_timer *timer, uint64_t deadline_ns)
{
    if (timer->link.next) {
        purg_misuse(&wheel->env, "purg_timer_add: the timer is in a wheel already");
    }
    timer->deadline_ns = deadline_ns;
    place(wheel, timer, deadline_ns);
}

bool purg_timer_remove(struct purg_wheel *wheel, struct purg_timer *timer)
{
    struct purg_link *next = timer->link.next;
    struct purg_link *prev = timer->link.prev;
    if (!next) { return false; }
    next->prev = prev;
    prev->next = next;
    timer->link.next = NULL;
    /* Both are the list's head. Looking into a neighbour instead would wait for its memory. */
    if (next == prev) { slot_changed(wheel, next); }
    return true;
}

bool purg_timer_is_added(const struct purg_timer *timer)
{
    return timer->link.next != NULL;
}

/* Where the next slot that is not empty begins; NO_TICK if nothing waits. */
static inline uint64_t next_tick(const struct purg_wheel *wheel)
{
    uint64_t tick = NO_TICK;
    for (uint32_t mask = wheel->levels_mask; mask != 0; mask &= mask - 1) {
        const struct purg_wheel_level *level = &wheel->levels[__builtin_ctz(mask)];
        uint64_t turn = wheel->tick >> level->shift >> wheel->bits; /* the clock's */
        bool is_next = level->occupied[turn & 1] == 0;
        turn += is_next;
        uint64_t digit = (uint64_t)__builtin_ctzll(level->occupied[turn & 1]);
        uint64_t start = ((turn << wheel->bits) | digit) << level->shift;
        if (start < tick) { tick = start; }
        if (!is_next) { break; } /* all above begins later */
    }
    return tick;
}

/* Places timers of a slot again, at most 'pairs' of them. The list is a chain of cache misses; from
 * both ends there are two at a time. */
static void cascade(struct purg_wheel *wheel, struct purg_link *slot, size_t pairs)
{
    struct purg_link *first = slot->next;
    struct purg_link *last = slot->prev;
    for (; pairs > 0 && first != slot; pairs--) {
        struct purg_link *second = first->next;
        struct purg_link *second_last = last->prev;
        __builtin_prefetch(second, 1, 3);
        __builtin_prefetch(second_last, 1, 3);
        place(wheel, timer_of(first), timer_of(first)->deadline_ns);
        if (first != last) { place(wheel, timer_of(last), timer_of(last)->deadline_ns); }
        bool is_end = first == last || second == last;
        first = is_end ? slot : second;
        last = is_end ? slot : second_last;
    }
    slot->next = first;
    slot->prev = last;
    first->prev = slot;
    last->next = slot;
    if (first == slot) { slot_changed(wheel, slot); }
}

/* The clock reaches a tick: what is in slots that begin there is due or goes down. */
static void clock_reach(struct purg_wheel *wheel, uint64_t tick)
{
    clock_set(wheel, tick);
    struct purg_link *slot = &wheel->levels[0].slots[tick & wheel->level_mask];
    if (!link_is_empty(slot)) {
        link_splice(&wheel->due, slot);
        slot_changed(wheel, slot);
    }
    for (uint32_t i = 1; i < wheel->levels_count; i++) {
        if ((tick & (wheel->level_mask >> 1)) != 0) { break; }
        tick >>= wheel->bits;
        slot = &wheel->levels[i].slots[tick & wheel->level_mask];
        if (!link_is_empty(slot)) { cascade(wheel, slot, SIZE_MAX); }
    }
}

/* Of each level the slot that the turn below comes to next: some of it goes down already. */
static void cascade_ahead(struct purg_wheel *wheel, size_t pairs)
{
    for (uint32_t i = 1; wheel->levels_mask >> i != 0; i++) {
        struct purg_wheel_level *level = &wheel->levels[i];
        uint64_t next = (wheel->tick >> level->shift) + 1;
        struct purg_link *slot = &level->slots[next & wheel->level_mask];
        if (!link_is_empty(slot)) { cascade(wheel, slot, pairs); }
    }
}

/* Fetches the timers that fire next, from both ends of their list, after those of now have fired:
 * each would be waited for in turn. */
static void fetch_next(const struct purg_wheel *wheel)
{
    uint64_t tick = next_tick(wheel);
    const struct purg_link *slot = &wheel->levels[0].slots[tick & wheel->level_mask];
    const struct purg_link *first = slot->next;
    const struct purg_link *last = slot->prev;
    for (int i = 0; i < FETCH_PAIRS_MAX && first != last && first->prev != last; i++) {
        first = first->next;
        last = last->prev;
        purg_prefetch_write(first);
        purg_prefetch_write(last);
    }
}

static size_t fire_due(struct purg_wheel *wheel, uint64_t now_ns, size_t budget)
{
    size_t fired = 0;
    while (fired < budget && !link_is_empty(&wheel->due)) {
        struct purg_timer *timer = timer_of(wheel->due.next);
        __builtin_prefetch(timer->link.next->next);
        link_remove(&timer->link);
        fired++;
        timer->on_due(timer, now_ns); /* may free it */
    }
    return fired;
}

static size_t advance(struct purg_wheel *wheel, uint64_t now_ns, size_t budget)
{
    uint64_t target = now_ns / wheel->tick_ns;
    size_t fired = 0;
    for (;;) {
        fired += fire_due(wheel, now_ns, budget - fired);
        if (fired == budget) { break; }
        uint64_t tick = next_tick(wheel);
        if (tick == NO_TICK || tick > target) {
            if (target > wheel->tick) { clock_set(wheel, target); } /* else it went back: stands */
            break;
        }
        clock_reach(wheel, tick);
    }
    return fired;
}

size_t purg_wheel_advance(struct purg_wheel *wheel, uint64_t now_ns, size_t budget)
{
    if (budget == 0) { purg_misuse(&wheel->env, "purg_wheel_advance: no budget"); }
    if (wheel->is_advancing) {
        purg_misuse(&wheel->env, "purg_wheel_advance: called from one of its own callbacks");
    }
    wheel->is_advancing = true;
    size_t fired = advance(wheel, now_ns, budget);
    /* Twice as many as fire: at an even rate half a turn is enough. */
    if (fired > 0) { cascade_ahead(wheel, fired + CASCADE_PAIRS_MIN); }
    if (fired >= FETCH_FIRED_MIN) { fetch_next(wheel); }
    wheel->is_advancing = false;
    return fired;
}

uint64_t purg_wheel_next_ns(const struct purg_wheel *wheel)
{
    if (!link_is_empty(&wheel->due)) { return 0; }
    uint64_t tick = next_tick(wheel);
    return tick == NO_TICK ? PURG_NEVER : tick * wheel->tick_ns;
}

struct purg_timer *purg_wheel_take_any(struct purg_wheel *wheel)
{
    struct purg_link *list = &wheel->due;
    if (link_is_empty(list) && wheel->levels_mask != 0) {
        const struct purg_wheel_level *level = &wheel->levels[__builtin_ctz(wheel->levels_mask)];
        size_t turn = level->occupied[0] == 0;
        size_t digit = (size_t)__builtin_ctzll(level->occupied[turn]);
        list = &level->slots[(turn << wheel->bits) + digit];
    }
    if (link_is_empty(list)) { list = &wheel->never; }
    if (link_is_empty(list)) { return NULL; }
    struct purg_timer *timer = timer_of(list->next);
    purg_timer_remove(wheel, timer);
    return timer;
}

static size_t list_count(const struct purg_link *head)
{
    size_t count = 0;
    for (const struct purg_link *link = head->next; link != head; link = link->next) {
        count++;
    }
    return count;
}

size_t purg_wheel_count(const struct purg_wheel *wheel)
{
    size_t count = list_count(&wheel->due) + list_count(&wheel->never);
    for (size_t i = 0; i < wheel->levels_count * (wheel->level_mask + 1); i++) {
        count += list_count(&wheel->levels[0].slots[i]);
    }
    return count;
}
