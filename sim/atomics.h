/* atomics.h - lets the scheduler in at the atomic operations that decide who was first.
 *
 * Place:  included before everything else in the rooms' sources when they are built for the
 *         simulator (-include). Real threads can lose the processor anywhere; fibers lose it only
 *         where sim_preempt() is called, so exchanges and compare-and-swaps become such places.
 * Limits: each macro does what stdatomic.h's does, for what fits a register. */
#ifndef SIM_ATOMICS_H
#define SIM_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>

void sim_atomic_point(void);

#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit

#ifdef __clang__
#define SIM_EXCHANGE(p, v, mo) __c11_atomic_exchange(p, v, mo)
#define SIM_CAS(p, e, v, mo, fail) __c11_atomic_compare_exchange_strong(p, e, v, mo, fail)
#else
#define SIM_EXCHANGE(p, v, mo) __atomic_exchange_n(p, v, mo)
#define SIM_CAS(p, e, v, mo, fail) __atomic_compare_exchange_n(p, e, v, false, mo, fail)
#endif

#define atomic_exchange_explicit(p, v, mo)                                                         \
    __extension__({                                                                                \
        sim_atomic_point();                                                                        \
        SIM_EXCHANGE(p, v, mo);                                                                    \
    })
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, memory_order_seq_cst)
#define atomic_compare_exchange_strong_explicit(p, e, v, mo, fail)                                 \
    __extension__({                                                                                \
        sim_atomic_point();                                                                        \
        SIM_CAS(p, e, v, mo, fail);                                                                \
    })
#define atomic_compare_exchange_weak_explicit(p, e, v, mo, fail)                                   \
    atomic_compare_exchange_strong_explicit(p, e, v, mo, fail)
#define atomic_compare_exchange_strong(p, e, v)                                                    \
    atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(p, e, v) atomic_compare_exchange_strong(p, e, v)

#endif
