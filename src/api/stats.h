/* stats.h - what is counted about requests, for metrics.
 *
 * Place:      api/. Recorded when an answer has left, read by a scrape.
 * Thread:     each processor has its own part and is its only writer, so that nothing is shared
 *             between processors; any thread reads. Refusals are rare and shared.
 * Memory:     a processor's part comes with its first request, an API's times with the first of
 *             that API: about 19 KiB. Without memory they are not recorded. */
#ifndef API_STATS_H
#define API_STATS_H

#include "api/api_int.h"

#define API_STATS_APIS_MAX 32
#define API_STATS_VERSIONS_MAX 24

struct api_stats;

struct api_stats *api_stats_create(void);
void api_stats_destroy(struct api_stats *s); /* accepts NULL */

/* req->tag of a request that was found in the table. 0: not one of them. */
static inline uint32_t api_stats_tag(size_t index, int16_t version)
{
    return (uint32_t)(index + 1) << 16 | (uint16_t)version;
}

/* net's on_sent. */
void api_stats_sent(struct api_stats *s, const struct net_request *req,
                    const struct net_times *times);
/* count: records or, for API_REFUSED_BYTES, bytes. */
void api_stats_refused(struct api_stats *s, enum api_refusal what, uint64_t count);

#endif
