/* lines.c - see lines.h. */
#include "cli/lines.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES_READ_SIZE ((size_t)256 << 10)
#define LINES_IDLE_MS 50

bool lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO};
    struct stat s;
    if (l->fd < 0 || fstat(l->fd, &s)) {
        l->reason = strerror(errno);
        return false;
    }
    if (S_ISDIR(s.st_mode)) {
        l->reason = "it is a directory";
        return false;
    }
    if (S_ISREG(s.st_mode)) { l->size = (uint64_t)s.st_size; }
    return true;
}

void lines_close(struct lines *l)
{
    if (l->fd > STDERR_FILENO) { close(l->fd); }
    mem_free(l->buf);
    *l = (struct lines){.fd = -1};
}

static enum lines_event fail(struct lines *l, const char *reason)
{
    l->reason = reason;
    return LINES_FAILED;
}

/* Room for one more read behind what is there. */
static bool make_room(struct lines *l)
{
    if (l->start > 0) {
        memmove(l->buf, l->buf + l->start, l->end - l->start);
        l->end -= l->start;
        l->scanned -= l->start;
        l->start = 0;
    }
    if (l->capacity - l->end >= LINES_READ_SIZE) { return true; }
    size_t capacity = l->capacity ? l->capacity * 2 : LINES_READ_SIZE * 2;
    char *buf = mem_realloc(l->buf, capacity);
    if (!buf) { return false; }
    l->buf = buf;
    l->capacity = capacity;
    return true;
}

/* LINES_LINE here means: something came, or the end. */
static enum lines_event fill(struct lines *l)
{
    if (l->end - l->start > LINE_BYTES_MAX) { return fail(l, "a line is longer than 128 MiB"); }
    if (!make_room(l)) { return fail(l, "no memory"); }
    struct pollfd ready = {.fd = l->fd, .events = POLLIN};
    int n = poll(&ready, 1, LINES_IDLE_MS);
    if (n == 0 || (n < 0 && errno == EINTR)) { return LINES_IDLE; }
    ssize_t got = read(l->fd, l->buf + l->end, LINES_READ_SIZE);
    if (got < 0) {
        return errno == EINTR || errno == EAGAIN ? LINES_IDLE : fail(l, strerror(errno));
    }
    l->at_end = got == 0;
    l->end += (size_t)got;
    return LINES_LINE;
}

enum lines_event lines_next(struct lines *l, struct slice *line)
{
    for (;;) {
        char *newline = l->buf ? memchr(l->buf + l->scanned, '\n', l->end - l->scanned) : NULL;
        if (newline || (l->at_end && l->end > l->start)) {
            size_t end = newline ? (size_t)(newline - l->buf) : l->end;
            *line = slice_of(l->buf + l->start, end - l->start);
            l->taken += line->size + (newline != NULL);
            l->start = l->scanned = end + (newline != NULL);
            return LINES_LINE;
        }
        if (l->at_end) { return LINES_END; }
        l->scanned = l->end;
        enum lines_event event = fill(l);
        if (event != LINES_LINE) { return event; }
    }
}
