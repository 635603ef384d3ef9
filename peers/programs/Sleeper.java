import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.LockSupport;

public class Sleeper {
    interface Wait {
        void once() throws Exception;
    }

    /** The median lateness of these waits, in us. */
    static String late(long askedNs, Wait wait) throws Exception {
        long[] late = new long[100];
        for (int i = 0; i < late.length; i++) {
            long begin = System.nanoTime();
            wait.once();
            late[i] = System.nanoTime() - begin - askedNs;
        }
        Arrays.sort(late);
        return late[late.length / 2] / 1000.0 + "\n";
    }

    public static void main(String[] args) throws Exception {
        SynchronousQueue<Integer> queue = new SynchronousQueue<>();
        Thread sender = new Thread(() -> {
            try {
                for (int i = 0; i < 1000; i++) queue.put(i);
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        }, "sender");
        sender.start();
        long sum = 0;
        for (int i = 0; i < 1000; i++) sum += queue.take();
        sender.join();
        String sleep = late(1_000_000, () -> Thread.sleep(1));
        String park = late(500_000, () -> LockSupport.parkNanos(500_000));
        Files.writeString(Path.of(System.getenv("FIGURES")), sleep + park);
        System.out.println(sum);
    }
}
