import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/** Kafka's SystemTimer in the cases of bench/timer: hot, fifo, late. */
final class Timers {
    private Timers() {
    }

    private static final class Idle extends TimerTask {
        Idle(long delayMs) {
            super(delayMs);
        }

        @Override
        public void run() {
        }
    }

    private static Idle add(SystemTimer timer, long number) {
        Idle task = new Idle(60000 + Long.remainderUnsigned(Common.mix(number), 30000));
        timer.add(task);
        return task;
    }

    /** hot|fifo kafka OUTSTANDING MS */
    static String run(String[] words) throws Exception {
        boolean isHot = words[0].equals("hot");
        int outstanding = Integer.parseInt(words[2]);
        long runNs = Long.parseLong(words[3]) * Common.MS;
        SystemTimer timer = new SystemTimer("bench");
        Idle[] tasks = new Idle[outstanding];
        for (int i = 0; i < outstanding; i++) {
            tasks[i] = add(timer, i);
        }
        long turns = 0;
        long startCpuNs = Common.cpuNs();
        long startNs = System.nanoTime();
        long nowNs = startNs;
        while (nowNs - startNs < runNs) {
            for (int i = 0; i < 256; i++, turns++) {
                if (isHot) {
                    add(timer, turns).cancel();
                } else {
                    int slot = (int) (turns % outstanding);
                    tasks[slot].cancel();
                    tasks[slot] = add(timer, turns);
                }
            }
            nowNs = System.nanoTime();
        }
        long usedNs = Common.cpuNs() - startCpuNs;
        timer.close();
        return String.format("{\"ns\": %.1f, \"cpu_ns\": %.1f}", (double) (nowNs - startNs) / turns,
                (double) usedNs / turns);
    }

    private static final class Timed extends TimerTask {
        final long deadlineNs;
        final long[] lateNs;
        final AtomicInteger fired;

        Timed(long delayMs, long deadlineNs, long[] lateNs, AtomicInteger fired) {
            super(delayMs);
            this.deadlineNs = deadlineNs;
            this.lateNs = lateNs;
            this.fired = fired;
        }

        @Override
        public void run() {
            lateNs[fired.getAndIncrement()] = System.nanoTime() - deadlineNs;
        }
    }

    /** late kafka PER_SECOND MS: the reaper and the pool of one thread are Kafka's. */
    static String late(String[] words) throws Exception {
        long perSecond = Long.parseLong(words[2]);
        long spanMs = Long.parseLong(words[3]);
        int count = (int) (perSecond * spanMs / 1000);
        long[] lateNs = new long[count];
        AtomicInteger fired = new AtomicInteger();
        SystemTimer timer = new SystemTimer("bench");
        for (int i = 0; i < count; i++) {
            long delayMs = 500 + Long.remainderUnsigned(Common.mix(i), spanMs);
            timer.add(new Timed(delayMs, System.nanoTime() + delayMs * Common.MS, lateNs, fired));
        }
        while (fired.get() < count) {
            timer.advanceClock(200);
        }
        timer.close();
        java.util.Arrays.sort(lateNs);
        return String.format("{\"least_us\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f}",
                lateNs[0] / 1e3, lateNs[count / 2] / 1e3, lateNs[count - 1 - count / 100] / 1e3,
                lateNs[count - 1] / 1e3);
    }
}
