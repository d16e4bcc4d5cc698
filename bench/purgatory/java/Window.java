import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/** Insert, then complete by key: the twin of window.c, with Kafka's purgatory as the broker makes it. */
final class Window {
    private static final int STEP_EVERY = 16; // as often as the other side reads its clock

    private static final class Item extends DelayedOperation {
        volatile boolean isReady;
        boolean isExpired;

        Item(long delayMs) {
            super(delayMs);
        }

        @Override
        public boolean tryComplete() {
            return isReady && forceComplete();
        }

        @Override
        public void onComplete() {
        }

        @Override
        public void onExpiration() {
            isExpired = true;
        }
    }

    private final DelayedOperationPurgatory<Item> purgatory =
            new DelayedOperationPurgatory<>("bench", 0, 1000);
    private final int keys;
    private final int outstanding; // of one thread
    private final long runNs;
    private final int turn; // so many events, then as many new operations
    private final CyclicBarrier barrier;
    private long startCpuNs;
    private long usedCpuNs; // between the barrier's first trip and its second

    private Window(int keys, int outstanding, int threads, long runNs, int turn) {
        this.keys = keys;
        this.outstanding = outstanding;
        this.runNs = runNs;
        this.turn = turn;
        this.barrier = new CyclicBarrier(threads, () -> {
            usedCpuNs = Common.cpuNs() - startCpuNs;
            startCpuNs = Common.cpuNs();
        });
    }

    private final class Lane extends Thread {
        final long number;
        long turns;
        long elapsedNs;
        Throwable failure;

        Lane(long number) {
            this.number = number;
        }

        private Item park(long serial) {
            Item item = new Item(30000 + Long.remainderUnsigned(Common.mix(serial), 30000));
            List<Key> watched = new ArrayList<>(keys);
            for (int i = 0; i < keys; i++) {
                watched.add(new Key(number, serial, i));
            }
            Common.must(!purgatory.tryCompleteElseWatch(item, watched), "parked");
            return item;
        }

        private void turn(Item[] items, long serial) {
            long oldest = serial - outstanding;
            for (int i = 0; i < turn; i++) {
                Item item = items[(int) ((oldest + i) % outstanding)];
                item.isReady = true;
                purgatory.checkAndComplete(new Key(number, oldest + i, (oldest + i) % keys));
                Common.must(item.isCompleted(), "each event ended its operation");
            }
            for (int i = 0; i < turn; i++) {
                items[(int) ((serial + i) % outstanding)] = park(serial + i);
            }
        }

        private void turnUntilOver(Item[] items) {
            long serial = outstanding;
            long startNs = System.nanoTime();
            long nowNs = startNs;
            while (nowNs - startNs < runNs) {
                for (int i = 0; i < STEP_EVERY; i += turn, serial += turn) {
                    turn(items, serial);
                }
                nowNs = System.nanoTime();
            }
            elapsedNs = nowNs - startNs;
            turns = serial - outstanding;
        }

        @Override
        public void run() {
            try {
                Item[] items = new Item[outstanding];
                for (int serial = 0; serial < outstanding; serial++) {
                    items[serial] = park(serial);
                }
                barrier.await();
                turnUntilOver(items);
                barrier.await();
            } catch (Throwable t) {
                failure = t;
                barrier.reset();
            }
        }
    }

    static String run(String[] words) throws Exception {
        int threads = Integer.parseInt(words[3]);
        int outstanding = Integer.parseInt(words[2]) / threads;
        Window window = new Window(Integer.parseInt(words[1]), outstanding, threads,
                Long.parseLong(words[4]) * Common.MS, Integer.parseInt(words[5]));
        Lane[] lanes = new Lane[threads];
        for (int i = 0; i < threads; i++) {
            lanes[i] = window.new Lane(i);
            lanes[i].start();
        }
        double perSecond = 0;
        long turns = 0;
        for (Lane lane : lanes) {
            lane.join();
            Common.must(lane.failure == null, "a lane ran: " + lane.failure);
            turns += lane.turns;
            perSecond += lane.turns * 1e9 / lane.elapsedNs;
        }
        window.purgatory.shutdown();
        return String.format("{\"ops_s\": %.0f, \"ns\": %.1f, \"cpu_ns\": %.1f}", perSecond,
                1e9 * threads / perSecond, (double) window.usedCpuNs / turns);
    }
}
