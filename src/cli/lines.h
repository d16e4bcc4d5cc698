/* lines.h - lines of a file, a pipe or a terminal, without sleeping past a signal.
 *
 * Place:      cli/.
 * Thread:     main; SIGINT and SIGTERM are held back (signals_hold()).
 * Ownership:  a line is borrowed until the next call.
 * Failure:    a line longer than LINE_BYTES_MAX, and a read that fails, end it with a reason. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/slice.h"

#define LINE_BYTES_MAX ((size_t)128 << 20)

enum lines_event {
    LINES_LINE,
    LINES_END, /* the last line may have come without a newline */
    LINES_IDLE, /* nothing came for a moment */
    LINES_FAILED,
};

struct lines {
    int fd;
    uint64_t size; /* of a regular file, else 0 */
    uint64_t taken; /* bytes of the lines so far */
    char *buf;
    size_t start, end, scanned, capacity;
    bool at_end;
    const char *reason; /* of LINES_FAILED */
};

/* path NULL: standard input. False: reason says why. */
bool lines_open(struct lines *l, const char *path);
void lines_close(struct lines *l);
enum lines_event lines_next(struct lines *l, struct slice *line);

#endif
