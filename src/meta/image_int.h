/* image_int.h - what image.c and apply.c share. */
#ifndef META_IMAGE_INT_H
#define META_IMAGE_INT_H

#include "meta/image.h"

extern const struct tree_type meta_partition_type;
extern const struct tree_type meta_topic_type;
extern const struct tree_type meta_config_type;
extern const struct tree_type meta_broker_type;

void meta_broker_unref(void *value); /* accepts NULL */

/* A new version with the same content. NULL without memory. */
struct meta_image *meta_copy(const struct meta_image *image);

struct slice meta_key_i32(int32_t v, uint8_t buf[4]);

#define META_CONFIG_KEY_SIZE 768
NODISCARD enum err meta_config_key(enum meta_resource type, struct slice name, struct slice key,
                                   uint8_t buf[META_CONFIG_KEY_SIZE], struct slice *out);

#endif
