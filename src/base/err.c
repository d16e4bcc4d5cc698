/* err.c - names of errors. */
#include "base/err.h"

const char *err_name(enum err e)
{
    switch (e) {
    case ERR_OK:
        return "OK";
    case ERR_NOMEM:
        return "NOMEM";
    case ERR_IO:
        return "IO";
    case ERR_NOSPACE:
        return "NOSPACE";
    case ERR_NOTFOUND:
        return "NOTFOUND";
    case ERR_EXISTS:
        return "EXISTS";
    case ERR_MALFORMED:
        return "MALFORMED";
    case ERR_CORRUPT:
        return "CORRUPT";
    case ERR_LIMIT:
        return "LIMIT";
    case ERR_RANGE:
        return "RANGE";
    case ERR_AGAIN:
        return "AGAIN";
    case ERR_CLOSED:
        return "CLOSED";
    case ERR_UNSUPPORTED:
        return "UNSUPPORTED";
    case ERR_INVALID:
        return "INVALID";
    case ERR_BUSY:
        return "BUSY";
    case ERR_OFFLINE:
        return "OFFLINE";
    case ERR_OUT_OF_ORDER:
        return "OUT_OF_ORDER";
    case ERR_DUPLICATE:
        return "DUPLICATE";
    case ERR_FENCED:
        return "FENCED";
    case ERR_ACCESS:
        return "ACCESS";
    case ERR_STOPPED:
        return "STOPPED";
    }
    return "UNKNOWN";
}
