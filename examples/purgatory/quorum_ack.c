/* quorum_ack.c - acks=all: a write is acknowledged when every replica has it, or its time is up.
 * Three replica threads copy a leader's log. A write waits until the slowest has passed its
 * offset; each record that a replica copies is an event. A reaper's thread gives the answers. */
#include <pthread.h>
#include <purgatory/purgatory.h>
#include <purgatory/reaper.h>
#include <sched.h>
#include <stdio.h>

enum { WRITES = 1000 };
struct write {
    struct purg_op op; /* first: write and op are one address */
    struct purg_watch_node node;
    uint64_t end; /* acknowledged when every replica has the log up to here */
};
static struct write writes[WRITES + 1]; /* lent to the library while they wait */
static _Atomic(uint64_t) log_end, replica_end[3];
static const struct purg_key partition = {.lo = 1};
static struct purgatory *purgatory;
static _Atomic(int) acked, timed_out;

static bool write_try(struct purg_op *op) /* any thread; reads only what is published */
{
    uint64_t end = ((struct write *)op)->end;
    return replica_end[0] >= end && replica_end[1] >= end && replica_end[2] >= end;
}

static void write_complete(struct purg_op *op, enum purg_reason reason) /* the reaper's thread */
{
    (void)op; /* a server would answer its request here */
    (*(reason == PURG_EVENT ? &acked : &timed_out))++;
}

static void *replica_main(void *arg)
{
    for (_Atomic(uint64_t) *end = arg; *end < WRITES; sched_yield()) {
        if (*end < log_end) {
            ++*end; /* copied: publish, hold no lock, then tell */
            purg_check(purgatory, NULL, partition);
        }
    }
    return NULL;
}

static void append(struct purg_owner *owner, uint64_t deadline_ns)
{
    static const struct purg_op_type type = {"write", write_try, write_complete};
    struct write *it = &writes[log_end++];
    it->end = log_end;
    purg_op_init(&it->op, &type, owner);
    if (purg_try_complete_else_watch(purgatory, NULL, &it->op, &it->node, &partition, 1,
                                     deadline_ns) == PURG_DONE) {
        write_complete(&it->op, PURG_EVENT); /* every replica was faster */
    }
}

int main(void)
{
    struct purg_env env = purg_env_pthread();
    struct purg_reaper *reaper = purg_reaper_start(&env, &(struct purg_owner_options){0});
    pthread_t threads[3];
    purgatory = purg_create(&env, &(struct purg_options){.shards = 16});
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, replica_main, &replica_end[i]);
    }
    for (int i = 0; i < WRITES; i++) {
        append(purg_reaper_owner(reaper), PURG_NEVER);
    }
    append(purg_reaper_owner(reaper), env.now_ns(NULL) + 1000000); /* no replica copies this one */
    while (acked < WRITES || timed_out < 1) {
        sched_yield();
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    purg_reaper_stop(reaper);
    purg_destroy(purgatory);
    printf("%d acknowledged, %d timed out\n", acked, timed_out);
    return acked == WRITES && timed_out == 1 ? 0 : 1;
}
