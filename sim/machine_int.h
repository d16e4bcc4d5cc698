/* machine_int.h - the parts of the simulated world.
 *
 * Place:      private to sim/. Everything here is allocated with the C allocator, beside the heaps
 *             of the simulated processes.
 * Invariants: [SIM-1] nothing that decides depends on an address or on real time. [SIM-2] lists are
 *             kept in order of creation. [SIM-3] sim_world is the one world; its 'fiber' is the
 *             running one, NULL while the harness runs. */
#ifndef SIM_MACHINE_INT_H
#define SIM_MACHINE_INT_H

#include "base/check.h"
#include "sim/machine.h"

#include <ucontext.h>

#define SIM_STACK_SIZE ((size_t)512 * 1024)
#define SIM_TRACE_LINES 4096
#define SIM_TRACE_WIDTH 152
#define SIM_NAME_SIZE 32
#define SIM_HELD_MAX 16
#define SIM_SECTOR 512

/* ---- fibers ---- */

enum sim_wait {
    SIM_READY, /* runs when picked */
    SIM_ASLEEP, /* a task between steps: until notified, until_ns, or its poller has events */
    SIM_TIMED, /* a call of the disk: until until_ns */
    SIM_LOCKED, /* until *lock is free */
    SIM_AWAITING, /* until *word is not word_value */
    SIM_FLAGGED, /* until *flag or until_ns */
    SIM_JOINING, /* until the other fiber has ended */
    SIM_ENDED,
};

struct sim_fiber {
    struct sim_fiber *next; /* of its process, [SIM-2] */
    struct sim_process *process;
    unsigned id; /* of the world, rising */
    char name[SIM_NAME_SIZE];
    void (*entry)(struct sim_fiber *f);
    void *stack;
    ucontext_t context;
    void *fake_stack; /* AddressSanitizer's */
    enum sim_wait wait;
    uint64_t until_ns;
    struct sys_mutex *lock;
    _Atomic int *flag;
    const struct sim_fiber *other;
    _Atomic(uint32_t) *word;
    uint32_t word_value;
    unsigned held[SIM_HELD_MAX]; /* ranks of the locks it has; they rise, so each names one */
    unsigned held_count;
    /* sim_boot, sim_call */
    void (*call)(struct sys *sys, void *ctx);
    void *call_ctx;
    _Atomic int *done;
    struct sys_task *task;
};

struct sys_task {
    struct sim_fiber *fiber;
    uint64_t (*step)(void *ctx, uint64_t now_ns);
    void *ctx;
    struct sys_poller *poller;
    bool is_notified;
    bool is_stopping;
    uint64_t wakes;
};

/* ---- processes ---- */

struct sim_block { /* in front of every allocation of a simulated heap */
    struct sim_block *next, *prev;
    struct sim_process *process; /* NULL: the harness */
    size_t size;
    const void *taker; /* code that asked for it */
    uint64_t number; /* of the process's allocations */
};

struct sys {
    struct logger logger;
    struct sim_process *process;
};

struct sim_process {
    struct sys sys;
    struct sim_host *host;
    struct sim_block blocks; /* ring */
    uint64_t heap_bytes;
    uint64_t allocations;
    uint64_t fail_allocation_in;
    struct sim_fiber *fibers;
    struct sim_stream *streams;
    struct sys_listener *listeners;
    struct sys_poller *pollers;
    struct sys_file *files;
    _Atomic int signal;
};

/* ---- disks ---- */

struct sim_bytes {
    uint8_t *at;
    size_t size;
    size_t capacity;
};

struct sim_entry {
    char *name;
    struct sim_inode *inode;
};

struct sim_entries {
    struct sim_entry *at;
    size_t count;
    size_t capacity;
};

struct sim_change { /* of content, not synced yet */
    struct sim_change *next;
    uint64_t seq;
    bool is_truncate;
    uint64_t pos; /* the new size of a truncate */
    size_t size;
    uint8_t data[];
};

