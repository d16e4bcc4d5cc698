/* file.c - open files: positional reads and writes, sync, space.
 *
 * Thread:     any; positional calls need no lock.
 * Ownership:  reference counted; the last sys_file_unref() closes.
 * Failure:    EINTR is repeated, short transfers are continued; what is left is an errno for
 *             sys_err(). A failed sync is always ERR_IO: the kernel forgets the lost pages, so a
 *             second sync would report success. */
#include "base/check.h"
#include "base/mem.h"
#include "sys/sys_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SYS_PAGE_SIZE 4096
#define SYS_WARM_STEP 65536

_Static_assert(sizeof(struct sys_iov) == sizeof(struct iovec), "same shape as the system's");
_Static_assert(offsetof(struct sys_iov, at) == offsetof(struct iovec, iov_base), "same shape");
_Static_assert(offsetof(struct sys_iov, size) == offsetof(struct iovec, iov_len), "same shape");

enum err sys_file_wrap(struct sys *sys, int fd, struct sys_file **out)
{
    *out = NULL;
    enum err e = ERR_NOMEM;
    struct sys_file *f = mem_new(struct sys_file);
    if (!f) { goto fail; }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        e = sys_err(errno);
        goto fail;
    }
    f->sys = sys;
    f->device_id = (uint64_t)st.st_dev;
    f->device = sys_device_of(sys, f->device_id);
    f->fd = fd;
    atomic_init(&f->refs, 1);
    *out = f;
    return ERR_OK;
fail:
    mem_free(f);
    (void)close(fd);
    return e;
}

enum err sys_file_open(struct sys *sys, const char *path, unsigned flags, struct sys_file **out)
{
    *out = NULL;
    int how = O_CLOEXEC | (flags & SYS_WRITE ? O_RDWR : O_RDONLY) |
              (flags & SYS_CREATE ? O_CREAT : 0) | (flags & SYS_EXCLUSIVE ? O_EXCL : 0) |
              (flags & SYS_TRUNCATE ? O_TRUNC : 0);
    int fd;
    do {
        fd = open(path, how, 0644);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) { return sys_err(errno); }
    return sys_file_wrap(sys, fd, out);
}

struct sys_file *sys_file_ref(struct sys_file *f)
{
    unsigned before = atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    CHECK(before > 0);
    return f;
}

void sys_file_unref(struct sys_file *f)
{
    if (!f) { return; }
    /* Acquire and release: every other holder's use comes before the close. */
    unsigned before = atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1) { return; }
    (void)close(f->fd); /* Its errors were told by sync; the descriptor is gone in any case. */
    mem_free(f);
}

uint64_t sys_file_device(const struct sys_file *f)
{
    return f->device_id;
}

static enum err sys_file_read_all(const struct sys_file *f, void *buf, size_t size, uint64_t pos,
                                  size_t *got)
{
    unsigned char *p = buf;
    while (*got < size) {
        ssize_t n = pread(f->fd, p + *got, size - *got, (off_t)(pos + *got));
        if (n < 0 && errno == EINTR) { continue; }
        if (n < 0) { return sys_err(errno); }
        if (n == 0) { break; }
        *got += (size_t)n;
    }
    return ERR_OK;
}

enum err sys_file_read(struct sys_file *f, void *buf, size_t size, uint64_t pos, size_t *got)
{
    *got = 0;
    struct sys_stamp stamp = sys_device_begin(f->device);
    enum err e = sys_file_read_all(f, buf, size, pos, got);
    sys_device_end(f->device, stamp);
    return e;
}

/* One call for up to IOV_MAX pieces; what a short write leaves of a piece goes alone. */
static enum err sys_file_write_all(const struct sys_file *f, const struct sys_iov *iov,
                                   size_t iov_count, uint64_t pos, size_t *written)
{
    size_t skip = 0; /* of the first piece */
    while (iov_count > 0) {
        struct sys_iov rest = {.at = (const unsigned char *)iov->at + skip,
                               .size = iov->size - skip};
        size_t count = skip > 0 ? 1 : iov_count < IOV_MAX ? iov_count : IOV_MAX;
        const struct sys_iov *from = skip > 0 ? &rest : iov;
        ssize_t n = pwritev(f->fd, (const struct iovec *)(const void *)from, (int)count,
                            (off_t)(pos + *written));
        if (n < 0 && errno == EINTR) { continue; }
        if (n < 0) { return sys_err(errno); }
        *written += (size_t)n;
        size_t moved = (size_t)n + skip;
        while (iov_count > 0 && moved >= iov->size) {
            moved -= iov->size;
            iov++;
            iov_count--;
        }
        skip = moved;
        if (n == 0 && iov_count > 0) { return ERR_NOSPACE; }
    }
    return ERR_OK;
}

