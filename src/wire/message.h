/* message.h - the tables that the generator writes beside the messages: every API, every message.
 *
 * Place:      wire/. The messages themselves are in wire/gen/<message>.h; see README.md for the
 *             naming rules.
 * Thread:     constant data. */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct wire_reader;
struct wire_text;
struct wire_writer;

#define WIRE_NEVER 32767 /* flexible_from of a message without flexible versions */

/* An array that is empty and not null, where null is allowed. Nobody writes to it. */
#define WIRE_EMPTY wire_empty()

static inline void *wire_empty(void)
{
    static const _Alignas(16) uint8_t nothing[16];
    return (void *)(uintptr_t)nothing;
}

enum {
    WIRE_LISTENER_BROKER = 1,
    WIRE_LISTENER_CONTROLLER = 2,
};

/* One API. Not every API here is answered: what works is said by the dispatch table of api/. */
struct wire_api {
    int16_t key;
    int16_t version_min; /* decoded from ... */
    int16_t version_max; /* ... to; max < min: removed from the protocol, the name is for logs */
    int16_t advertise_min; /* what ApiVersions lists where it works: Produce is listed from 0,
                              decoded from 3 */
    int16_t advertise_max; /* without the latest version while that is unstable */
    int16_t flexible_from;
    uint8_t listeners; /* WIRE_LISTENER_ */
    char name[39]; /* "Produce" */
};

extern const struct wire_api wire_apis[];
extern const size_t wire_apis_count;

/* NULL for a key that the protocol does not have. The generator checks that the table has no gaps.
 */
static inline const struct wire_api *wire_api_find(int16_t key)
{
    return key >= 0 && (size_t)key < wire_apis_count ? &wire_apis[key] : NULL;
}

/* Versions of the headers around a request and its response. */
static inline int wire_api_request_header_version(const struct wire_api *api, int16_t version)
{
    return version >= api->flexible_from ? 2 : 1;
}

/* An ApiVersions response may answer a version that the client only guessed: always header 0. */
static inline int wire_api_response_header_version(const struct wire_api *api, int16_t version)
{
    enum { API_VERSIONS = 18 };
    return api->key != API_VERSIONS && version >= api->flexible_from ? 1 : 0;
}

enum wire_message_kind {
    WIRE_REQUEST,
    WIRE_RESPONSE,
    WIRE_HEADER,
    WIRE_DATA, /* inside other messages and files */
    WIRE_KEY, /* of a record in an internal topic */
    WIRE_VALUE, /* the same record's value */
    WIRE_METADATA, /* a record of the metadata log */
};

/* One message, for code that treats all alike: tests, fuzzing, dump tools. */
struct wire_message {
    const char *name; /* "ProduceRequest" */
    enum wire_message_kind kind;
    int16_t key; /* -1: none */
    int16_t version_min;
    int16_t version_max;
    int16_t flexible_from;
    size_t size; /* of the C struct */
    void (*init)(void *m);
    enum err (*decode)(struct wire_reader *r, int version, struct arena *a, void *m);
    enum err (*encode)(struct wire_writer *w, int version, const void *m);
    size_t (*measure)(int version, const void *m);
    void (*print)(struct wire_text *t, int version, const void *m);
};

extern const struct wire_message wire_messages[];
extern const size_t wire_messages_count;

#endif
