/* machine.h - a simulated world in one thread: hosts with disks and processes, streams, one clock,
 * all chance from one seed.
 *
 * Place:      beside the rooms, never in production. Implements sys/sys.h and base/mem.h, so the
 *             real rooms run in it unchanged. The harness (a test's main) owns the world and calls
 *             the functions below between steps.
 * Thread:     one. Every task and every main of a process is a fiber with a stack of its own. The
 *             scheduler resumes one fiber at a time: it runs until it sleeps, waits (a BLOCKS call,
 *             a taken lock, a flag) or is preempted by chance at a lock, a wake-up or a disk call.
 * Time:       virtual. It moves a little with every step and jumps to the next due moment when
 *             nothing can run.
 * Disk:       the first component of a path names a disk ("d1/logs" is on d1), which is there from
 *             its first mention. Each disk is a device of its own. A write is in the page cache
 *             until synced; a name is in its directory until that is synced: both can be lost.
 * Ownership:  a process has its own heap. A crash drops heap, fibers, files and streams whole; no
 *             destructor runs.
 * Failure:    a failed CHECK prints the seed and the last events, then aborts. The same seed and
 * the same calls repeat every event: sim_hash() proves it. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "sys/sys.h"

#include <stdio.h>

struct sim;
struct sim_host;

struct sim_options {
    uint64_t seed;
    unsigned preempt_permille; /* chance that a fiber is preempted at a lock, wake or disk call */
    unsigned short_permille; /* chance that a stream moves less than it could */
    uint64_t latency_min_ns, latency_max_ns; /* of a segment on a stream; 0, 0: 20 to 500 us */
    size_t stream_bytes_max; /* in flight one way; 0: 64 KiB */
    FILE *trace; /* every event as it happens; NULL: only kept for a failure */
};

/* Aborts without memory: the harness is no production code. One world at a time. */
struct sim *sim_create(const struct sim_options *options);
void sim_destroy(struct sim *sim);

/* ---- time, chance, trace ---- */

uint64_t sim_now_ns(const struct sim *sim);
uint64_t sim_random(struct sim *sim); /* the world's chance: schedule, faults, workload */
uint64_t sim_below(struct sim *sim, uint64_t bound); /* 0 .. bound - 1 */
bool sim_chance(struct sim *sim, unsigned permille);
/* A line of the harness in the trace, part of the hash. */
__attribute__((format(printf, 2, 3))) void sim_note(struct sim *sim, const char *fmt, ...);
uint64_t sim_hash(const struct sim *sim);
void sim_print_trace(const struct sim *sim, FILE *out); /* the last events */

/* ---- running ---- */

/* Resumes one fiber that can run, or moves the clock to the next due moment (never beyond
 * limit_ns). False when nothing is due up to limit_ns; the clock is then at limit_ns, if that is
 * not SYS_NEVER. */
bool sim_step(struct sim *sim, uint64_t limit_ns);
void sim_run_until(struct sim *sim, uint64_t limit_ns);

/* ---- hosts and processes ---- */

struct sim_host *sim_host_create(struct sim *sim, const char *name);
/* Starts a process: main runs as its first fiber and may wait. Its tasks live on when it returns.
 */
void sim_boot(struct sim_host *host, void (*main)(struct sys *sys, void *ctx), void *ctx);
/* Runs a function as a further fiber of the process; *done (may be NULL) becomes 1 at its end. */
void sim_call(struct sim_host *host, void (*call)(struct sys *sys, void *ctx), void *ctx,
              _Atomic int *done);
bool sim_is_up(const struct sim_host *host);
struct sim *sim_of(const struct sim_host *host);
struct sys *sim_sys(const struct sim_host *host); /* of the process that is up */

enum sim_keep { SIM_KEEP_BY_CHANCE, SIM_KEEP_NOTHING, SIM_KEEP_ALL };
/* Power cut: the process is gone, and of what was not synced only what 'keep' says: by chance any
 * 512-byte sectors, any names, sizes newer or older than the content. */
void sim_crash(struct sim_host *host, enum sim_keep keep);
/* kill -9: the process is gone, the disks keep everything in the page cache. */
void sim_kill(struct sim_host *host);
/* What sys_wait_signal() of the process returns. */
void sim_signal(struct sim_host *host, int number);
/* The n-th allocation from now fails (1: the next one); 0 stops it. */
void sim_fail_allocation(struct sim_host *host, uint64_t nth);
uint64_t sim_heap_bytes(const struct sim_host *host);
/* What is in use, oldest first: number, size and the address of the code that asked (addr2line). */
void sim_print_heap(const struct sim_host *host, FILE *out);
uint64_t sim_allocations(const struct sim_host *host); /* since the boot */
void sim_jump_wall_clock(struct sim_host *host, int64_t by_ms);

/* ---- disks ---- */

struct sim_disk_faults {
    uint64_t space_bytes; /* size of the disk; UINT64_MAX: no bound */
    /* Chances in a million for each call to fail with ERR_IO. */
    unsigned write_error_ppm, read_error_ppm, sync_error_ppm;
    /* The n-th call from now fails once with ERR_IO; 0: none. */
    unsigned write_error_in, read_error_in, sync_error_in;
    bool is_dead; /* every call fails with ERR_IO */
    uint64_t sync_min_ns, sync_max_ns; /* how long a sync takes; 0, 0: 100 us to 3 ms */
    uint64_t call_ns; /* every call takes so long too; more than 5 ms: a slow device */
    unsigned cold_permille; /* chance that a probe of a file from before the boot finds it cold */
};

/* The disk's faults, to be changed at any time. */
struct sim_disk_faults *sim_disk_faults(struct sim_host *host, const char *disk);
uint64_t sim_disk_device(struct sim_host *host, const char *disk);
/* Content as a process would read it now (durable false) or as a crash that keeps nothing would
 * leave it, under the name that it has now. Up to size bytes; false when there is no such file. */
bool sim_disk_peek(struct sim_host *host, const char *path, bool durable, void *buf, size_t size,
                   size_t *got);
/* Names in a directory as they are now, in order of creation. */
void sim_disk_list(struct sim_host *host, const char *path,
                   void (*visit)(void *ctx, const char *name, bool is_dir), void *ctx);
/* Rot: changes bits of what is stored, behind everybody's back. False: no such byte. */
bool sim_disk_rot(struct sim_host *host, const char *path, uint64_t pos, uint8_t flip);
uint64_t sim_disk_used(struct sim_host *host, const char *disk);

/* ---- streams of the harness: clients ---- */

/* A connection from outside to a listener of the host; sys_stream_* calls move bytes, close ends
 * it. When nobody listens the first call says ERR_CLOSED. */
struct sys_stream *sim_connect(struct sim_host *host, uint16_t port);
unsigned sim_stream_ready(const struct sys_stream *s); /* a sys_interest mask */
void sim_stream_reset(struct sys_stream *s); /* bytes in flight are lost, both sides see it */

/* ---- what was seen ---- */

struct sim_counts {
    uint64_t steps, preemptions, lock_waits;
    uint64_t writes, reads, syncs, name_syncs;
    uint64_t write_errors, sync_errors, no_space;
    uint64_t sectors_lost, sectors_kept, names_lost, truncates_lost;
    uint64_t cold_reads_in_poller; /* a processor read a page that its probe would call cold */
    uint64_t resets, bytes_lost;
};
const struct sim_counts *sim_counts(const struct sim *sim);

#endif
