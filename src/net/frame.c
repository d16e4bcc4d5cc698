/* frame.c - the 4 bytes in front of a frame, and what strangers send instead.
 *
 * Thread: any; pure. */
#include "net/net_int.h"

#include <strings.h>

enum net_frame_verdict net_frame_size(const uint8_t *at, size_t have, size_t frame_bytes_max,
                                      size_t *size)
{
    *size = 0;
    if (have < 4) { return NET_FRAME_SHORT; }
    uint32_t be;
    memcpy(&be, at, sizeof be);
    uint32_t n = __builtin_bswap32(be);
    /* A negative size is beyond INT32_MAX here. */
    if (n < NET_FRAME_BYTES_MIN || n > INT32_MAX || n > frame_bytes_max) { return NET_FRAME_BAD; }
    *size = n;
    return NET_FRAME_OK;
}

const char *net_frame_foreign(const uint8_t *at, size_t have)
{
    static const char *const methods[] = {"GET ", "POST", "HEAD", "PUT ", "OPTI",
                                          "DELE", "CONN", "PATC", "TRAC", "PRI "};
    if (have < 4) { return NULL; }
    if (at[0] == 0x16 && at[1] == 0x03) { return "TLS"; } /* handshake record, SSL 3 to TLS 1.3 */
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        if (memcmp(at, methods[i], 4) == 0) { return "HTTP"; }
    }
    return NULL;
}

bool net_security_parse(const char *text, enum net_security *out)
{
    static const char *const names[] = {
        [NET_PLAINTEXT] = "PLAINTEXT",
        [NET_SSL] = "SSL",
        [NET_SASL_PLAINTEXT] = "SASL_PLAINTEXT",
        [NET_SASL_SSL] = "SASL_SSL",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcasecmp(text, names[i]) == 0) {
            *out = (enum net_security)i;
            return true;
        }
    }
    return false;
}

const char *net_close_reason_name(enum net_close_reason reason)
{
    static const char *const names[] = {
        [NET_CLOSED_PEER] = "peer",       [NET_CLOSED_FRAME] = "frame",
        [NET_CLOSED_IDLE] = "idle",       [NET_CLOSED_PARTIAL] = "partial",
        [NET_CLOSED_STALLED] = "stalled", [NET_CLOSED_API] = "api",
        [NET_CLOSED_FILE] = "file",       [NET_CLOSED_MEMORY] = "memory",
        [NET_CLOSED_LIMIT] = "limit",     [NET_CLOSED_STOP] = "stop",
    };
    return (unsigned)reason < COUNT_OF(names) ? names[reason] : "unknown";
}
