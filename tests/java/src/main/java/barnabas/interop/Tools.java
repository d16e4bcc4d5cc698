/* Tools.java - runs Kafka's own command-line tools inside this JVM.
 *
 * Their calls of exit are caught through Kafka's own hook; what they print is the answer. */
package barnabas.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.internals.Exit;

final class Tools {
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private Tools() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("tool", Tools::tool);
    }

    private static void tool(JsonNode in, ObjectNode out) throws Exception {
        List<String> args = new ArrayList<>();
        in.get("args").forEach(arg -> args.add(arg.asText()));
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream print = new PrintStream(text, true, StandardCharsets.UTF_8);
        // A tool may catch what stops it and call exit again: its first word counts.
        AtomicReference<Integer> code = new AtomicReference<>();
        AtomicReference<String> said = new AtomicReference<>();
        Exit.Procedure leave = (status, message) -> {
            if (message != null) {
                print.println(message);
            }
            if (code.compareAndSet(null, status)) {
                said.set(text.toString(StandardCharsets.UTF_8));
            }
            throw new Exited();
        };
        PrintStream outBefore = System.out;
        PrintStream errBefore = System.err;
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        System.setOut(print);
        System.setErr(print);
        try {
            Class.forName(in.get("class").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
            code.compareAndSet(null, 0);
        } catch (InvocationTargetException error) {
            if (code.compareAndSet(null, 1)) {
                error.getCause().printStackTrace(print);
            }
        } finally {
            System.setOut(outBefore);
            System.setErr(errBefore);
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
        }
        out.put("exit", code.get());
        out.put("output",
                said.get() != null ? said.get() : text.toString(StandardCharsets.UTF_8));
    }
}
