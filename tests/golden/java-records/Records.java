// Records.java - record batches, producer snapshots and epoch files against Kafka's own classes.
//
//   java -cp "JARS/*" Records.java write DIR    writes the vectors that tests/golden/{wire,log} read
//   java -cp "JARS/*" Records.java check DIR    reads what golden_wire_records --write DIR wrote
//
// Both sides make the same records from their numbers, so nothing but bytes is exchanged. The file
// name tells codec, number of records and level: zstd-200-l22.bin. "big" is three records of which
// the second is long.

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

import java.io.File;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeSet;

public final class Records {
    static final long BASE_OFFSET = 1000;
    static final long BASE_TIME = 1700000000000L;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write(Path.of(args[1]));
        } else {
            check(new File(args[1]));
        }
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static SimpleRecord record(int i, boolean big) {
        byte[] key = i % 4 == 3 ? null : bytes("key-" + i);
        byte[] value;
        if (big && i == 1) {
            value = new byte[150000];
            for (int n = 0; n < value.length; n++) {
                value[n] = (byte) ('a' + (int) ((long) n * n % 26));
            }
        } else if (i % 7 == 6) {
            value = null;
        } else {
            value = bytes("value-" + i + "-" + String.valueOf((char) ('a' + i % 26)).repeat(i * 37 % 300));
        }
        Header[] headers = new Header[i % 3];
        for (int j = 0; j < headers.length; j++) {
            headers[j] = new RecordHeader("h" + j, (i + j) % 5 == 0 ? null : bytes("x" + i));
        }
        return new SimpleRecord(BASE_TIME + i * 7919 % 1000 - 500, key, value, headers);
    }

    static SimpleRecord[] records(String count) {
        boolean big = count.equals("big");
        SimpleRecord[] all = new SimpleRecord[big ? 3 : Integer.parseInt(count)];
        for (int i = 0; i < all.length; i++) {
            all[i] = record(i, big);
        }
        return all;
    }

    static Compression compression(String codec, String level) {
        int l = level == null ? 0 : Integer.parseInt(level.substring(1));
        switch (codec) {
            case "none": return Compression.NONE;
            case "gzip": return level == null ? Compression.gzip().build() : Compression.gzip().level(l).build();
            case "lz4": return level == null ? Compression.lz4().build() : Compression.lz4().level(l).build();
            case "zstd": return level == null ? Compression.zstd().build() : Compression.zstd().level(l).build();
            default: return Compression.snappy().build();
        }
    }

    static void write(Path dir) throws Exception {
        for (String name : List.of("none-1", "none-200", "gzip-1", "gzip-200", "gzip-200-l9", "gzip-big",
                "snappy-1", "snappy-200", "snappy-big", "lz4-1", "lz4-200", "lz4-200-l1", "lz4-200-l17", "lz4-big",
                "zstd-1", "zstd-200", "zstd-200-l-5", "zstd-200-l22", "zstd-big")) {
            String[] part = name.split("-", 3);
            MemoryRecords made = MemoryRecords.withIdempotentRecords(BASE_OFFSET,
                    compression(part[0], part.length > 2 ? part[2] : null), 4711L, (short) 3, 55, 9,
                    records(part[1]));
            byte[] out = new byte[made.sizeInBytes()];
            made.buffer().duplicate().get(out);
            Files.write(dir.resolve(name + ".bin"), out);
        }
        Map<Long, ProducerStateEntry> producers = new LinkedHashMap<>();
        Method add = ProducerStateEntry.class.getDeclaredMethod("addBatch",
                short.class, int.class, long.class, int.class, long.class);
        add.setAccessible(true);
        for (int i = 0; i < 5; i++) {
            ProducerStateEntry e = new ProducerStateEntry(4000L + i, (short) i, i == 4 ? 12 : -1,
                    BASE_TIME + i, i == 3 ? OptionalLong.of(77) : OptionalLong.empty());
            if (i != 2) {
                add.invoke(e, (short) i, 10 * i + 5, 100L * i + 50, i, BASE_TIME + i);
            }
            producers.put(4000L + i, e);
        }
        ProducerStateManager.writeSnapshot(dir.resolve("producers.snapshot").toFile(), producers, true);
        new LeaderEpochCheckpointFile(dir.resolve("leader-epoch-checkpoint").toFile(), null)
                .write(List.of(new EpochEntry(0, 0), new EpochEntry(3, 17), new EpochEntry(2147483647, 123456789012L)));
    }

    static void same(Object a, Object b, String what) {
        if (!a.equals(b)) {
            throw new AssertionError(what + ": " + a + " is not " + b);
        }
    }

    static byte[] array(ByteBuffer b) {
        if (b == null) {
            return null;
        }
        byte[] a = new byte[b.remaining()];
        b.duplicate().get(a);
        return a;
    }

    static void checkBatches(File file) throws Exception {
        SimpleRecord[] expected = records(file.getName().replace(".bin", "").split("-", 3)[1]);
        int i = 0;
        MemoryRecords all = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file.toPath())));
        for (MutableRecordBatch batch : all.batches()) {
            batch.ensureValid();
            same(batch.baseOffset(), BASE_OFFSET, "base offset");
            same(batch.producerId(), 4711L, "producer");
            same(batch.producerEpoch(), (short) 3, "epoch");
            same(batch.baseSequence(), 55, "sequence");
            same(batch.partitionLeaderEpoch(), 9, "leader epoch");
            same(batch.compressionType().name, file.getName().split("[-.]")[0], "codec");
            for (Record r : batch) {
                r.ensureValid();
                same(r.offset(), BASE_OFFSET + i, "offset");
                same(r.timestamp(), expected[i].timestamp(), "time");
                same(Arrays.equals(array(r.key()), array(expected[i].key())), true, "key " + i);
                same(Arrays.equals(array(r.value()), array(expected[i].value())), true, "value " + i);
                same(Arrays.equals(r.headers(), expected[i].headers()), true, "headers " + i);
                i++;
            }
        }
        same(i, expected.length, "count");
    }

    static void check(File dir) throws Exception {
        int files = 0;
        for (File file : new TreeSet<>(Arrays.asList(dir.listFiles()))) {
            if (file.getName().endsWith(".bin")) {
                checkBatches(file);
            } else if (file.getName().endsWith(".snapshot")) {
                List<String> got = new ArrayList<>();
                for (ProducerStateEntry e : ProducerStateManager.readSnapshot(file)) {
                    got.add(e.producerId() + "/" + e.producerEpoch() + "/" + e.lastDataOffset() + "/" + e.lastTimestamp());
                }
                same(got.toString(), "[1/0/9/1700000000000, 2/1/24/1700000000001]", file.getName());
            } else {
                same(new LeaderEpochCheckpointFile(file, null).read(),
                        List.of(new EpochEntry(0, 0), new EpochEntry(3, 17)), file.getName());
            }
            files++;
        }
        System.out.println(files + " files are as Kafka reads them");
    }
}
