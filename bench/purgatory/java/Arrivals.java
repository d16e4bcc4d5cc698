import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/** The test of Kafka's purgatory redesign: the twin of arrivals.c. */
final class Arrivals {
    private static final int KEYS_MAX = 100;
    private static final int DATA_BYTES = 100;
    private static final int AFTER_MS = 20;
    private static final long BEHIND_NS = 50_000; // the completer's sleep when the other is behind
    private static final int NEVER = -1;
    private static final AtomicLong ANSWERED = new AtomicLong();
    private static final AtomicLong EXPIRED = new AtomicLong();

    private static final class Request extends DelayedOperation {
        final byte[] data = new byte[DATA_BYTES];

        Request(long delayMs, long number) {
            super(delayMs);
            java.util.Arrays.fill(data, (byte) number);
        }

        @Override
        public boolean tryComplete() {
            return false;
        }

        @Override
        public void onComplete() {
            ANSWERED.incrementAndGet();
        }

        @Override
        public void onExpiration() {
            EXPIRED.incrementAndGet();
        }
    }

    private final DelayedOperationPurgatory<Request> purgatory =
            new DelayedOperationPurgatory<>("bench", 0, 1000);
    private final int count;
    private final int timeoutMs;
    private final int keys;
    private final long keySpace;
    private final Key[] space;
    private final long[] atNs;
    private final int[] completeMs;
    private final int[] order;
    private final Request[] requests;
    private long startNs;
    private long completeLateNs;
    private volatile int parked;

    private Arrivals(String[] words) {
        double perSecond = Double.parseDouble(words[3]);
        count = Integer.parseInt(words[4]);
        timeoutMs = Integer.parseInt(words[5]);
        keys = Integer.parseInt(words[6]);
        keySpace = Long.parseLong(words[7]);
        space = new Key[(int) keySpace];
        for (int i = 0; i < keySpace; i++) {
            space[i] = new Key(0, i, 0);
        }
        atNs = new long[count];
        completeMs = new int[count];
        requests = new Request[count];
        double mu = Math.log(Double.parseDouble(words[1]));
        double sigma = (Math.log(Double.parseDouble(words[2])) - mu) / 0.6744897501960817;
        double at = 0;
        int lastMs = 0;
        for (int i = 0; i < count; i++) {
            at += -Math.log(uniform((1L << 40) + i)) * 1e9 / perSecond;
            double latencyMs = Math.exp(mu + sigma * normal((1L << 41) + i));
            atNs[i] = (long) at;
            completeMs[i] = NEVER;
            if (latencyMs < timeoutMs + AFTER_MS) {
                completeMs[i] = (int) (at / 1e6 + latencyMs) + 1;
                lastMs = Math.max(lastMs, completeMs[i]);
            }
        }
        order = orderOf(lastMs);
    }

    private int[] orderOf(int lastMs) {
        int[] starts = new int[lastMs + 2];
        for (int ms : completeMs) {
            if (ms != NEVER) {
                starts[ms + 1]++;
            }
        }
        for (int ms = 1; ms <= lastMs + 1; ms++) {
            starts[ms] += starts[ms - 1];
        }
        int[] result = new int[starts[lastMs + 1]];
        for (int i = 0; i < count; i++) {
            if (completeMs[i] != NEVER) {
                result[starts[completeMs[i]]++] = i;
            }
        }
        return result;
    }

    private static double uniform(long number) {
        return ((Common.mix(number) >>> 11) + 0.5) / 9007199254740992.0;
    }

    private static double normal(long number) {
        return Math.sqrt(-2 * Math.log(uniform(2 * number))) * Math.cos(2 * Math.PI * uniform(2 * number + 1));
    }

    private void completeAll() {
        long nowNs = System.nanoTime() - startNs;
        long dueNs = 0;
        for (int i = 0; i < order.length; i++) {
            int number = order[i];
            dueNs = completeMs[number] * Common.MS;
            while (nowNs < dueNs) {
                LockSupport.parkNanos(dueNs - nowNs);
                nowNs = System.nanoTime() - startNs;
            }
            while (parked <= number) {
                LockSupport.parkNanos(BEHIND_NS);
            }
            requests[number].forceComplete();
            requests[number] = null;
            if (i % 64 == 0) {
                nowNs = System.nanoTime() - startNs;
            }
        }
        completeLateNs = Math.max(0, System.nanoTime() - startNs - dueNs);
    }

    private void park(int number) {
        List<Key> watched = new ArrayList<>(keys);
        for (int i = 0; i < keys; i++) {
            watched.add(space[(int) Long.remainderUnsigned(
                    Common.mix((1L << 42) + (long) number * KEYS_MAX + i), keySpace)]);
        }
        Request request = new Request(timeoutMs, number);
        if (completeMs[number] != NEVER) {
            requests[number] = request;
        }
        Common.must(!purgatory.tryCompleteElseWatch(request, watched), "parked");
        parked = number + 1;
    }

    private long parkAll() {
        int number = 0;
        while (true) {
            long nowNs = System.nanoTime() - startNs;
            while (number < count && atNs[number] <= nowNs) {
                park(number++);
            }
            nowNs = System.nanoTime() - startNs;
            if (number == count) {
                return nowNs - atNs[count - 1];
            }
            if (atNs[number] > nowNs) {
                LockSupport.parkNanos(Math.max(Common.MS, atNs[number] - nowNs));
            }
        }
    }

    private String measure() throws Exception {
        ANSWERED.set(0);
        EXPIRED.set(0);
        startNs = System.nanoTime() + Common.MS;
        long startCpuNs = Common.cpuNs();
        Thread completer = new Thread(this::completeAll);
        completer.start();
        long lateNs = parkAll();
        completer.join();
        while (ANSWERED.get() < count) {
            Thread.sleep(1);
        }
        long usedNs = Common.cpuNs() - startCpuNs;
        purgatory.shutdown();
        long slackNs = atNs[count - 1] / 20;
        return String.format("{\"sustained\": %b, \"late_ms\": %.2f, \"complete_late_ms\": %.2f, "
                + "\"expired\": %d, \"cpu_us\": %.3f}", lateNs <= slackNs && completeLateNs <= slackNs,
                lateNs / 1e6, completeLateNs / 1e6, EXPIRED.get(), usedNs / 1e3 / count);
    }

    static String run(String[] words) throws Exception {
        return new Arrivals(words).measure();
    }
}
