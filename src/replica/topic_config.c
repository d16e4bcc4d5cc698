/* topic_config.c - a topic's effective configuration as its logs want it. */
#include "replica/replica.h"

#include "base/check.h"
#include "wire/codec.h"

static int8_t codec_of(const char *compression)
{
    static const struct {
        const char *name;
        int8_t codec;
    } codecs[] = {
        {"producer", LOG_CODEC_PRODUCER}, {"uncompressed", CODEC_NONE}, {"gzip", CODEC_GZIP},
        {"snappy", CODEC_SNAPPY},         {"lz4", CODEC_LZ4},           {"zstd", CODEC_ZSTD}};
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        if (slice_eq_str(slice_str(compression), codecs[i].name)) { return codecs[i].codec; }
    }
    return LOG_CODEC_PRODUCER;
}

void replica_log_config(const struct config_scope *scope, struct slice topic,
                        struct log_config *out)
{
    log_config_defaults(out);
    const struct {
        const char *key;
        int64_t *value;
    } longs[] = {
        {"segment.ms", &out->segment_ms},
        {"segment.jitter.ms", &out->segment_jitter_ms},
        {"retention.ms", &out->retention_ms},
        {"retention.bytes", &out->retention_bytes},
        {"message.timestamp.before.max.ms", &out->message_timestamp_before_max_ms},
        {"message.timestamp.after.max.ms", &out->message_timestamp_after_max_ms},
        {"flush.messages", &out->flush_messages},
        {"flush.ms", &out->flush_ms},
        {"delete.retention.ms", &out->delete_retention_ms},
        {"file.delete.delay.ms", &out->file_delete_delay_ms},
        {"max.decompressed.message.bytes", &out->decompressed_bytes_max},
    };
    const struct {
        const char *key;
        int32_t *value;
    } ints[] = {
        {"segment.bytes", &out->segment_bytes},
        {"segment.index.bytes", &out->segment_index_bytes},
        {"index.interval.bytes", &out->index_interval_bytes},
        {"max.message.bytes", &out->max_message_bytes},
        {"compression.gzip.level", &out->compression_gzip_level},
        {"compression.lz4.level", &out->compression_lz4_level},
        {"compression.zstd.level", &out->compression_zstd_level},
    };
    for (size_t i = 0; i < COUNT_OF(longs); i++) {
        *longs[i].value = config_topic_i64(scope, topic, longs[i].key);
    }
    for (size_t i = 0; i < COUNT_OF(ints); i++) {
        *ints[i].value = (int32_t)config_topic_i64(scope, topic, ints[i].key);
    }
    out->producer_expiration_ms = config_broker_i64(scope, "producer.id.expiration.ms");
    out->compression_codec = codec_of(config_topic_text(scope, topic, "compression.type"));
    out->timestamp_is_append_time = slice_eq_str(
        slice_str(config_topic_text(scope, topic, "message.timestamp.type")), "LogAppendTime");
    out->preallocate = config_topic_bool(scope, topic, "preallocate");
    const char *policy = config_topic_text(scope, topic, "cleanup.policy");
    out->cleanup = (uint8_t)((config_list_has(policy, "delete") ? LOG_CLEANUP_DELETE : 0) |
                             (config_list_has(policy, "compact") ? LOG_CLEANUP_COMPACT : 0));
}
