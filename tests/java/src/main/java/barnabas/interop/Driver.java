/* Driver.java - the Java side of the interop tests: one JVM that obeys a command a line.
 *
 * Place:    started by tests/interop/fixture.py; reads JSON objects from standard input, one a line,
 *           and answers each with one line on standard output. "cmd" names the command.
 * Why:      a JVM takes seconds to start, so all tests share one.
 * Failure:  a command that throws is answered with ok=false, the exception's class and message. */
package barnabas.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

public final class Driver {
    /** One command: reads its fields from the first, puts its results into the second. */
    interface Command {
        void run(JsonNode in, ObjectNode out) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();

    private static final Map<String, Command> COMMANDS = new HashMap<>();

    static {
        Clients.addTo(COMMANDS);
        AdminCommands.addTo(COMMANDS);
        Tools.addTo(COMMANDS);
    }

    private Driver() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what libraries print must not mix with answers
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode out = JSON.createObjectNode();
            try {
                JsonNode in = JSON.readTree(line);
                Command command = COMMANDS.get(in.get("cmd").asText());
                if (command == null) {
                    throw new IllegalArgumentException("no command " + in.get("cmd"));
                }
                command.run(in, out);
                out.put("ok", true);
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause instanceof ExecutionException && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                out = JSON.createObjectNode();
                out.put("ok", false);
                out.put("class", cause.getClass().getSimpleName());
                out.put("message", String.valueOf(cause.getMessage()));
                StringBuilder trace = new StringBuilder();
                for (StackTraceElement element : cause.getStackTrace()) {
                    trace.append(element).append('\n');
                }
                out.put("trace", trace.toString());
            }
            answers.println(JSON.writeValueAsString(out));
            answers.flush();
        }
    }

    /** A field's text, or the fallback where it is absent or null. */
    static String text(JsonNode in, String name, String fallback) {
        return in.hasNonNull(name) ? in.get(name).asText() : fallback;
    }
}
