/* mailbox.c - many senders push onto a stack; the receiver takes it whole and turns it round.
 *
 * Thread:     post from any, take from the one receiver.
 * Invariants: [SYS-3] a message posted to an empty box makes post return true, so its sender wakes
 *             the receiver. Both sides use sequentially consistent read-modify-writes: either the
 *             receiver's take sees the message, or the sender sees the box empty and the wake-up
 *             follows the take (see task.c for the other half). */
#include "sys/sys_int.h"

void sys_mailbox_init(struct sys_mailbox *box)
{
    atomic_init(&box->head, NULL);
}

bool sys_mailbox_post(struct sys_mailbox *box, struct sys_msg *msg)
{
    struct sys_msg *head = atomic_load_explicit(&box->head, memory_order_relaxed);
    do {
        msg->next = head;
    } while (!atomic_compare_exchange_weak(&box->head, &head, msg));
    return head == NULL;
}

struct sys_msg *sys_mailbox_take(struct sys_mailbox *box)
{
    if (!atomic_load_explicit(&box->head, memory_order_relaxed)) {
        /* A message that this load misses is followed by a wake-up: one more step comes. */
        return NULL;
    }
    struct sys_msg *newest_first = atomic_exchange(&box->head, NULL);
    struct sys_msg *oldest_first = NULL;
    while (newest_first) {
        struct sys_msg *next = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = next;
    }
    return oldest_first;
}
