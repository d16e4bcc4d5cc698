/* journal_fuzz.c - the metadata log of a broker alone: its folder at a start.
 *
 * Input: files, each a kind (bit 0: snapshot, bit 1: an odd name, bit 2: checksums are made right),
 * a base offset (one byte), a size (two bytes) and that many bytes. Oracles: the start succeeds or
 * says that it is damaged; what opened takes one more record, and the next start finds all
 * again. */
#include "base/mem.h"
#include "fuzz/folder.h"
#include "fuzz/repair.h"
#include "meta/journal.h"
#include "meta/records.h"
#include "wire/batch.h"

enum { FLAG_SNAPSHOT = 1, FLAG_ODD_NAME = 2, FLAG_REPAIR = 4 };
#define FILES_MAX 4
#define NOW_MS 1700000000000

static struct sys *sys;
static char dir[128]; /* folder/__cluster_metadata-0 */

static enum err remove_file(void *ctx, const char *name, bool is_dir)
{
    char path[512];
    (void)ctx;
    CHECK(!is_dir);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return sys_path_unlink(sys, path);
}

static struct slice put_file(struct slice rest)
{
    unsigned kind = rest.at[0], base = rest.at[1];
    size_t size = (size_t)rest.at[2] << 8 | rest.at[3];
    rest = slice_sub(rest, 4, rest.size);
    struct slice content = slice_sub(rest, 0, size);
    char name[128];
    int n = snprintf(name, sizeof name, "__cluster_metadata-0/%020u%s", base,
                     kind & FLAG_SNAPSHOT ? "-0000000001.checkpoint" : ".log");
    CHECK(n > 0 && (size_t)n < sizeof name - 8);
    if (kind & FLAG_ODD_NAME) { name[21 + base % (unsigned)(n - 21)] = "x-.9"[base % 4]; }
    uint8_t *bytes = mem_alloc(content.size + 1);
    CHECK(bytes != NULL);
    memcpy(bytes, content.at, content.size);
    if (kind & FLAG_REPAIR) { repair(bytes, content.size); }
    folder_write(name, slice_of(bytes, content.size));
    mem_free(bytes);
    return slice_sub(rest, content.size, rest.size);
}

static struct journal *open_one(struct meta_image **image, enum err *e)
{
    struct journal *j = NULL;
    struct journal_options o = {.sys = sys, .dir = folder, .snapshot_bytes = 1};
    *e = journal_open(&o, &j, image);
    CHECK(!*e == (j != NULL) && !*e == (*image != NULL));
    return j;
}

static void check_goes_on(struct journal *j, struct meta_image *image)
{
    struct wire_buf buf;
    wire_buf_init(&buf, 1u << 20);
    enum err e = record_feature(&buf, SLICE_LIT("fuzz.feature"), 3);
    CHECK(!e);
    struct slice record = wire_buf_slice(&buf);
    int64_t first = -1, end = image->offset + 1;
    e = journal_append(j, &record, 1, NOW_MS, &first);
    CHECKF(!e && first == end, "%s at %lld", err_name(e), (long long)first);
    journal_close(j);
    struct meta_image *again = NULL;
    j = open_one(&again, &e);
    CHECKF(!e && again->offset == end, "%s", err_name(e));
    CHECK(meta_topics_count(again) == meta_topics_count(image));
    CHECK(again->partitions_count == image->partitions_count);
    CHECK(again->producer_id_next == image->producer_id_next);
    e = journal_snapshot(j, again, NOW_MS);
    CHECK(!e);
    journal_close(j);
    struct meta_image *from_snapshot = NULL;
    j = open_one(&from_snapshot, &e);
    CHECKF(!e && from_snapshot->offset == end, "%s", err_name(e));
    CHECK(meta_topics_count(from_snapshot) == meta_topics_count(image));
    CHECK(from_snapshot->partitions_count == image->partitions_count);
    journal_close(j);
    meta_unref(from_snapshot);
    meta_unref(again);
    wire_buf_fini(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!sys) {
        folder_make();
        sys = sys_create();
        CHECK(sys != NULL);
        snprintf(dir, sizeof dir, "%s/__cluster_metadata-0", folder);
        enum err e = sys_dir_create(sys, dir);
        CHECK(!e);
    }
    enum err e = sys_dir_list(sys, dir, remove_file, NULL);
    CHECK(!e);
    struct slice rest = slice_of(data, size);
    for (int i = 0; i < FILES_MAX && rest.size >= 4; i++) {
        rest = put_file(rest);
    }
    struct meta_image *image = NULL;
    struct journal *j = open_one(&image, &e);
    CHECKF(!e || e == ERR_CORRUPT, "%s", err_name(e));
    if (!e) { check_goes_on(j, image); }
    meta_unref(image);
    return 0;
}
