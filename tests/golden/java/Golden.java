// Golden.java - writes golden vectors of every message and version from Kafka's own compiled classes.
//
//   java -cp "JARS/*" Golden.java OUT.gz JARS/kafka-clients-4.4.0.jar JARS/kafka-metadata-4.4.0.jar ...
//
// A line a vector: name, version, variant, bytes in hex, the same message as Kafka's JSON. What a version has is taken
// from the class's SCHEMAS; values come from a fixed seed, so that a second run writes the same file.

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.zip.GZIPOutputStream;

public final class Golden {
    enum Variant { DEFAULT, VARIED, NULL, EMPTY, LONG }

    private final Variant variant;
    private final Random random;
    private int depth;

    private Golden(Variant variant, long seed) {
        this.variant = variant;
        this.random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        TreeMap<String, Class<?>> classes = new TreeMap<>();
        for (int i = 1; i < args.length; i++) {
            find(args[i], classes);
        }
        ObjectMapper mapper = new ObjectMapper();
        mapper.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        int count = 0;
        try (PrintWriter out = new PrintWriter(new OutputStreamWriter(
                new GZIPOutputStream(new FileOutputStream(args[0])), StandardCharsets.US_ASCII))) {
            for (var entry : classes.entrySet()) {
                Class<?> c = entry.getValue();
                short low = c.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
                short high = c.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
                Schema[] schemas = (Schema[]) c.getField("SCHEMAS").get(null);
                for (short v = low; v <= high; v++) {
                    for (Variant variant : Variant.values()) {
                        Message m = (Message) c.getDeclaredConstructor().newInstance();
                        if (variant != Variant.DEFAULT) {
                            new Golden(variant, entry.getKey().hashCode() * 31L + v).fill(m, schemas[v]);
                        }
                        out.println(entry.getKey() + " " + v + " " + variant.name().toLowerCase() + " "
                            + hex(bytes(m, v)) + " " + mapper.writeValueAsString(json(m, v)));
                        count++;
                    }
                }
            }
        }
        System.out.println(classes.size() + " messages, " + count + " vectors");
    }

    /* Every generated message class of a jar, by the name that Kafka's definitions use. */
    private static void find(String jar, TreeMap<String, Class<?>> classes) throws Exception {
        try (JarFile file = new JarFile(jar)) {
            for (var e : (Iterable<java.util.jar.JarEntry>) file.stream()::iterator) {
                String path = e.getName();
                if (!path.endsWith("JsonConverter.class") || path.contains("$")) {
                    continue;
                }
                String name = path.replace("JsonConverter.class", "").replace('/', '.');
                Class<?> c = Class.forName(name);
                if (!Message.class.isAssignableFrom(c)) {
                    continue;
                }
                String simple = c.getSimpleName().replaceAll("(Request|Response|Header)Data$", "$1");
                if (classes.put(simple, c) != null) {
                    throw new IllegalStateException("two classes named " + simple);
                }
            }
        }
    }