struct sim_name_change { /* not synced yet: unlink of 'from', link of 'to', or both at once */
    struct sim_name_change *next;
    uint64_t seq;
    struct sim_inode *from_dir, *to_dir;
    char *from, *to;
    struct sim_inode *inode;
};

struct sim_inode {
    struct sim_inode *next; /* of the disk */
    struct sim_disk *disk;
    bool is_dir;
    bool is_marked;
    bool is_cold;
    unsigned links; /* names now */
    unsigned opens;
    bool is_locked;
    int64_t modified_ms;
    struct sim_bytes now, durable;
    uint64_t reserved; /* space is taken up to here */
    struct sim_change *first, *last;
    struct sim_entries names_now, names_durable;
};

#define SIM_CALLS_MAX 16

struct sim_disk {
    struct sim_disk *next;
    struct sim_host *host;
    char name[SIM_NAME_SIZE];
    uint64_t device;
    struct sim_disk_faults faults;
    struct sim_inode *root;
    struct sim_inode *inodes;
    struct sim_name_change *first, *last;
    uint64_t seq;
    uint64_t started_ns[SIM_CALLS_MAX];
    unsigned slow_left;
};

struct sys_file {
    struct sys_file *next; /* of the process */
    struct sim_process *process;
    struct sim_inode *inode;
    char *path;
    unsigned refs;
    bool is_writable;
    bool has_lock;
};

struct sim_host {
    struct sim_host *next;
    struct sim *sim;
    char name[SIM_NAME_SIZE];
    struct sim_process *process; /* NULL: down */
    struct sim_disk *disks;
    int64_t wall_skew_ms;
    uint16_t port_next;
};

/* ---- streams ---- */

struct sim_segment {
    struct sim_segment *next;
    uint64_t arrive_ns;
    size_t size, used;
    uint8_t data[];
};

struct sim_pipe { /* one direction */
    struct sim_segment *first, *last;
    size_t bytes;
    uint64_t last_arrive_ns;
    bool is_finished;
    uint64_t finish_ns; /* when the reader sees the end */
};

struct sim_link { /* a connection */
    struct sim_link *next; /* of the world */
    struct sim_pipe pipes[2]; /* pipes[i] is written by side i */
    struct sim_stream *sides[2];
    bool is_reset;
    uint64_t open_ns;
};

struct sim_stream {
    struct sys_stream stream; /* first */
    struct sim_stream *next; /* of the process; the world's for the harness */
    struct sim_process *process; /* NULL: the harness */
    struct sim_link *link;
    unsigned side;
    struct sys_poller *poller;
    uint64_t token;
    unsigned interest;
};

struct sim_waiting { /* in a listener's backlog */
    struct sim_waiting *next;
    struct sim_stream *stream; /* the side that accept hands out */
    uint64_t arrive_ns;
};

struct sys_listener {
    struct sys_listener *next;
    struct sim_process *process;
    uint16_t port;
    unsigned backlog;
    unsigned waiting_count;
    struct sim_waiting *first, *last;
    struct sys_poller *poller;
    uint64_t token;
};

struct sys_poller {
    struct sys_poller *next;
    struct sim_process *process;
    bool is_owned;
    bool is_polled;
};

/* ---- the world ---- */

struct sim {
    struct sim_options options;
    uint64_t now_ns;
    uint64_t random;
    uint64_t entropy;
    uint64_t hash;
    struct sim_fiber *fiber; /* [SIM-3] */
    ucontext_t context; /* the harness */
    void *fake_stack;
    const void *harness_stack;
    size_t harness_stack_size;
    unsigned fibers_made;
    uint64_t devices_made;
    struct sim_host *hosts;
    struct sim_link *links;
    struct sim_stream *streams; /* the harness's */
    struct sim_counts counts;
    uint64_t lines_count;
    char lines[SIM_TRACE_LINES][SIM_TRACE_WIDTH];
};

