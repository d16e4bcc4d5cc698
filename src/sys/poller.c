/* poller.c - one epoll set and one eventfd: where a processor sleeps.
 *
 * Thread:     the owner task's; sys_poller_wake() from any.
 * Invariants: [SYS-6] a task polls at most once a turn: the events of its sleep, or one look
 *             without waiting. The set is level-triggered, so what a turn leaves comes again. The
 *             eventfd is edge-triggered: each write ends one sleep and nobody needs to read it.
 *             [SYS-8] patient streams are in a set of their own. It is either armed (in the first
 *             set, one shot: the first of them to become ready ends the sleep and disarms it) or
 *             looked at at least every SYS_PATIENCE_NS. It is armed when a look finds nothing, and
 *             before a sleep when it had not ended one for SYS_PATIENCE_NS; arming sees what came
 *             since. So nothing is lost, an idle task sleeps, and a task with thousands of patient
 *             streams wakes once a millisecond, not once a stream. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <errno.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The eventfd's token, refused to users; also marks events that were dropped. */
#define SYS_POLLER_WAKE_TOKEN UINT64_MAX
#define SYS_POLLER_PATIENT_TOKEN (UINT64_MAX - 1)

/* A level-triggered set that is ready is told at once; one shot: then no more. */
static enum err sys_poller_arm_by(struct sys_poller *p, int op)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT,
                             .data.u64 = SYS_POLLER_PATIENT_TOKEN};
    if (epoll_ctl(p->epoll_fd, op, p->patient_fd, &ev) < 0) { return sys_err(errno); }
    p->patient_armed = true;
    p->patient_alone = false;
    return ERR_OK;
}

static void sys_poller_arm(struct sys_poller *p)
{
    enum err e = sys_poller_arm_by(p, EPOLL_CTL_MOD);
    CHECK(!e); /* it is in the set */
}

enum err sys_poller_create(struct sys *sys, struct sys_poller **out)
{
    (void)sys;
    *out = NULL;
    struct sys_poller *p = mem_new(struct sys_poller);
    if (!p) { return ERR_NOMEM; }
    enum err e = ERR_OK;
    p->event_fd = p->patient_fd = -1;
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0) {
        e = sys_err(errno);
        goto fail;
    }
    p->patient_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->patient_fd < 0) {
        e = sys_err(errno);
        goto fail;
    }
    e = sys_poller_arm_by(p, EPOLL_CTL_ADD);
    if (e) { goto fail; }
    p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->event_fd < 0) {
        e = sys_err(errno);
        goto fail;
    }
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = SYS_POLLER_WAKE_TOKEN};
    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->event_fd, &ev) < 0) {
        e = sys_err(errno);
        goto fail;
    }
    *out = p;
    return ERR_OK;
fail:
    sys_poller_destroy(p);
    return e;
}

void sys_poller_destroy(struct sys_poller *p)
{
    if (!p) { return; }
    CHECK(!p->owned); /* its task is stopped first */
    if (p->event_fd >= 0) { (void)close(p->event_fd); }
    if (p->patient_fd >= 0) { (void)close(p->patient_fd); }
    if (p->epoll_fd >= 0) { (void)close(p->epoll_fd); }
    mem_free(p);
}

static uint32_t sys_poller_mask(unsigned interest)
{
    return (interest & SYS_READABLE ? (uint32_t)EPOLLIN : 0U) |
           (interest & SYS_WRITABLE ? (uint32_t)EPOLLOUT : 0U);
}

static enum err sys_poller_ctl(int set, int op, int fd, uint64_t token, unsigned interest)
{
    CHECK(token < SYS_POLLER_PATIENT_TOKEN);
    struct epoll_event ev = {.events = sys_poller_mask(interest), .data.u64 = token};
    return epoll_ctl(set, op, fd, &ev) < 0 ? sys_err(errno) : ERR_OK;
}

static int sys_poller_set_of(const struct sys_poller *p, bool is_patient)
{
    return is_patient ? p->patient_fd : p->epoll_fd;
}

/* Forgets events of this turn that were not handed out yet. */
static void sys_poller_drop(struct sys_poller *p, uint64_t token)
{
    for (size_t i = p->ready_next; i < p->ready_count; i++) {
        if (p->ready[i].data.u64 == token) { p->ready[i].data.u64 = SYS_POLLER_WAKE_TOKEN; }
    }
}

enum err sys_poller_add(struct sys_poller *p, struct sys_stream *s, uint64_t token,
                        unsigned interest)
{
    struct sys_plain *plain = sys_plain_of(s);
    plain->token = token;
    plain->is_patient = interest & SYS_PATIENT;
    return sys_poller_ctl(sys_poller_set_of(p, plain->is_patient), EPOLL_CTL_ADD, plain->fd, token,
                          interest);
}

enum err sys_poller_set(struct sys_poller *p, struct sys_stream *s, uint64_t token,
                        unsigned interest)
{
    struct sys_plain *plain = sys_plain_of(s);
    bool is_patient = interest & SYS_PATIENT, moves = is_patient != plain->is_patient;
    enum err e = sys_poller_ctl(sys_poller_set_of(p, is_patient),
                                moves ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, plain->fd, token, interest);
    if (e) { return e; }
    if (moves) {
        int left = sys_poller_set_of(p, plain->is_patient);
        (void)epoll_ctl(left, EPOLL_CTL_DEL, plain->fd, NULL);
    }
    plain->token = token;
    plain->is_patient = is_patient;
    return ERR_OK;
}

