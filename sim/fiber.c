/* fiber.c - stacks and the switch between them and the harness.
 *
 * Thread: one. AddressSanitizer is told of every switch, so that it knows which stack is in use. */
#include "sim/atomics.h"
#include "sim/machine_int.h"

#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SIM_LEAVE(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define SIM_ARRIVE(saved, bottom, size) __sanitizer_finish_switch_fiber(saved, bottom, size)
#define SIM_CLEAN(stack) ASAN_UNPOISON_MEMORY_REGION(stack, SIM_STACK_SIZE)
#else
#define SIM_LEAVE(save, bottom, size) ((void)0)
#define SIM_ARRIVE(saved, bottom, size) ((void)0)
#define SIM_CLEAN(stack) ((void)0)
#endif

#define SIM_LONG_PERMILLE 200
#define SIM_LONG_NS_MAX (5 * SYS_MS)
#define SIM_GUARD_SIZE                                                                             \
    4096 /* below each stack: an overflow faults instead of writing elsewhere                      \
          */

static void sim_fiber_leave(struct sim_fiber *f)
{
    struct sim *sim = sim_world;
    SIM_LEAVE(f->wait == SIM_ENDED ? NULL : &f->fake_stack, sim->harness_stack,
              sim->harness_stack_size);
    int rc = swapcontext(&f->context, &sim->context);
    CHECK(rc == 0);
    SIM_ARRIVE(f->fake_stack, &sim->harness_stack, &sim->harness_stack_size);
}

static void sim_fiber_main(void)
{
    struct sim_fiber *f = sim_world->fiber;
    SIM_ARRIVE(NULL, &sim_world->harness_stack, &sim_world->harness_stack_size);
    f->entry(f);
    CHECKF(f->held_count == 0, "%s ends with %u locks held", f->name, f->held_count);
    f->wait = SIM_ENDED;
    sim_fiber_leave(f);
    CHECK(f->wait != SIM_ENDED); /* nobody resumes an ended fiber */
}

struct sim_fiber *sim_fiber_start(struct sim_process *p, const char *name,
                                  void (*entry)(struct sim_fiber *f))
{
    struct sim_fiber *f = sim_alloc(sizeof *f);
    f->process = p;
    f->id = ++sim_world->fibers_made;
    f->entry = entry;
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    char *base = mmap(NULL, SIM_GUARD_SIZE + SIM_STACK_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    int rc = mprotect(base, SIM_GUARD_SIZE, PROT_NONE);
    CHECK(rc == 0);
    f->stack = base + SIM_GUARD_SIZE;
    SIM_CLEAN(f->stack);
    rc = getcontext(&f->context);
    CHECK(rc == 0);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = SIM_STACK_SIZE;
    f->context.uc_link = NULL;
    makecontext(&f->context, sim_fiber_main, 0);
    struct sim_fiber **end = &p->fibers;
    while (*end) {
        end = &(*end)->next;
    }
    *end = f;
    return f;
}

void sim_fiber_free(struct sim_fiber *f)
{
    struct sim_fiber **at = &f->process->fibers;
    while (*at != f) {
        at = &(*at)->next;
    }
    *at = f->next;
    SIM_CLEAN(f->stack);
    int rc = munmap((char *)f->stack - SIM_GUARD_SIZE, SIM_GUARD_SIZE + SIM_STACK_SIZE);
    CHECK(rc == 0);
    free(f->task);
    free(f);
}

void sim_fiber_resume(struct sim_fiber *f)
{
    struct sim *sim = sim_world;
    f->wait = SIM_READY;
    sim->fiber = f;
    SIM_LEAVE(&sim->fake_stack, f->stack, SIM_STACK_SIZE);
    int rc = swapcontext(&sim->context, &f->context);
    CHECK(rc == 0);
    SIM_ARRIVE(sim->fake_stack, NULL, NULL);
    sim->fiber = NULL;
    if (f->wait == SIM_ENDED && !f->task) { sim_fiber_free(f); } /* a task's: sys_task_stop() */
}

void sim_fiber_wait(enum sim_wait wait)
{
    struct sim_fiber *f = sim_world->fiber;
    CHECK(f); /* the harness cannot wait for its own world here */
    f->wait = wait;
    sim_fiber_leave(f);
}

void sim_fiber_sleep_until(uint64_t until_ns)
{
    CHECK(sim_world->fiber);
    sim_world->fiber->until_ns = until_ns;
    sim_fiber_wait(SIM_TIMED);
}

void sim_preempt(void)
{
    struct sim *sim = sim_world;
    if (sim->fiber && sim_chance(sim, sim->options.preempt_permille)) {
        sim->counts.preemptions++;
        if (sim_chance(sim, SIM_LONG_PERMILLE)) {
            /* Another process has the processor for a while: narrow windows stand open. */
            sim_fiber_sleep_until(sim->now_ns + 1 + sim_below(sim, SIM_LONG_NS_MAX));
        } else {
            sim_fiber_wait(SIM_READY);
        }
    }
}

void sim_atomic_point(void)
{
    if (sim_world) { sim_preempt(); }
}

struct sim_process *sim_current(void)
{
    return sim_world && sim_world->fiber ? sim_world->fiber->process : NULL;
}