extern struct sim *sim_world;

void *sim_alloc(size_t size); /* zeroed, never NULL */
char *sim_strdup(const char *s);
__attribute__((format(printf, 2, 3))) void sim_event(const struct sim_process *p, const char *fmt,
                                                     ...);
void sim_mix(uint64_t word); /* into the hash */

/* The process of the running fiber. */
struct sim_process *sim_current(void);
struct sim_fiber *sim_fiber_start(struct sim_process *p, const char *name,
                                  void (*entry)(struct sim_fiber *f));
void sim_fiber_free(struct sim_fiber *f);
void sim_fiber_resume(struct sim_fiber *f);
/* Gives the thread back until the fiber's wait is over. */
void sim_fiber_wait(enum sim_wait wait);
void sim_fiber_sleep_until(uint64_t until_ns); /* as a SIM_TIMED call */
/* By chance lets others run first. */
void sim_preempt(void);

void sim_heap_drop(struct sim_block *ring);
bool sim_mutex_is_held(const struct sys_mutex *m);

/* disk.c */
struct sim_disk *sim_disk_of(struct sim_host *host, const char *name, size_t size);
void sim_bytes_resize(struct sim_bytes *b, size_t size);
void sim_bytes_write(struct sim_bytes *b, uint64_t pos, const void *data, size_t size);
struct sim_inode *sim_inode_new(struct sim_disk *d, bool is_dir);
struct sim_inode *sim_entries_get(const struct sim_entries *e, const char *name);
void sim_entries_set(struct sim_entries *e, const char *name, struct sim_inode *inode);
void sim_change_add(struct sim_inode *i, bool is_truncate, uint64_t pos, const void *data,
                    size_t size);
void sim_names_change(struct sim_disk *d, struct sim_inode *from_dir, const char *from,
                      struct sim_inode *to_dir, const char *to, struct sim_inode *inode);
void sim_name_apply(const struct sim_name_change *c);
/* Makes what was changed up to seq durable, or forgets it as a failed sync does. */
void sim_inode_settle(struct sim_inode *i, uint64_t seq, bool is_kept);
void sim_names_settle(struct sim_disk *d, const struct sim_inode *dir, uint64_t seq);
void sim_inode_free(struct sim_inode *i);
void sim_disk_free(struct sim_disk *d);
void sim_disk_crash(struct sim_disk *d, enum sim_keep keep);
uint64_t sim_disk_space_used(const struct sim_disk *d);

/* A path's place: its disk, the directory that holds it and its last name, and what is there. name
 * is empty for a disk's own top. */
struct sim_place {
    struct sim_disk *disk; /* NULL: the directory of all disks */
    struct sim_inode *dir;
    char name[256];
    struct sim_inode *inode; /* NULL: nothing by that name */
};
enum err sim_find(struct sim_host *host, const char *path, struct sim_place *out);

enum sim_call { SIM_CALL_WRITE, SIM_CALL_READ, SIM_CALL_SYNC };
/* One call of the disk: it takes its time, is stamped, and may fail. */
enum err sim_disk_call(struct sim_disk *d, enum sim_call kind);
/* Aborts when the fiber holds a log's lock: network threads wait for it, so it is held over no
 * other call of a disk than a write. */
void sim_check_log_lock(void);

void sim_file_drop(struct sys_file *f);
void sim_file_note_read(const struct sys_file *f);

/* stream.c */
struct sim_stream *sim_stream_of(const struct sys_stream *s);
unsigned sim_ready(const struct sim_stream *s);
bool sim_listener_is_ready(const struct sys_listener *l);
bool sim_poller_has_events(const struct sys_poller *p);
uint64_t sim_streams_next_ns(const struct sim *sim);
void sim_streams_drop(struct sim_process *p);
void sim_links_collect(struct sim *sim);

#endif
