/* poller.c - which streams and listeners a simulated task may move, in an order by chance. */
#include "sim/machine_int.h"

#include <stdlib.h>

enum err sys_poller_create(struct sys *sys, struct sys_poller **out)
{
    struct sys_poller *p = sim_alloc(sizeof *p);
    p->process = sys->process;
    p->next = sys->process->pollers;
    sys->process->pollers = p;
    *out = p;
    return ERR_OK;
}

void sys_poller_destroy(struct sys_poller *p)
{
    if (!p) { return; }
    CHECK(!p->is_owned);
    struct sys_poller **at = &p->process->pollers;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    for (const struct sim_stream *s = p->process->streams; s; s = s->next) {
        CHECK(s->poller != p);
    }
    free(p);
}

enum err sys_poller_add(struct sys_poller *p, struct sys_stream *stream, uint64_t token,
                        unsigned interest)
{
    struct sim_stream *s = sim_stream_of(stream);
    CHECK(!s->poller);
    s->poller = p;
    s->token = token;
    s->interest = interest;
    return ERR_OK;
}

enum err sys_poller_set(struct sys_poller *p, struct sys_stream *stream, uint64_t token,
                        unsigned interest)
{
    struct sim_stream *s = sim_stream_of(stream);
    CHECK(s->poller == p);
    s->token = token;
    s->interest = interest;
    return ERR_OK;
}

void sys_poller_remove(struct sys_poller *p, struct sys_stream *stream)
{
    struct sim_stream *s = sim_stream_of(stream);
    if (s->poller == p) { s->poller = NULL; }
}

enum err sys_poller_add_listener(struct sys_poller *p, struct sys_listener *l, uint64_t token)
{
    CHECK(!l->poller);
    l->poller = p;
    l->token = token;
    return ERR_OK;
}

void sys_poller_remove_listener(struct sys_poller *p, struct sys_listener *l)
{
    if (l->poller == p) { l->poller = NULL; }
}

/* A reset shows whatever was asked for. */
static unsigned sim_polled(const struct sim_stream *s, const struct sys_poller *p)
{
    if (s->poller != p) { return 0; }
    return s->link->is_reset ? SYS_READABLE | SYS_WRITABLE : sim_ready(s) & s->interest;
}

bool sim_poller_has_events(const struct sys_poller *p)
{
    for (const struct sys_listener *l = p->process->listeners; l; l = l->next) {
        if (l->poller == p && sim_listener_is_ready(l)) { return true; }
    }
    for (const struct sim_stream *s = p->process->streams; s; s = s->next) {
        if (sim_polled(s, p)) { return true; }
    }
    return false;
}

/* Every event of the set, the skip first ones left out. */
static size_t sim_poller_gather(const struct sys_poller *p, struct sys_poll_event *out,
                                size_t count_max, size_t skip, size_t *total)
{
    size_t count = 0;
    *total = 0;
    for (const struct sys_listener *l = p->process->listeners; l; l = l->next) {
        if (l->poller != p || !sim_listener_is_ready(l) || (*total)++ < skip) { continue; }
        if (count < count_max) {
            out[count++] = (struct sys_poll_event){.token = l->token, .ready = SYS_READABLE};
        }
    }
    for (const struct sim_stream *s = p->process->streams; s; s = s->next) {
        unsigned ready = sim_polled(s, p);
        if (!ready || (*total)++ < skip) { continue; }
        if (count < count_max) {
            out[count++] = (struct sys_poll_event){.token = s->token, .ready = ready};
        }
    }
    return count;
}

size_t sys_poller_events(struct sys_poller *p, struct sys_poll_event *out, size_t count_max)
{
    CHECK(p->process == sim_current());
    if (p->is_owned && p->is_polled) { return 0; }
    p->is_polled = true;
    size_t total;
    size_t count = sim_poller_gather(p, out, count_max, 0, &total);
    if (total > count_max) { /* nobody starves behind the first ones */
        size_t skip = (size_t)sim_below(sim_world, total - count_max + 1);
        count = sim_poller_gather(p, out, count_max, skip, &total);
    }
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)sim_below(sim_world, i);
        struct sys_poll_event swapped = out[i - 1];
        out[i - 1] = out[j];
        out[j] = swapped;
    }
    return count;
}
