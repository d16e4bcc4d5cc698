import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Runs one leg a line of standard input, in one warm process; answers with a line of JSON each. */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            String result = switch (words[0]) {
                case "window" -> Window.run(words);
                case "arrivals" -> Arrivals.run(words);
                case "hot", "fifo" -> Timers.run(words);
                case "late" -> Timers.late(words);
                default -> throw new IllegalArgumentException(line);
            };
            System.gc(); // what a leg leaves is not the next one's
            System.out.println(result);
            System.out.flush();
        }
    }
}
