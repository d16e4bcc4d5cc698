/* errno.c - the one place where the operating system's error numbers become ours.
 *
 * Failure: what is not listed is ERR_IO, the careful choice: the directory goes offline. */
#include "sys/sys_int.h"

#include <errno.h>

struct sys_errno {
    int code;
    enum err err;
};

static const struct sys_errno sys_errnos[] = {
    {ENOENT, ERR_NOTFOUND},      {ENOTDIR, ERR_NOTFOUND},       {EEXIST, ERR_EXISTS},
    {ENOTEMPTY, ERR_EXISTS},     {ENOMEM, ERR_NOMEM},           {EMFILE, ERR_LIMIT},
    {ENFILE, ERR_LIMIT},         {ENOBUFS, ERR_LIMIT},          {ENOSPC, ERR_NOSPACE},
    {EDQUOT, ERR_NOSPACE},       {EFBIG, ERR_NOSPACE},          {EACCES, ERR_ACCESS},
    {EPERM, ERR_ACCESS},         {EAGAIN, ERR_AGAIN},           {EINPROGRESS, ERR_AGAIN},
    {EPIPE, ERR_CLOSED},         {ECONNRESET, ERR_CLOSED},      {ECONNREFUSED, ERR_CLOSED},
    {ECONNABORTED, ERR_CLOSED},  {ENOTCONN, ERR_CLOSED},        {ETIMEDOUT, ERR_CLOSED},
    {EHOSTUNREACH, ERR_CLOSED},  {ENETUNREACH, ERR_CLOSED},     {EADDRINUSE, ERR_BUSY},
    {EBUSY, ERR_BUSY},           {EINVAL, ERR_INVALID},         {EISDIR, ERR_INVALID},
    {ENAMETOOLONG, ERR_INVALID}, {ELOOP, ERR_INVALID},          {EADDRNOTAVAIL, ERR_INVALID},
    {ENOSYS, ERR_UNSUPPORTED},   {EOPNOTSUPP, ERR_UNSUPPORTED}, {EAFNOSUPPORT, ERR_UNSUPPORTED},
};

enum err sys_err(int code)
{
    for (size_t i = 0; i < sizeof sys_errnos / sizeof sys_errnos[0]; i++) {
        if (sys_errnos[i].code == code) { return sys_errnos[i].err; }
    }
    return ERR_IO;
}
