/* wheel.c - hierarchical timing wheel: digits of the deadline choose level and slot.
 *
 * Place:      see wheel.h.
 * Source:     Varghese and Lauck (1987), scheme 7, with bitmaps.
 * Thread:     the owner's only.
 *
 * The clock and each deadline are numbers of ticks, read as digits in base 'slots'. A timer lies
 * at the level of the highest digit in which they differ, in the slot of its own digit there
 * [WHL-4]. It is later than the clock, so that digit is greater than the clock's, and it shares
 * all digits above. From this follows:
 *   - all of level 0 comes before all of level 1 and so on: the next slot is the lowest set bit
 *     of the lowest level that has one;
 *   - as long as the clock does not pass the start of a slot, what lies in it need not move;
 *   - when the clock reaches it, at level 0 its timers are due, at a higher level they differ
 *     from the clock only in lower digits: they are placed again (cascade).
 * Deadlines are rounded up to ticks, the clock down: never early [WHL-1]. */
#include "purgatory/purg_int.h"

static void link_init(struct purg_link *head)
{
    head->next = head;
    head->prev = head;
}

static bool link_is_empty(const struct purg_link *head)
{
    return head->next == head;
}

static void link_add_tail(struct purg_link *head, struct purg_link *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
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

static uint32_t slots_count(const struct purg_wheel *wheel)
{
    return 1u << wheel->bits;
}

static size_t level_size(const struct purg_wheel *wheel)
{
    return slots_count(wheel) * sizeof(struct purg_link);
}

/* Makes levels up to and including 'level' exist. False: no memory. Rare: out of place()'s way. */
static __attribute__((noinline)) bool levels_grow(struct purg_wheel *wheel, uint32_t level)
{
    while (wheel->levels_count <= level) {
        struct purg_link *slots =
            wheel->env.alloc(wheel->env.ctx, level_size(wheel), PURG_CACHE_LINE);
        if (!slots) { return false; }
        for (uint32_t i = 0; i < slots_count(wheel); i++) {
            link_init(&slots[i]);
        }
        wheel->levels[wheel->levels_count++] = slots;
    }
    return true;
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
        .bits = (uint32_t)__builtin_ctz(slots),
    };
    wheel->tick = options->start_ns / wheel->tick_ns;
    wheel->tick_max = UINT64_MAX / wheel->tick_ns;
    link_init(&wheel->due);
    link_init(&wheel->stray);
    link_init(&wheel->never);
    return levels_grow(wheel, 0);
}

void purg_wheel_fini(struct purg_wheel *wheel)
{
    if (wheel->timers_count > 0) { purg_misuse(&wheel->env, "purg_wheel_fini: timers are left"); }
    for (uint32_t i = 0; i < wheel->levels_count; i++) {
        wheel->env.free(wheel->env.ctx, wheel->levels[i], level_size(wheel));
        wheel->levels[i] = NULL;
    }
    wheel->levels_count = 0;
}

void purg_timer_init(struct purg_timer *timer,
                     void (*on_due)(struct purg_timer *timer, uint64_t now_ns))
{
    *timer = (struct purg_timer){.on_due = on_due};
}

/* A level that could not be allocated: the timer waits beside the wheel until the highest level
 * there is turns over, which is not after its tick, and is then placed again. */
static void place_stray(struct purg_wheel *wheel, struct purg_timer *timer)
{
    uint32_t shift = wheel->bits * wheel->levels_count;
    uint64_t turn = ((wheel->tick >> shift) + 1) << shift;
    if (link_is_empty(&wheel->stray) || turn < wheel->stray_tick) { wheel->stray_tick = turn; }
    link_add_tail(&wheel->stray, &timer->link);
}

/* time_ns / tick_ns. A division is slow; a product with the inverse, 2^64 / tick_ns, is at most one
 * too small. The last tick is that inverse. */
static uint64_t ticks_before(const struct purg_wheel *wheel, uint64_t time_ns)
{
#ifdef __SIZEOF_INT128__
    uint64_t tick = (uint64_t)(((unsigned __int128)time_ns * wheel->tick_max) >> 64);
    return tick + (time_ns - tick * wheel->tick_ns >= wheel->tick_ns);
#else
    return time_ns / wheel->tick_ns;
#endif
}

static void place(struct purg_wheel *wheel, struct purg_timer *timer)
{
    uint64_t tick = ticks_before(wheel, timer->deadline_ns);
    tick += tick * wheel->tick_ns != timer->deadline_ns; /* [WHL-1] rounded up */
    if (tick <= wheel->tick) {
        link_add_tail(&wheel->due, &timer->link);
        return;
    }
    if (tick > wheel->tick_max || timer->deadline_ns == PURG_NEVER) {
        link_add_tail(&wheel->never, &timer->link);
        return;
    }
    uint32_t level = (63u - (uint32_t)__builtin_clzll(tick ^ wheel->tick)) / wheel->bits;
    if (level >= wheel->levels_count && !levels_grow(wheel, level)) {
        place_stray(wheel, timer);
        return;
    }
    uint64_t slot = (tick >> (level * wheel->bits)) & (slots_count(wheel) - 1);
    link_add_tail(&wheel->levels[level][slot], &timer->link);
    wheel->occupied[level] |= (uint64_t)1 << slot;
    wheel->levels_mask |= 1u << level;
}