enum err sys_file_write(struct sys_file *f, const struct sys_iov *iov, size_t iov_count,
                        uint64_t pos, size_t *written)
{
    *written = 0;
    struct sys_stamp stamp = sys_device_begin(f->device);
    enum err e = sys_file_write_all(f, iov, iov_count, pos, written);
    sys_device_end(f->device, stamp);
    return e;
}

enum err sys_file_sync(struct sys_file *f)
{
    int rc;
    do {
        rc = fdatasync(f->fd);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? ERR_IO : ERR_OK;
}

enum err sys_file_truncate(struct sys_file *f, uint64_t size)
{
    struct sys_stamp stamp = sys_device_begin(f->device);
    int rc;
    do {
        rc = ftruncate(f->fd, (off_t)size);
    } while (rc < 0 && errno == EINTR);
    enum err e = rc < 0 ? sys_err(errno) : ERR_OK;
    sys_device_end(f->device, stamp);
    return e;
}

enum err sys_file_size(struct sys_file *f, uint64_t *size)
{
    *size = 0;
    struct stat st;
    if (fstat(f->fd, &st) < 0) { return sys_err(errno); }
    *size = (uint64_t)st.st_size;
    return ERR_OK;
}

enum err sys_file_reserve(struct sys_file *f, uint64_t pos, uint64_t size)
{
    struct sys_stamp stamp = sys_device_begin(f->device);
    int rc;
    do {
        rc = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)pos, (off_t)size);
    } while (rc < 0 && errno == EINTR);
    enum err e = rc < 0 ? sys_err(errno) : ERR_OK;
    sys_device_end(f->device, stamp);
    return e;
}

static bool sys_file_page_is_warm(const struct sys_file *f, uint64_t pos)
{
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    ssize_t n;
    do {
        n = preadv2(f->fd, &iov, 1, (off_t)pos, RWF_NOWAIT);
    } while (n < 0 && errno == EINTR);
    /* Only "would wait" is cold. An error is for the read itself; a file system without the flag
     * cannot be probed. */
    return n >= 0 || errno != EAGAIN;
}

bool sys_file_is_warm(struct sys_file *f, uint64_t pos, uint64_t size)
{
    if (size == 0) { return true; }
    if (!sys_file_page_is_warm(f, pos)) { return false; }
    uint64_t last = pos + size - 1;
    return last / SYS_PAGE_SIZE == pos / SYS_PAGE_SIZE || sys_file_page_is_warm(f, last);
}

enum err sys_file_warm(struct sys_file *f, uint64_t pos, uint64_t size)
{
    (void)posix_fadvise(f->fd, (off_t)pos, (off_t)size, POSIX_FADV_WILLNEED); /* a hint */
    char step[SYS_WARM_STEP];
    while (size > 0) {
        size_t want = size < sizeof step ? (size_t)size : sizeof step;
        size_t got = 0;
        enum err e = sys_file_read_all(f, step, want, pos, &got);
        if (e) { return e; }
        if (got < want) { break; }
        pos += got;
        size -= got;
    }
    return ERR_OK;
}

enum err sys_lock_take(struct sys *sys, const char *path, struct sys_file **out)
{
    enum err e = sys_file_open(sys, path, SYS_WRITE | SYS_CREATE, out);
    if (e) { return e; }
    CHECK(*out);
    /* Bound to this open file, so a second taker in this process is refused too; it conflicts with
     * the POSIX lock that Kafka takes on the same name. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl((*out)->fd, F_OFD_SETLK, &lock) < 0) {
        e = errno == EAGAIN || errno == EACCES ? ERR_BUSY : sys_err(errno);
        sys_file_unref(*out);
        *out = NULL;
    }
    return e;
}
