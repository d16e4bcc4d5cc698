/* kafka.c - see kafka.h. */
#include "cli/kafka.h"

#include "base/check.h"
#include "cli/cli.h"
#include "sys/sys.h"

#include <stdio.h>
#include <string.h>

#define KAFKA_LIBRARY "librdkafka.so.1"

int kafka_load(const char *command, struct kafka *out)
{
    static const char *const names[] = {
#define X(name) "rd_kafka_" #name,
        KAFKA_FUNCTIONS(X)
#undef X
    };
    sys_function *found[COUNT_OF(names)];
    _Static_assert(sizeof found == sizeof *out, "one pointer each, in order");
    enum err e = sys_library_load(KAFKA_LIBRARY, names, COUNT_OF(names), found);
    if (!e) {
        memcpy(out, found, sizeof found);
        return CLI_DONE;
    }
    fprintf(stderr, "barnabas %s: needs " KAFKA_LIBRARY ", which is %s (Debian: librdkafka1)\n",
            command, e == ERR_NOTFOUND ? "not installed" : "too old here");
    return CLI_FAILED;
}
