/* message_int.h - what the generated message code includes. */
#ifndef WIRE_MESSAGE_INT_H
#define WIRE_MESSAGE_INT_H

#include "base/arena.h"
#include "wire/message.h"
#include "wire/reader.h"
#include "wire/text.h"
#include "wire/writer.h"

/* Room for the elements of an array: NULL for null (count < 0), never NULL for an empty array, NULL
 * and a bad reader when the arena's budget is used up. */
static inline void *wire_elements(struct wire_reader *r, struct arena *a, int32_t count,
                                  size_t size)
{
    if (count < 0 || r->bad) { return NULL; }
    void *p = count == 0 ? WIRE_EMPTY : arena_array(a, (size_t)count, size);
    if (!p) { wire_fail(r); }
    return p;
}

#endif
