import org.apache.kafka.server.purgatory.DelayedOperationKey;

/** The same three words as struct purg_key, with as cheap a hash. */
record Key(long hi, long lo, long sub) implements DelayedOperationKey {
    @Override
    public int hashCode() {
        long h = hi * 0x9e3779b97f4a7c15L;
        h = (h ^ (h >>> 32) ^ lo) * 0xbf58476d1ce4e5b9L;
        h = (h ^ (h >>> 29) ^ sub) * 0x94d049bb133111ebL;
        return (int) (h ^ (h >>> 32)) & Integer.MAX_VALUE;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Key key && lo == key.lo && sub == key.sub && hi == key.hi;
    }

    @Override
    public String keyLabel() {
        return hi + "-" + lo + "-" + sub;
    }
}
