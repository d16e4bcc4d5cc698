/* producer_ids.h - ids for idempotent producers, taken from blocks that the controller hands out.
 *
 * Place:      api/.
 * Thread:     any; a short lock.
 * Bound:      the ids of one block. Ids are unique, not dense: what is lost in a crash, or left
 *             over when two requests fetched a block at once, is never handed out again. */
#ifndef API_PRODUCER_IDS_H
#define API_PRODUCER_IDS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct producer_ids;

struct producer_ids *producer_ids_create(void); /* NULL without memory */
void producer_ids_destroy(struct producer_ids *p); /* accepts NULL */
/* False when the block is used up: fetch another, producer_ids_add(), try again. */
bool producer_ids_take(struct producer_ids *p, int64_t *id);
/* A block of count ids from first on. If ids are left, the larger remainder is kept. */
void producer_ids_add(struct producer_ids *p, int64_t first, int64_t count);

#endif
