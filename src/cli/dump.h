/* dump.h - what the files of `barnabas dump-log` share.
 *
 * Place:      cli/, private. Files are read through sys, formats through wire/ and log/.
 * Thread:     main.
 * Ownership:  the struct dump owns its buffers; a file is open while it is dumped.
 * Invariants: [DMP-1] nothing that a file says is believed before it was compared with the file's
 *             size. [DMP-2] every damage is a problem with file and position; the exit code is 1.
 * Failure:    what cannot be read is a problem, too; dumping goes on with the next file. */
#ifndef CLI_DUMP_H
#define CLI_DUMP_H

#include "cli/output.h"
#include "sys/sys.h"
#include "wire/batch.h"

#define DUMP_PATH_SIZE 4096
/* Files and batches above this are not read into memory: a damage, or none of ours. */
#define DUMP_BYTES_MAX ((size_t)512 << 20)

struct dump {
    struct sys *sys;
    bool is_deep, is_json;
    bool is_revealing; /* values of configurations, too, which may be secret */
    bool is_metadata; /* records are metadata records whatever the folder is called */
    bool has_header; /* the file's name was printed */
    uint64_t problems;
    struct codec_scratch *scratch;
    struct wire_buf bytes; /* a batch, or a small file */
    struct wire_buf plain; /* decompressed records */
    /* The file that is being dumped. */
    const char *path;
    const char *name; /* the end of path */
    char folder[256]; /* the name of the folder it is in */
    struct sys_file *file;
    uint64_t size;
};

/* Prints one object (taken in): in text as "kind key=value ...", in JSON as a line with "kind".
 * NULL is said to be no memory. */
void dump_emit(struct dump *d, const char *kind, json_t *object);
__attribute__((format(printf, 3, 4))) void dump_problem(struct dump *d, uint64_t pos,
                                                        const char *fmt, ...);

/* [pos, pos + size) of the file into d->bytes. False: a problem was reported. */
bool dump_read(struct dump *d, uint64_t pos, size_t size);
/* The first 20 digits of the name; -1 when there are none. */
int64_t dump_base_offset(const struct dump *d);

/* The kinds of files. d->file is open, d->size known. */
void dump_batches(struct dump *d);
void dump_index(struct dump *d);
void dump_time_index(struct dump *d);
void dump_aborted(struct dump *d);
void dump_snapshot(struct dump *d);
void dump_epochs(struct dump *d);
void dump_checkpoint(struct dump *d);
void dump_properties(struct dump *d);

/* Adds what a record of the metadata log means to its object. */
void dump_metadata_record(struct dump *d, json_t *object, const struct batch_record *r,
                          bool is_control, uint64_t pos);

#endif
