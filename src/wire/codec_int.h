/* codec_int.h - the scratch inside, for codec*.c and batch*.c.
 *
 * Each codec has a file of its own with the same four or five functions. A read function fills the
 * whole of what it is given unless the data end; codec_read() keeps the limit. A write function
 * appends to s->out. Close functions give back what a hostile stream made large. */
#ifndef WIRE_CODEC_INT_H
#define WIRE_CODEC_INT_H

#include "wire/codec.h"

/* The window through which compressed records are walked. */
#define CODEC_WINDOW 65536u
/* Contexts above this are freed when their stream closes. */
#define CODEC_KEEP_MAX (4u << 20)

struct z_stream_s;

struct codec_scratch {
    uint8_t *window; /* CODEC_WINDOW bytes, made at first use */

    /* The stream being read. */
    enum codec reading; /* CODEC_NONE: none or plain */
    bool read_ended;
    struct slice in; /* what is left */
    uint64_t out_left;

    /* The stream being written. */
    enum codec writing;
    struct wire_buf *out;

    struct z_stream_s *inflate;
    struct z_stream_s *deflate;
    int deflate_level;

    struct wire_buf block; /* snappy: a decompressed block */
    size_t block_pos;
    bool block_framed; /* xerial framing */
    struct wire_buf block_in; /* snappy and lz4: input that waits for a whole block */

    void *lz4_read; /* LZ4F_dctx */
    void *lz4_write; /* LZ4F_cctx */
    int lz4_level;
    bool lz4_large; /* the frame has blocks above 256 KiB */
    bool lz4_ended;

    void *zstd_read; /* ZSTD_DCtx */
    void *zstd_write; /* ZSTD_CCtx */
    bool zstd_in_frame;
    bool zstd_begins; /* the next byte is a frame's first */
    uint64_t zstd_left; /* that the frame says is to come; ZSTD_CONTENTSIZE_UNKNOWN: it does not */
};

/* The window, NULL without memory. */
uint8_t *codec_window(struct codec_scratch *s);
/* Room for size more bytes in the output; NULL with *e set. */
uint8_t *codec_out_room(struct codec_scratch *s, size_t size, enum err *e);
/* As much room as there is, at least one byte; *size says how much. */
uint8_t *codec_out_some(struct codec_scratch *s, size_t *size, enum err *e);

/* Cuts a stream into blocks of exactly block_size bytes (the last is shorter): gathers small pieces
 * in block_in, hands whole ones on without a copy. */
NODISCARD enum err codec_blocks_open(struct codec_scratch *s, size_t block_size);
NODISCARD enum err codec_blocks_write(struct codec_scratch *s, struct slice in, size_t block_size,
                                      enum err (*write)(struct codec_scratch *s,
                                                        struct slice block));
NODISCARD enum err codec_blocks_end(struct codec_scratch *s,
                                    enum err (*write)(struct codec_scratch *s, struct slice block));

NODISCARD enum err codec_gzip_read_open(struct codec_scratch *s);
NODISCARD enum err codec_gzip_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got);
NODISCARD enum err codec_gzip_write_open(struct codec_scratch *s, int32_t level);
NODISCARD enum err codec_gzip_write(struct codec_scratch *s, struct slice in);
NODISCARD enum err codec_gzip_write_end(struct codec_scratch *s);
void codec_gzip_fini(struct codec_scratch *s);

NODISCARD enum err codec_snappy_read_open(struct codec_scratch *s);
NODISCARD enum err codec_snappy_read(struct codec_scratch *s, uint8_t *at, size_t size,
                                     size_t *got);
void codec_snappy_read_close(struct codec_scratch *s);
NODISCARD enum err codec_snappy_write_open(struct codec_scratch *s);
NODISCARD enum err codec_snappy_write(struct codec_scratch *s, struct slice in);
NODISCARD enum err codec_snappy_write_end(struct codec_scratch *s);
void codec_snappy_fini(struct codec_scratch *s);

NODISCARD enum err codec_lz4_read_open(struct codec_scratch *s);
NODISCARD enum err codec_lz4_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got);
void codec_lz4_read_close(struct codec_scratch *s);
NODISCARD enum err codec_lz4_write_open(struct codec_scratch *s, int32_t level);
NODISCARD enum err codec_lz4_write(struct codec_scratch *s, struct slice in);
NODISCARD enum err codec_lz4_write_end(struct codec_scratch *s);
void codec_lz4_fini(struct codec_scratch *s);

NODISCARD enum err codec_zstd_read_open(struct codec_scratch *s);
NODISCARD enum err codec_zstd_read(struct codec_scratch *s, uint8_t *at, size_t size, size_t *got);
void codec_zstd_read_close(struct codec_scratch *s);
NODISCARD enum err codec_zstd_write_open(struct codec_scratch *s, int32_t level,
                                         uint64_t size_hint);
NODISCARD enum err codec_zstd_write(struct codec_scratch *s, struct slice in);
NODISCARD enum err codec_zstd_write_end(struct codec_scratch *s);
void codec_zstd_write_close(struct codec_scratch *s);
void codec_zstd_fini(struct codec_scratch *s);

#endif
