/* annotate.h - contracts about threads and locks that clang's -Wthread-safety reads; nothing for
 * gcc.
 *
 * A lock type is declared with CAPABILITY; a function says HOLDS(lock) when its caller must hold
 * it, ACQUIRES and RELEASES when it takes or gives it back. NO_THREAD_SAFETY is for functions that
 * hand a lock on to a caller the compiler cannot see. Which lock guards which field is said in the
 * struct's comments; the rules of ranks are in docs/CONCURRENCY.md.
 */
#ifndef BASE_ANNOTATE_H
#define BASE_ANNOTATE_H

#ifdef __clang__
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif

#define CAPABILITY(name) TSA(capability(name))
#define HOLDS(...) TSA(requires_capability(__VA_ARGS__))
#define ACQUIRES(...) TSA(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...) TSA(try_acquire_capability(__VA_ARGS__))
#define RELEASES(...) TSA(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY TSA(no_thread_safety_analysis)

#endif
