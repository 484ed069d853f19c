import java.util.*;
import java.util.concurrent.*;

/** Eight threads that fill and drop lists, enough for a few collections. */
public class Threads {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> answers = new ArrayList<>();
        for (int task = 0; task < 8; task++) {
            final int seed = task;
            answers.add(pool.submit(() -> {
                Random random = new Random(seed);
                long sum = 0;
                for (int round = 0; round < 40; round++) {
                    List<byte[]> blocks = new ArrayList<>();
                    for (int i = 0; i < 200; i++) blocks.add(new byte[random.nextInt(4000)]);
                    for (byte[] block : blocks) sum += block.length;
                }
                return sum;
            }));
        }
        long total = 0;
        for (Future<Long> answer : answers) total += answer.get();
        pool.shutdown();
        System.out.println(total);
    }
}
