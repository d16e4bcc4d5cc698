/* purg_env.c - the table that libpurgatory asks for. */
#include "broker/purg_env.h"

#include "base/check.h"
#include "base/mem.h"

static void env_word_wait(void *ctx, _Atomic(uint32_t) *word, uint32_t value)
{
    (void)ctx;
    sys_word_wait(word, value);
}

static void env_word_wake(void *ctx, _Atomic(uint32_t) *word)
{
    (void)ctx;
    sys_word_wake(word);
}

#ifdef BARNABAS_DEBUG
static void env_lock_taking(void *ctx)
{
    (void)ctx;
    sys_word_taking(SYS_RANK_PURGATORY);
}

static void env_lock_giving(void *ctx)
{
    (void)ctx;
    sys_word_giving(SYS_RANK_PURGATORY);
}
#else /* ranks are verified in debug builds */
#define env_lock_taking NULL
#define env_lock_giving NULL
#endif

static uint64_t env_now_ns(void *ctx)
{
    return sys_mono_ns(ctx);
}

/* Aligned memory carries the address of its block in front. */
static void *env_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    uint8_t *block = mem_zalloc(size + align + sizeof(void *));
    if (!block) { return NULL; }
    uintptr_t at = ((uintptr_t)block + sizeof(void *) + align - 1) & ~(uintptr_t)(align - 1);
    uint8_t *memory = block + (at - (uintptr_t)block);
    memcpy(memory - sizeof(void *), &block, sizeof block);
    return memory;
}

static void env_free(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    uint8_t *block;
    if (!memory) { return; }
    memcpy(&block, (uint8_t *)memory - sizeof(void *), sizeof block);
    mem_free(block);
}

static void env_misuse(void *ctx, const char *what)
{
    (void)ctx;
    bool is_used_as_it_says = false;
    CHECKF(is_used_as_it_says, "libpurgatory: %s", what);
}

struct purg_env broker_purg_env(struct sys *sys)
{
    return (struct purg_env){.ctx = sys,
                             .word_wait = env_word_wait,
                             .word_wake = env_word_wake,
                             .lock_taking = env_lock_taking,
                             .lock_giving = env_lock_giving,
                             .now_ns = env_now_ns,
                             .alloc = env_alloc,
                             .free = env_free,
                             .misuse = env_misuse};
}
