/* load.c - see load.h. */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    ADMIN_FRAME_MAX = 512,
    READY_TRIES = 2000,
    READY_PAUSE_NS = 5000000,
    ERROR_TOPIC_EXISTS = 36,
};

static const int64_t DRAIN_NS_MAX = 60LL * 1000000000;
const int64_t TIME_NEVER = INT64_MAX;

static void topic_name(const struct load *l, uint32_t index, char *out)
{
    snprintf(out, TOPIC_NAME_MAX, "%s-%u", l->options->topic, index);
}

int64_t load_end_offset(struct load *l, uint32_t target)
{
    uint8_t frame[ADMIN_FRAME_MAX];
    int16_t error = -1;
    int64_t offset = -1;
    for (int i = 0; i < READY_TRIES; i++) {
        size_t size = frame_list_offset(frame, sizeof frame, i, &l->targets[target]);
        size_t answer_size = 0;
        uint8_t *answer = conn_ask(l->admin_fd, frame, size, &answer_size);
        bool good = answer_list_offset(answer, answer_size, &error, &offset);
        free(answer);
        if (!good) { die("a ListOffsets answer of unknown form"); }
        if (error == 0) { return offset; }
        nanosleep(&(struct timespec){.tv_nsec = READY_PAUSE_NS}, NULL);
    }
    die("partition %s-%d does not answer: error %d", l->targets[target].topic,
        l->targets[target].partition, error);
}

static int16_t ask_topic(struct load *l, const uint8_t *frame, size_t size)
{
    size_t answer_size = 0;
    int16_t error = -1;
    uint8_t *answer = conn_ask(l->admin_fd, frame, size, &answer_size);
    bool good = answer_topic_error(answer, answer_size, &error);
    free(answer);
    if (!good) { die("an answer about a topic of unknown form"); }
    return error;
}

void load_create_topics(struct load *l)
{
    const struct options *o = l->options;
    l->admin_fd = connect_port(o->port);
    l->targets_count = o->topics * o->partitions;
    l->targets = calloc(l->targets_count, sizeof *l->targets);
    if (!l->targets) { die("no memory for %u partitions", l->targets_count); }
    for (uint32_t t = 0; t < o->topics; t++) {
        char name[TOPIC_NAME_MAX];
        topic_name(l, t, name);
        uint8_t frame[ADMIN_FRAME_MAX];
        size_t size = frame_create_topic(frame, sizeof frame, 1, name, (int32_t)o->partitions);
        int16_t error = o->use_topics ? 0 : ask_topic(l, frame, size);
        if (error != 0) { die("creating topic %s: error %d", name, error); }
        for (uint32_t p = 0; p < o->partitions; p++) {
            struct target *target = &l->targets[t * o->partitions + p];
            memcpy(target->topic, name, sizeof name);
            target->partition = (int32_t)p;
        }
    }
    for (uint32_t i = 0; i < l->targets_count; i++) {
        (void)load_end_offset(l, i);
    }
}

void load_delete_topics(struct load *l)
{
    for (uint32_t t = 0; t < l->options->topics; t++) {
        char name[TOPIC_NAME_MAX];
        topic_name(l, t, name);
        uint8_t frame[ADMIN_FRAME_MAX];
        size_t size = frame_delete_topic(frame, sizeof frame, 2, name);
        int16_t error = ask_topic(l, frame, size);
        if (error != 0) { die("deleting topic %s: error %d", name, error); }
    }
}

bool load_is_open_loop(const struct load *l)
{
    return l->options->rate > 0;
}

void load_count_error(struct load *l, int16_t error)
{
    if (l->errors++ == 0) { l->first_error = error; }
}

void load_count(struct load *l, const struct answer *a, uint64_t bytes, uint64_t records)
{
    if (load_is_open_loop(l)) {
        if (l->phase == PHASE_WARM || a->request->since_ns < l->before.at_ns) { return; }
    } else if (l->phase != PHASE_WINDOW) {
        return;
    }
    int64_t took = a->now_ns - a->request->since_ns;
    hist_add(&l->hist, took > 0 ? (uint64_t)took : 0);
    l->requests++;
    l->bytes += bytes;
    l->records += records;
}

static void load_open(struct load *l)
{
    const struct options *o = l->options;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) { die("epoll_create1: %s", strerror(errno)); }
    l->conns_count = o->connections;
    l->conns = calloc(l->conns_count, sizeof *l->conns);
    if (!l->conns) { die("no memory for %u connections", l->conns_count); }
    for (uint32_t i = 0; i < l->conns_count; i++) {
        struct conn *c = &l->conns[i];
        conn_open(c, i, o->port, o->depth);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
        if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0) {
            die("epoll_ctl: %s", strerror(errno));
        }
    }
}

void load_close(struct load *l)
{
    for (uint32_t i = 0; i < l->conns_count; i++) {
        conn_close(&l->conns[i]);
    }
    free(l->conns);
    l->conns = NULL;
    l->conns_count = 0;
    close(l->epoll_fd);
}

static void on_answer(void *context, struct conn *c, const struct answer *a)
{
    struct load *l = context;
    l->mode->answer(l, c, a);
}

static uint64_t load_in_flight(const struct load *l)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < l->conns_count; i++) {
        count += l->conns[i].count;
    }
    return count;
}

/* Moves the phase on; returns when the present one ends. */
static int64_t load_step_phase(struct load *l, int64_t now)
{
    const struct options *o = l->options;
    int64_t warm_end = l->start_ns + (int64_t)(o->warm_seconds * 1e9);
    if (l->phase == PHASE_WARM) {
        bool enough = o->bytes_max > 0 && l->bytes_issued >= o->bytes_max / 4;
        if (now < warm_end && !enough) { return warm_end; }
        l->before = usage_now(o->broker_pid);
        l->phase = PHASE_WINDOW;
    }
    int64_t window_end = l->before.at_ns + (int64_t)(o->seconds * 1e9);
    if (l->phase == PHASE_WINDOW) {
        bool enough = o->bytes_max > 0 && l->bytes_issued >= o->bytes_max;
        if (now < window_end && !enough) { return window_end; }
        l->after = usage_now(o->broker_pid);
        l->phase = PHASE_DRAIN;
    }
    if (now > l->after.at_ns + DRAIN_NS_MAX) {
        die("%llu requests were never answered", (unsigned long long)load_in_flight(l));
    }
    return now + 100000000;
}

static void load_wait(struct load *l, int64_t now, int64_t until)
{
    int64_t left = until > now ? until - now : 0;
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_pwait2(l->epoll_fd, events, EVENTS_MAX, &timeout, NULL);
    if (count < 0 && errno != EINTR) { die("epoll_pwait2: %s", strerror(errno)); }
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) { conn_receive(c, on_answer, l); }
        conn_flush(c);
    }
}

void load_run(struct load *l)
{
    load_open(l);
    if (l->mode->prepare) { l->mode->prepare(l); }
    l->start_ns = now_ns();
    l->phase = PHASE_WARM;
    l->mode->start(l, l->start_ns);
    for (;;) {
        int64_t now = now_ns();
        int64_t until = load_step_phase(l, now);
        int64_t mode_until = l->mode->tick(l, now);
        if (l->phase == PHASE_DRAIN && load_in_flight(l) == 0) { return; }
        load_wait(l, now, mode_until < until ? mode_until : until);
    }
}