void sys_poller_remove(struct sys_poller *p, struct sys_stream *s)
{
    struct sys_plain *plain = sys_plain_of(s);
    sys_poller_drop(p, plain->token);
    int set = sys_poller_set_of(p, plain->is_patient);
    (void)epoll_ctl(set, EPOLL_CTL_DEL, plain->fd, NULL); /* ENOENT: was not there */
}

enum err sys_poller_add_listener(struct sys_poller *p, struct sys_listener *l, uint64_t token)
{
    l->token = token;
    return sys_poller_ctl(p->epoll_fd, EPOLL_CTL_ADD, l->fd, token, SYS_READABLE);
}

enum err sys_poller_add_descriptor(struct sys_poller *p, int fd, uint64_t token)
{
    return sys_poller_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, token, SYS_READABLE);
}

void sys_poller_remove_listener(struct sys_poller *p, struct sys_listener *l)
{
    sys_poller_drop(p, l->token);
    (void)epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
}

static void sys_poller_take(struct sys_poller *p, int count)
{
    CHECK(count >= 0 || errno == EINTR);
    p->ready_next = 0;
    p->ready_count = count > 0 ? (size_t)count : 0;
    p->polled = true;
}

static int sys_poller_wait_ms(uint64_t deadline_ns)
{
    if (deadline_ns == SYS_NEVER) { return -1; }
    uint64_t now = sys_clock_ns();
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + SYS_MS - 1) / SYS_MS : 0;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

void sys_poller_sleep(struct sys_poller *p, uint64_t deadline_ns)
{
    if (p->patient_alone) { sys_poller_arm(p); }
    if (!p->patient_armed && deadline_ns > p->patient_ns + SYS_PATIENCE_NS) {
        deadline_ns = p->patient_ns + SYS_PATIENCE_NS;
    }
    if (!p->coarse) {
        struct timespec left = {0};
        if (deadline_ns != SYS_NEVER) {
            uint64_t now = sys_clock_ns();
            left = sys_timespec(deadline_ns > now ? deadline_ns - now : 0);
        }
        int n = epoll_pwait2(p->epoll_fd, p->ready, SYS_POLL_BATCH_MAX,
                             deadline_ns == SYS_NEVER ? NULL : &left, NULL);
        if (n >= 0 || errno != ENOSYS) {
            sys_poller_take(p, n);
            return;
        }
        p->coarse = true;
    }
    sys_poller_take(
        p, epoll_wait(p->epoll_fd, p->ready, SYS_POLL_BATCH_MAX, sys_poller_wait_ms(deadline_ns)));
}

void sys_poller_wake(struct sys_poller *p)
{
    uint64_t one = 1;
    ssize_t n = write(p->event_fd, &one, sizeof one);
    CHECK(n == (ssize_t)sizeof one || errno == EAGAIN); /* full after 2^64 writes: still awake */
}

static unsigned sys_poller_ready(uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP)) { return SYS_READABLE | SYS_WRITABLE; }
    return (events & EPOLLIN ? (unsigned)SYS_READABLE : 0U) |
           (events & EPOLLOUT ? (unsigned)SYS_WRITABLE : 0U);
}

static size_t sys_poller_hand_out(struct sys_poller *p, struct sys_poll_event *out,
                                  size_t count_max)
{
    size_t count = 0;
    while (count < count_max && p->ready_next < p->ready_count) {
        const struct epoll_event *ev = &p->ready[p->ready_next++];
        if (ev->data.u64 == SYS_POLLER_WAKE_TOKEN) { continue; }
        if (ev->data.u64 == SYS_POLLER_PATIENT_TOKEN) {
            p->patient_armed = false;
            p->patient_woke = true;
            p->patient_ns = 0;
            continue;
        }
        out[count++] =
            (struct sys_poll_event){.token = ev->data.u64, .ready = sys_poller_ready(ev->events)};
    }
    return count;
}

/* A turn that comes for another reason looks early, so that one timer serves both. */
static void sys_poller_look(struct sys_poller *p)
{
    uint64_t now = sys_clock_ns();
    if (now < p->patient_ns + SYS_PATIENCE_NS / 2 || (p->owned && p->looked)) { return; }
    p->looked = true;
    sys_poller_take(p, epoll_wait(p->patient_fd, p->ready, SYS_POLL_BATCH_MAX, 0));
    p->patient_ns = p->ready_count < SYS_POLL_BATCH_MAX ? now : 0; /* 0: there may be more */
    p->patient_alone = p->patient_woke && now >= p->patient_woke_ns + SYS_PATIENCE_NS;
    if (p->patient_woke) { p->patient_woke_ns = now; }
    p->patient_woke = false;
    if (p->ready_count == 0) { sys_poller_arm(p); }
}

size_t sys_poller_events(struct sys_poller *p, struct sys_poll_event *out, size_t count_max)
{
    if (p->ready_next == p->ready_count && !(p->owned && p->polled)) {
        sys_poller_take(p, epoll_wait(p->epoll_fd, p->ready, SYS_POLL_BATCH_MAX, 0));
    }
    size_t count = sys_poller_hand_out(p, out, count_max);
    if (count < count_max && !p->patient_armed) {
        sys_poller_look(p);
        count += sys_poller_hand_out(p, out + count, count_max - count);
    }
    return count;
}
