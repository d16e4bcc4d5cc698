/* smallfile.c - files that are read and replaced as a whole: checkpoints, snapshots, manifest. */
#include "log/log_int.h"

#include <stdio.h>

enum err smallfile_read(struct sys *sys, const char *path, uint8_t **at, size_t *size)
{
    *at = NULL;
    *size = 0;
    struct sys_file *f = NULL;
    uint8_t *buf = NULL;
    enum err e = sys_file_open(sys, path, SYS_READ, &f);
    if (e) { return e; }
    uint64_t n = 0;
    e = sys_file_size(f, &n);
    if (e) { goto done; }
    if (n > SMALLFILE_BYTES_MAX) {
        e = ERR_LIMIT;
        goto done;
    }
    buf = mem_alloc((size_t)n + 1); /* text parsers like a terminator */
    if (!buf) {
        e = ERR_NOMEM;
        goto done;
    }
    size_t got = 0;
    e = sys_file_read(f, buf, (size_t)n, 0, &got);
    if (e) { goto done; }
    buf[got] = '\0';
    *at = buf;
    *size = got;
    buf = NULL;
done:
    mem_free(buf);
    sys_file_unref(f);
    return e;
}

enum err smallfile_write(struct sys *sys, const char *path, struct slice bytes,
                         enum smallfile_mode mode)
{
    char tmp[LOG_PATH_SIZE + 8];
    int len = snprintf(tmp, sizeof tmp, "%s.tmp", path);
    CHECK(len > 0 && (size_t)len < sizeof tmp);
    struct sys_file *f = NULL;
    enum err e = sys_file_open(sys, tmp, SYS_WRITE | SYS_CREATE | SYS_TRUNCATE, &f);
    if (e) { return e; }
    size_t written = 0;
    struct sys_iov iov = {bytes.at, bytes.size};
    if (bytes.size > 0) { e = sys_file_write(f, &iov, 1, 0, &written); }
    if (!e && mode == SMALLFILE_DURABLE) { e = sys_file_sync(f); }
    sys_file_unref(f);
    if (!e) { e = sys_path_rename(sys, tmp, path); }
    if (e) { err_ignore(sys_path_unlink(sys, tmp), "the error that led here counts"); }
    return e;
}
