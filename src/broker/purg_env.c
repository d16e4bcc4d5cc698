/* purg_env.c - the table that libpurgatory asks for. */
#include "broker/purg_env.h"

#include "base/check.h"
#include "base/mem.h"

_Static_assert(sizeof(struct sys_mutex) <= PURG_MUTEX_SIZE, "the library's room holds our lock");

static struct sys_mutex *mutex_of(struct purg_mutex *mutex)
{
    return (struct sys_mutex *)(void *)mutex->storage;
}

static bool env_mutex_init(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    sys_mutex_init(mutex_of(mutex), SYS_RANK_PURGATORY);
    return true;
}

static void env_mutex_fini(void *ctx, struct purg_mutex *mutex)
{
    (void)ctx;
    sys_mutex_fini(mutex_of(mutex));
}

static void env_mutex_lock(void *ctx, struct purg_mutex *mutex) NO_THREAD_SAFETY
{
    (void)ctx;
    sys_mutex_lock(mutex_of(mutex));
}

static void env_mutex_unlock(void *ctx, struct purg_mutex *mutex) NO_THREAD_SAFETY
{
    (void)ctx;
    sys_mutex_unlock(mutex_of(mutex));
}

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
                             .mutex_init = env_mutex_init,
                             .mutex_fini = env_mutex_fini,
                             .mutex_lock = env_mutex_lock,
                             .mutex_unlock = env_mutex_unlock,
                             .now_ns = env_now_ns,
                             .alloc = env_alloc,
                             .free = env_free,
                             .misuse = env_misuse};
}
