import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.LockSupport;

public class Sleeper {
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
        for (int i = 0; i < 200; i++) Thread.sleep(2);
        for (int i = 0; i < 200; i++) LockSupport.parkNanos(500_000);
        System.out.println(sum);
    }
}
