import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.SplittableRandom;

/** Garbage collections (serial, in a small heap) stop the threads of a program. It keeps much, and makes more garbage. */
class Collector {
    public static void main(String[] words) throws Exception {
        String seed = System.getenv("CULPRIT_SEED");
        SplittableRandom draws = new SplittableRandom(seed == null ? 1 : Long.parseLong(seed));
        int kept = 120_000 + draws.nextInt(60_000);
        ArrayDeque<byte[]> live = new ArrayDeque<>();
        while (live.size() < kept) {
            live.add(new byte[400]);
        }
        long before = paused(), often = collections(), begin = System.nanoTime();
        while (System.nanoTime() - begin < 2_500_000_000L) {
            for (int step = 0; step < 2000; step++) {
                live.poll();
                live.add(new byte[400]);
            }
        }
        System.out.println("{\"ran_ns\": " + (System.nanoTime() - begin) + ", \"lost_ns\": " + (paused() - before) * 1_000_000 + ", \"times\": "
            + (collections() - often) + ", \"subject\": \"java\"}");
    }

    private static long paused() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    private static long collections() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }
}
