/* ghost.h - what the broker has promised so far, and whether it keeps it.
 *
 * Place:      sim/broker; fed with answers only, as a client sees them.
 * Invariants: [GHO-1] what was acknowledged with acks=all is at its offset, once, for ever.
 *             [GHO-2] what a fetch returned at an offset never changes. [GHO-3] no record is at two
 *             offsets. [GHO-4] offsets are dense. [GHO-5] the records of one producer are in its
 *             order, but for what it sent on different connections without sequence numbers.
 *             [GHO-6] an answer's high watermark is at least what was known when its request was
 *             sent; what was acknowledged or returned is below it. [GHO-7] below the start that
 *             DeleteRecords told nothing is served, until a power cut may have undone it. */
#ifndef BROKER_GHOST_H
#define BROKER_GHOST_H

#include "bytes.h"
#include "sim/machine.h"

#define GHOST_PRODUCERS_MAX 32

struct ghost;

struct ghost *ghost_create(struct sim *sim, uint32_t partitions_count);
void ghost_destroy(struct ghost *g);

/* acks=all said yes. */
void ghost_acked(struct ghost *g, uint32_t partition, int64_t base_offset, struct sim_record first,
                 uint32_t count);
/* From this record on it sends on a new connection; the older one's requests may come later. */
void ghost_break_order(struct ghost *g, struct sim_record next);
/* A fetch returned it. */
void ghost_seen(struct ghost *g, uint32_t partition, const struct sim_batch *b);
/* The high watermark to note with a request, and to compare with its answer. */
int64_t ghost_hw(const struct ghost *g, uint32_t partition);
void ghost_answered_hw(struct ghost *g, uint32_t partition, int64_t hw, int64_t at_least);
/* Since when clients have known records of so many bytes from the offset on; SYS_NEVER: not yet. */
uint64_t ghost_known_ns(const struct ghost *g, uint32_t partition, int64_t offset, size_t bytes);
/* DeleteRecords was sent, was answered; the power went. Offsets below 'asked' may be gone. */
void ghost_ask_start(struct ghost *g, uint32_t partition, int64_t offset);
void ghost_answered_start(struct ghost *g, uint32_t partition, int64_t start);
void ghost_power_cut(struct ghost *g);
int64_t ghost_start(const struct ghost *g, uint32_t partition);
int64_t ghost_asked(const struct ghost *g, uint32_t partition);
/* The topic was deleted: a new one begins, with none of these records. */
void ghost_forget(struct ghost *g, uint32_t partition);
/* Of a log whose bytes rotted: offsets that can no longer be asked for. */
void ghost_allow_loss(struct ghost *g, uint32_t partition, int64_t from, int64_t to);
bool ghost_is_lost(const struct ghost *g, uint32_t partition, int64_t offset);
/* Every acknowledged record was returned by a fetch since ghost_begin_audit(). */
void ghost_begin_audit(struct ghost *g);
void ghost_end_audit(const struct ghost *g);
uint64_t ghost_acked_count(const struct ghost *g);
uint64_t ghost_seen_count(const struct ghost *g);

#endif