void purg_timer_add(struct purg_wheel *wheel, struct purg_timer *timer, uint64_t deadline_ns)
{
    if (timer->link.next) {
        purg_misuse(&wheel->env, "purg_timer_add: the timer is in a wheel already");
    }
    timer->deadline_ns = deadline_ns;
    wheel->timers_count++;
    place(wheel, timer);
}

static void slot_clear(struct purg_wheel *wheel, uint32_t level, uint32_t slot)
{
    wheel->occupied[level] &= ~((uint64_t)1 << slot);
    if (wheel->occupied[level] == 0) { wheel->levels_mask &= ~(1u << level); }
}

/* A list of the wheel became empty; if it is a slot its bit goes [WHL-5]. */
static void list_emptied(struct purg_wheel *wheel, const struct purg_link *head)
{
    for (uint32_t mask = wheel->levels_mask; mask != 0; mask &= mask - 1) {
        uint32_t level = (uint32_t)__builtin_ctz(mask);
        uintptr_t pos = (uintptr_t)head - (uintptr_t)wheel->levels[level];
        if (pos < level_size(wheel)) {
            slot_clear(wheel, level, (uint32_t)(pos / sizeof *head));
            return;
        }
    }
}

bool purg_timer_remove(struct purg_wheel *wheel, struct purg_timer *timer)
{
    struct purg_link *next = timer->link.next;
    struct purg_link *prev = timer->link.prev;
    if (!next) { return false; }
    link_remove(&timer->link);
    wheel->timers_count--;
    /* Both are the list's head. Looking into a neighbour instead would wait for its memory. */
    if (next == prev) { list_emptied(wheel, next); }
    return true;
}

bool purg_timer_is_added(const struct purg_timer *timer)
{
    return timer->link.next != NULL;
}

struct wheel_event {
    uint64_t tick;
    uint32_t level;
    uint32_t slot;
    bool is_stray;
};

/* What happens next; false if nothing ever will. */
static bool next_event(const struct purg_wheel *wheel, struct wheel_event *event)
{
    bool has_stray = !link_is_empty(&wheel->stray);
    *event = (struct wheel_event){.tick = wheel->stray_tick, .is_stray = has_stray};
    if (wheel->levels_mask == 0) { return has_stray; }
    uint32_t level = (uint32_t)__builtin_ctz(wheel->levels_mask);
    uint32_t slot = (uint32_t)__builtin_ctzll(wheel->occupied[level]);
    uint32_t shift = level * wheel->bits;
    uint64_t tick = (uint64_t)slot << shift;
    if (shift + wheel->bits < 64) { /* the digits above are the clock's [WHL-4] */
        tick |= wheel->tick >> (shift + wheel->bits) << (shift + wheel->bits);
    }
    if (!has_stray || tick <= wheel->stray_tick) {
        *event = (struct wheel_event){.tick = tick, .level = level, .slot = slot};
    }
    return true;
}

/* Places all of a list again, at the clock's new tick. */
static void cascade(struct purg_wheel *wheel, struct purg_link *list)
{
    struct purg_link moving;
    link_init(&moving);
    link_splice(&moving, list);
    struct purg_link *link = moving.next;
    while (link != &moving) {
        struct purg_link *next = link->next;
        __builtin_prefetch(next->next);
        place(wheel, timer_of(link));
        link = next;
    }
}

static size_t fire_due(struct purg_wheel *wheel, uint64_t now_ns, size_t budget)
{
    size_t fired = 0;
    while (fired < budget && !link_is_empty(&wheel->due)) {
        struct purg_timer *timer = timer_of(wheel->due.next);
        __builtin_prefetch(timer->link.next->next);
        link_remove(&timer->link);
        wheel->timers_count--;
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
        if (fired == budget) { return fired; }
        struct wheel_event event;
        if (!next_event(wheel, &event) || event.tick > target) { break; }
        wheel->tick = event.tick;
        if (event.is_stray) {
            cascade(wheel, &wheel->stray);
            continue;
        }
        struct purg_link *slot = &wheel->levels[event.level][event.slot];
        slot_clear(wheel, event.level, event.slot);
        if (event.level == 0) {
            link_splice(&wheel->due, slot);
        } else {
            cascade(wheel, slot);
        }
    }
    if (target > wheel->tick) { /* a clock that went back stands still */
        wheel->tick = target;
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
    wheel->is_advancing = false;
    return fired;
}

uint64_t purg_wheel_next_ns(const struct purg_wheel *wheel)
{
    if (!link_is_empty(&wheel->due)) { return 0; }
    struct wheel_event event;
    return next_event(wheel, &event) ? event.tick * wheel->tick_ns : PURG_NEVER;
}

struct purg_timer *purg_wheel_take_any(struct purg_wheel *wheel)
{
    struct purg_link *list = &wheel->due;
    if (link_is_empty(list) && wheel->levels_mask != 0) {
        uint32_t level = (uint32_t)__builtin_ctz(wheel->levels_mask);
        list = &wheel->levels[level][__builtin_ctzll(wheel->occupied[level])];
    }
    if (link_is_empty(list)) { list = &wheel->stray; }
    if (link_is_empty(list)) { list = &wheel->never; }
    if (link_is_empty(list)) { return NULL; }
    struct purg_timer *timer = timer_of(list->next);
    purg_timer_remove(wheel, timer);
    return timer;
}

size_t purg_wheel_count(const struct purg_wheel *wheel)
{
    return wheel->timers_count;
}
