/* kafka.h - librdkafka, loaded by the commands that need it.
 *
 * Place:      cli/. Linked, it would cost every command, `serve` above all, the start of OpenSSL,
 *             SASL and what else it brings along.
 * Thread:     main.
 * Ownership:  what was loaded stays for the life of the process.
 * Failure:    kafka_load() says which package is missing. */
#ifndef CLI_KAFKA_H
#define CLI_KAFKA_H

#include <librdkafka/rdkafka.h>

/* The library's functions that are called: rd_kafka_<name>. */
#define KAFKA_FUNCTIONS(X)                                                                         \
    X(AdminOptions_destroy)                                                                        \
    X(AdminOptions_new)                                                                            \
    X(AdminOptions_set_request_timeout)                                                            \
    X(AdminOptions_set_validate_only)                                                              \
    X(AlterConfigs)                                                                                \
    X(AlterConfigs_result_resources)                                                               \
    X(conf_destroy)                                                                                \
    X(conf_new)                                                                                    \
    X(conf_set)                                                                                    \
    X(conf_set_dr_msg_cb)                                                                          \
    X(conf_set_error_cb)                                                                           \
    X(conf_set_log_cb)                                                                             \
    X(conf_set_opaque)                                                                             \
    X(ConfigEntry_name)                                                                            \
    X(ConfigEntry_source)                                                                          \
    X(ConfigEntry_value)                                                                           \
    X(ConfigResource_configs)                                                                      \
    X(ConfigResource_destroy)                                                                      \
    X(ConfigResource_destroy_array)                                                                \
    X(ConfigResource_error)                                                                        \
    X(ConfigResource_error_string)                                                                 \
    X(ConfigResource_name)                                                                         \
    X(ConfigResource_new)                                                                          \
    X(ConfigResource_set_config)                                                                   \
    X(consume_batch_queue)                                                                         \
    X(consume_start_queue)                                                                         \
    X(consume_stop)                                                                                \
    X(CreatePartitions)                                                                            \
    X(CreatePartitions_result_topics)                                                              \
    X(CreateTopics)                                                                                \
    X(CreateTopics_result_topics)                                                                  \
    X(DeleteTopic_destroy_array)                                                                   \
    X(DeleteTopic_new)                                                                             \
    X(DeleteTopics)                                                                                \
    X(DeleteTopics_result_topics)                                                                  \
    X(DescribeConfigs)                                                                             \
    X(DescribeConfigs_result_resources)                                                            \
    X(destroy)                                                                                     \
    X(err2str)                                                                                     \
    X(error_code)                                                                                  \
    X(error_destroy)                                                                               \
    X(event_AlterConfigs_result)                                                                   \
    X(event_CreatePartitions_result)                                                               \
    X(event_CreateTopics_result)                                                                   \
    X(event_DeleteTopics_result)                                                                   \
    X(event_DescribeConfigs_result)                                                                \
    X(event_destroy)                                                                               \
    X(event_error)                                                                                 \
    X(event_error_string)                                                                          \
    X(fatal_error)                                                                                 \
    X(flush)                                                                                       \
    X(header_add)                                                                                  \
    X(header_get_all)                                                                              \
    X(headers_destroy)                                                                             \
    X(headers_new)                                                                                 \
    X(last_error)                                                                                  \
    X(message_destroy)                                                                             \
    X(message_errstr)                                                                              \
    X(message_headers)                                                                             \
    X(message_timestamp)                                                                           \
    X(metadata)                                                                                    \
    X(metadata_destroy)                                                                            \
    X(new)                                                                                         \
    X(NewPartitions_destroy)                                                                       \
    X(NewPartitions_new)                                                                           \
    X(NewTopic_destroy)                                                                            \
    X(NewTopic_new)                                                                                \
    X(NewTopic_set_config)                                                                         \
    X(outq_len)                                                                                    \
    X(poll)                                                                                        \
    X(produceva)                                                                                   \
    X(query_watermark_offsets)                                                                     \
    X(queue_destroy)                                                                               \
    X(queue_new)                                                                                   \
    X(queue_poll)                                                                                  \
    X(topic_destroy)                                                                               \
    X(topic_new)                                                                                   \
    X(topic_result_error)                                                                          \
    X(topic_result_error_string)                                                                   \
    X(topic_result_name)

/* Their types are those of its header, so calls are checked as if it were linked. */
struct kafka {
#define X(name) __typeof__(rd_kafka_##name) *name;
    KAFKA_FUNCTIONS(X)
#undef X
};

/* CLI_DONE; CLI_FAILED, said as "barnabas <command>: ...", when it is not there. */
int kafka_load(const char *command, struct kafka *out);

#endif
