/** What both sides compute alike: the twin of common.h. */
final class Common {
    static final long MS = 1_000_000L;

    private Common() {
    }

    static long mix(long number) {
        number += 0x9e3779b97f4a7c15L;
        number = (number ^ (number >>> 30)) * 0xbf58476d1ce4e5b9L;
        number = (number ^ (number >>> 27)) * 0x94d049bb133111ebL;
        return number ^ (number >>> 31);
    }

    /** The processor time of all threads, the collector's and the compiler's included. */
    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean)
                java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static void must(boolean isTrue, String what) {
        if (!isTrue) {
            throw new IllegalStateException("not so: " + what);
        }
    }
}
