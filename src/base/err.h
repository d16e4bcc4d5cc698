/* err.h - how functions report what the world did to them.
 *
 * Place:   every room. The world (disk, peer, memory) is an enum err; a client's mistake becomes a
 * Kafka error code in api/ only; our own bugs are CHECKs. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define NODISCARD __attribute__((warn_unused_result))

enum err {
    ERR_OK = 0,
    ERR_NOMEM, /* an allocation failed or a memory budget is used up */
    ERR_IO, /* EIO, EROFS, a failed sync: the directory must go offline */
    ERR_NOSPACE, /* ENOSPC, EDQUOT, short write: reads go on, writes recover when there is room */
    ERR_NOTFOUND, /* no such file, topic, partition, key */
    ERR_EXISTS, /* already there */
    ERR_MALFORMED, /* bytes that cannot be what they claim to be */
    ERR_CORRUPT, /* a checksum does not match */
    ERR_LIMIT, /* larger or more than a configured or built-in bound */
    ERR_RANGE, /* offset or position outside what is there */
    ERR_AGAIN, /* not now: would wait */
    ERR_CLOSED, /* the peer or the object is gone */
    ERR_UNSUPPORTED,
    ERR_INVALID, /* an argument that came from a user makes no sense */
    ERR_BUSY, /* held by somebody else (a lock file, a port) */
    ERR_OFFLINE, /* the log directory failed earlier; nothing is read from or written to it */
    ERR_OUT_OF_ORDER, /* a producer's sequence leaves a gap */
    ERR_DUPLICATE, /* a producer's batch that is already in the log */
    ERR_FENCED, /* a newer epoch exists */
    ERR_ACCESS, /* the operating system refused permission */
    ERR_STOPPED, /* broken off: the process was told to stop */
};

/* Name without the prefix, for log lines: "IO". Never NULL. */
const char *err_name(enum err e);

/* Drops an error on purpose and says why. */
static inline void err_ignore(enum err e, const char *why)
{
    (void)e;
    (void)why;
}

#endif
