/* logger.h - log lines in Kafka's pattern: "[2026-11-30 04:00:00,123] INFO message
 * (kafka.server.KafkaServer)".
 *
 * Thread:     any; the sink serialises. Bytes from a peer go in through slice_print(), never raw;
 *             a line is cut at 1,000 bytes.
 * Rate:       logger_rate() admits at most one line a second for each static site kept by the
 *             caller. */
#ifndef BASE_LOGGER_H
#define BASE_LOGGER_H

#include <stdbool.h>
#include <stdint.h>

enum logger_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct logger {
    enum logger_level level_min;
    /* Receives one whole line without newline. */
    void (*write)(void *ctx, enum logger_level level, const char *line);
    int64_t (*wall_ms)(void *ctx);
    void *ctx;
};

/* A NULL logger swallows everything. name is Kafka's logger name, e.g. "kafka.log.LogManager". */
__attribute__((format(printf, 4, 5))) void
logger_log(const struct logger *l, enum logger_level level, const char *name, const char *fmt, ...);

#define log_info(l, name, ...) logger_log(l, LOG_INFO, name, __VA_ARGS__)
#define log_warn(l, name, ...) logger_log(l, LOG_WARN, name, __VA_ARGS__)
#define log_error(l, name, ...) logger_log(l, LOG_ERROR, name, __VA_ARGS__)
#define log_debug(l, name, ...) logger_log(l, LOG_DEBUG, name, __VA_ARGS__)

/* State of one rate-limited site; zero to start. Use from one thread. */
struct logger_rate {
    int64_t last_ms;
    uint64_t suppressed;
};
/* True when a line may be written now; *suppressed says how many were swallowed since the last. */
bool logger_rate(struct logger_rate *r, int64_t now_ms, uint64_t *suppressed);

/* Civil UTC time of a wall clock in ms: "2026-11-30 04:00:00,123". */
char *logger_time(int64_t wall_ms, char buf[32]);

#endif
