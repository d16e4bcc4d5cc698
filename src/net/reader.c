/* reader.c - tasks that bring cold file ranges into memory, so that a processor never waits.
 *
 * Thread:     each reader its own; post from processors. Files of one device go to one reader: a
 *             bad disk holds up only itself.
 * Ownership:  the message holds its own reference to the file; the processor drops it.
 * Failure:    an error travels back in the message. */
#include "net/net_int.h"

#include <stdio.h>

static uint64_t net_reader_step(void *ctx, uint64_t now_ns)
{
    (void)now_ns;
    struct net_reader *reader = ctx;
    struct sys_msg *m = sys_mailbox_take(&reader->box);
    while (m) {
        struct sys_msg *next = m->next;
        struct net_warm *w = CONTAINER_OF(m, struct net_warm, msg.link);
        w->err = sys_file_warm(w->file, w->pos, w->size);
        net_processor_post(w->processor, &w->msg);
        m = next;
    }
    return SYS_NEVER;
}

void net_reader_post(struct net *net, struct net_warm *w)
{
    uint64_t device = sys_file_device(w->file);
    struct net_reader *reader = &net->readers[hash_u64(device) % net->readers_count];
    if (sys_mailbox_post(&reader->box, &w->msg.link)) { sys_task_wake(reader->task); }
}

enum err net_readers_start(struct net *net, unsigned count)
{
    net->readers = mem_array(count, sizeof *net->readers);
    if (!net->readers) { return ERR_NOMEM; }
    for (unsigned i = 0; i < count; i++) {
        struct net_reader *reader = &net->readers[i];
        sys_mailbox_init(&reader->box);
        char name[32];
        (void)snprintf(name, sizeof name, "reader-%u", i);
        struct sys_task_options options = {.name = name, .step = net_reader_step, .ctx = reader};
        enum err e = sys_task_start(net->sys, &options, &reader->task);
        if (e) { return e; }
        net->readers_count++;
    }
    return ERR_OK;
}

void net_readers_stop(struct net *net)
{
    for (size_t i = 0; i < net->readers_count; i++) {
        sys_task_stop(net->readers[i].task);
    }
    net->readers_count = 0;
    mem_free(net->readers);
    net->readers = NULL;
}
