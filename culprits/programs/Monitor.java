import java.util.SplittableRandom;

/** A monitor (synchronized) of four, drawn, is held by a thread that sleeps meanwhile. */
class Monitor {
    public static void main(String[] words) throws Exception {
        String seed = System.getenv("CULPRIT_SEED");
        SplittableRandom draws = new SplittableRandom(seed == null ? 1 : Long.parseLong(seed));
        int bad = draws.nextInt(4);
        long keep = 12 + draws.nextInt(14);
        Object[] locks = {new Object(), new Object(), new Object(), new Object()};
        for (int each = 0; each < 4; each++) {
            int number = each;
            Thread keeper = new Thread(() -> turns(locks[number], number == bad ? keep : 0), "keeper-" + number);
            keeper.setDaemon(true);
            keeper.start();
        }
        Thread.sleep(100);
        long begin = System.nanoTime(), lost = 0, times = 0;
        while (System.nanoTime() - begin < 2_500_000_000L) {
            for (int number = 0; number < 4; number++) {
                long at = System.nanoTime();
                synchronized (locks[number]) {
                    times += number == bad ? 1 : 0;
                }
                lost += number == bad ? System.nanoTime() - at : 0;
            }
            Thread.sleep(3);
        }
        System.out.println("{\"ran_ns\": " + (System.nanoTime() - begin) + ", \"lost_ns\": " + lost + ", \"times\": " + times
            + ", \"subject\": \"java\", \"holder\": \"keeper-" + bad + "\"}");
    }

    private static void turns(Object lock, long keep) {
        try {
            for (;;) {
                synchronized (lock) {
                    Thread.sleep(keep);
                }
                Thread.sleep(keep > 0 ? keep / 2 : 5);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
