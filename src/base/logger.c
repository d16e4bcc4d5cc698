/* logger.c - one line per event in Kafka's pattern. */
#include "base/logger.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOGGER_LINE_SIZE 1000

char *logger_time(int64_t wall_ms, char buf[32])
{
    int64_t days = wall_ms / 86400000;
    int64_t ms = wall_ms % 86400000;
    if (ms < 0) {
        ms += 86400000;
        days--;
    }
    /* Days to civil date, Howard Hinnant's algorithm: eras of 400 years that begin on March 1st. */
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    int64_t day = doy - (153 * mp + 2) / 5 + 1;
    int64_t month = mp < 10 ? mp + 3 : mp - 9;
    int64_t year = yoe + era * 400 + (month <= 2);
    snprintf(buf, 32, "%04d-%02d-%02d %02d:%02d:%02d,%03d", (int)(year % 10000), (int)month,
             (int)day, (int)(ms / 3600000), (int)(ms / 60000 % 60), (int)(ms / 1000 % 60),
             (int)(ms % 1000));
    return buf;
}

void logger_log(const struct logger *l, enum logger_level level, const char *name, const char *fmt,
                ...)
{
    static const char *const names[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR"};
    if (!l || level < l->level_min) { return; }
    char line[LOGGER_LINE_SIZE];
    char when[32];
    int head = snprintf(line, sizeof line, "[%s] %s ", logger_time(l->wall_ms(l->ctx), when),
                        names[level]);
    size_t tail = strlen(name) + 4; /* " (" name ")" and the terminator */
    if (head < 0 || (size_t)head + tail >= sizeof line) { return; }
    size_t room = sizeof line - (size_t)head - tail;
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + head, room, fmt, args);
    va_end(args);
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, " (%s)", name);
    l->write(l->ctx, level, line);
}

bool logger_rate(struct logger_rate *r, int64_t now_ms, uint64_t *suppressed)
{
    if (r->last_ms != 0 && now_ms - r->last_ms < 1000 && now_ms >= r->last_ms) {
        r->suppressed++;
        return false;
    }
    r->last_ms = now_ms;
    *suppressed = r->suppressed;
    r->suppressed = 0;
    return true;
}