    private static byte[] bytes(Message m, short v) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = m.size(cache, v);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        m.write(new ByteBufferAccessor(buffer), cache, v);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size is wrong: " + m);
        }
        return buffer.array();
    }

    private static JsonNode json(Message m, short v) throws Exception {
        Class<?> converter = Class.forName(m.getClass().getName() + "JsonConverter");
        Method write = converter.getMethod("write", m.getClass(), short.class, boolean.class);
        return (JsonNode) write.invoke(null, m, v, false);
    }

    private static String hex(byte[] b) {
        StringBuilder s = new StringBuilder("x");
        for (byte x : b) {
            s.append(Character.forDigit((x >> 4) & 15, 16)).append(Character.forDigit(x & 15, 16));
        }
        return s.toString();
    }

    /* Sets every field that the schema has. */
    private void fill(Object object, Schema schema) throws Exception {
        depth++;
        for (BoundField f : schema.fields()) {
            if (f.def.type instanceof TaggedFields) {
                for (var t : ((TaggedFields) f.def.type).fields().values()) {
                    set(object, t.name, t.type);
                }
            } else {
                set(object, f.def.name, f.def.type);
            }
        }
        depth--;
    }

    private void set(Object object, String name, Type type) throws Exception {
        Field f = field(object.getClass(), name);
        f.set(object, type.isNullable() && wantsNull() ? null : value(type, f.getType(), f.getGenericType()));
    }

    private boolean wantsNull() {
        return variant == Variant.NULL || variant == Variant.VARIED && depth > 1 && random.nextInt(4) == 0;
    }

    /* Schemas use snake case, classes camel case. */
    private static Field field(Class<?> c, String name) {
        String wanted = name.replace("_", "");
        for (Field f : c.getDeclaredFields()) {
            if (!Modifier.isStatic(f.getModifiers()) && f.getName().equalsIgnoreCase(wanted)) {
                f.setAccessible(true);
                return f;
            }
        }
        throw new IllegalStateException("no field " + name + " in " + c);
    }

    private Object value(Type type, Class<?> c, java.lang.reflect.Type generic) throws Exception {
        if (type.isArray()) {
            return array(type.arrayElementType().get(), c, generic);
        }
        if (type instanceof Schema) {
            Object o = c.getDeclaredConstructor().newInstance();
            fill(o, (Schema) type);
            return o;
        }
        boolean empty = variant == Variant.EMPTY;
        if (c == boolean.class || c == Boolean.class) {
            return !empty && random.nextBoolean();
        } else if (c == byte.class || c == Byte.class) {
            return (byte) integer(Byte.MIN_VALUE, Byte.MAX_VALUE);
        } else if (c == short.class || c == Short.class) {
            return (short) integer(Short.MIN_VALUE, Short.MAX_VALUE);
        } else if (type.toString().equals("UINT16")) {
            return (int) integer(0, 65535);
        } else if (c == int.class || c == Integer.class) {
            return (int) integer(Integer.MIN_VALUE, Integer.MAX_VALUE);
        } else if (type.toString().equals("UINT32")) {
            return integer(0, 4294967295L);
        } else if (c == long.class || c == Long.class) {
            return integer(Long.MIN_VALUE, Long.MAX_VALUE);
        } else if (c == double.class || c == Double.class) {
            return empty ? 0.0 : random.nextInt(2000) - 1000 + 0.25;
        } else if (c == String.class) {
            return text();
        } else if (c == Uuid.class) {
            return empty ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
        } else if (c == byte[].class) {
            return data();
        } else if (c == ByteBuffer.class) {
            return ByteBuffer.wrap(data());
        } else if (c.isAssignableFrom(MemoryRecords.class)) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(data()));
        }
        throw new IllegalStateException("no value for " + type + ", " + c);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object array(Type element, Class<?> c, java.lang.reflect.Type generic) throws Exception {
        Collection list = c == List.class ? new ArrayList<>() : (Collection) c.getDeclaredConstructor().newInstance();
        java.lang.reflect.Type inner = c == List.class ? generic : c.getGenericSuperclass();
        java.lang.reflect.Type of = ((ParameterizedType) inner).getActualTypeArguments()[0];
        Class<?> e = (Class<?>) (of instanceof ParameterizedType ? ((ParameterizedType) of).getRawType() : of);
        int count = switch (variant) {
            case EMPTY -> depth > 1 ? 0 : 1;
            case NULL -> 1;
            case LONG -> element instanceof Schema ? 1 : 129;
            default -> depth > 3 ? 1 : 2;
        };
        for (int i = 0; i < count; i++) {
            list.add(value(element, e, of));
        }
        return list;
    }

    /* Small numbers, the ends of the range and anything between. */
    private long integer(long min, long max) {
        if (variant == Variant.EMPTY) {
            return 0;
        }
        return switch (random.nextInt(6)) {
            case 0 -> min;
            case 1 -> max;
            case 2 -> min < 0 ? -1 - random.nextInt(100) : random.nextInt(100);
            case 3 -> random.nextInt(100);
            default -> min == Long.MIN_VALUE ? random.nextLong() : min + (random.nextLong() >>> 1) % (max - min + 1);
        };
    }

    private String text() {
        int length = switch (variant) {
            case EMPTY -> 0;
            case LONG -> 127 + random.nextInt(3);
            default -> 1 + random.nextInt(6);
        };
        if (variant == Variant.VARIED && random.nextInt(8) == 0) {
            return "caf\u00e9 \"\\\n\ud83d\ude80";
        }
        StringBuilder s = new StringBuilder();
        while (s.length() < length) {
            s.append((char) ('a' + random.nextInt(variant == Variant.LONG ? 2 : 26)));
        }
        return s.toString();
    }

    private byte[] data() {
        byte[] b = new byte[switch (variant) {
            case EMPTY -> 0;
            case LONG -> 127 + random.nextInt(3);
            default -> 1 + random.nextInt(6);
        }];
        random.nextBytes(b);
        return b;
    }
}
