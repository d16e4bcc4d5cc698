/* records.h - writing metadata records: the frame (version, type, version of the type) around a
 * generated message.
 *
 * Place:      meta/; the controller makes records, image dumps make records.
 * Thread:     any; the writer is the caller's. */
#ifndef META_RECORDS_H
#define META_RECORDS_H

#include "meta/image.h"
#include "wire/writer.h"

/* Each appends one record's value to buf, whose size before and after bounds it. */
NODISCARD enum err record_topic(struct wire_buf *buf, struct slice name, struct uuid id);
NODISCARD enum err record_partition(struct wire_buf *buf, struct uuid topic_id,
                                    const struct meta_partition *p, struct uuid directory);
NODISCARD enum err record_remove_topic(struct wire_buf *buf, struct uuid id);
/* A null value removes the override. */
NODISCARD enum err record_config(struct wire_buf *buf, enum meta_resource type, struct slice name,
                                 struct slice key, struct slice value);
NODISCARD enum err record_producer_ids(struct wire_buf *buf, int32_t broker_id,
                                       int64_t broker_epoch, int64_t next_id);
NODISCARD enum err record_broker(struct wire_buf *buf, const struct meta_broker *b,
                                 struct uuid incarnation);
NODISCARD enum err record_feature(struct wire_buf *buf, struct slice name, int16_t level);

#endif
