/* Clients.java - commands that produce and consume with kafka-clients.
 *
 * Contents are text in UTF-8; null keys and values stay null. Consumers assign partitions themselves:
 * no group is involved. */
package barnabas.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

final class Clients {
    private Clients() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        commands.put("produce", Clients::produce);
        commands.put("consume", Clients::consume);
        commands.put("offsets", Clients::offsets);
    }

    /** bootstrap and, under "props", whatever the test sets beside it. */
    static Properties properties(JsonNode in) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", in.get("bootstrap").asText());
        if (in.has("props")) {
            in.get("props").fields().forEachRemaining(
                entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        }
        return properties;
    }

    private static String textOrNull(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    /** Sends "records" ({key, value, partition, timestamp, headers}); answers where they are. */
    private static void produce(JsonNode in, ObjectNode out) throws Exception {
        String topic = in.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                 properties(in), new StringSerializer(), new StringSerializer())) {
            for (JsonNode record : in.get("records")) {
                Integer partition =
                    record.hasNonNull("partition") ? record.get("partition").asInt() : null;
                Long timestamp =
                    record.hasNonNull("timestamp") ? record.get("timestamp").asLong() : null;
                ProducerRecord<String, String> item = new ProducerRecord<>(
                    topic, partition, timestamp, textOrNull(record.get("key")),
                    textOrNull(record.get("value")));
                if (record.has("headers")) {
                    for (JsonNode header : record.get("headers")) {
                        String value = textOrNull(header.get(1));
                        item.headers().add(header.get(0).asText(),
                                           value == null ? null : value.getBytes("UTF-8"));
                    }
                }
                sent.add(producer.send(item));
            }
            producer.flush();
            ArrayNode offsets = out.putArray("offsets");
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                offsets.addArray().add(metadata.partition()).add(metadata.offset());
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(JsonNode in) {
        Properties properties = properties(in);
        properties.putIfAbsent("enable.auto.commit", "false");
        properties.putIfAbsent("auto.offset.reset", "none");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static List<TopicPartition> partitions(JsonNode in) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : in.get("partitions")) {
            partitions.add(new TopicPartition(in.get("topic").asText(), partition.asInt()));
        }
        return partitions;
    }

    /** Reads "count" records of "partitions" from "from": "beginning", "end" or an offset. */
    private static void consume(JsonNode in, ObjectNode out) {
        int count = in.get("count").asInt();
        long end = System.currentTimeMillis() + in.path("limit_ms").asLong(30000);
        ArrayNode records = out.putArray("records");
        try (KafkaConsumer<String, String> consumer = consumer(in)) {
            List<TopicPartition> partitions = partitions(in);
            consumer.assign(partitions);
            String from = in.get("from").asText();
            if (from.equals("beginning")) {
                consumer.seekToBeginning(partitions);
            } else if (from.equals("end")) {
                consumer.seekToEnd(partitions);
            } else {
                for (TopicPartition partition : partitions) {
                    consumer.seek(partition, Long.parseLong(from));
                }
            }
            while (records.size() < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record :
                     consumer.poll(Duration.ofMillis(200))) {
                    add(records, record);
                }
            }
            ObjectNode positions = out.putObject("positions");
            for (TopicPartition partition : partitions) {
                positions.put(String.valueOf(partition.partition()), consumer.position(partition));
            }
        }
    }

    private static void add(ArrayNode records, ConsumerRecord<String, String> record) {
        ObjectNode item = records.addObject();
        item.put("partition", record.partition());
        item.put("offset", record.offset());
        item.put("timestamp", record.timestamp());
        item.put("key", record.key());
        item.put("value", record.value());
        ArrayNode headers = item.putArray("headers");
        for (Header header : record.headers()) {
            byte[] value = header.value();
            headers.addArray().add(header.key()).add(value == null ? null : new String(value));
        }
    }

    /** Beginning and end offsets, and for each of "times" the first offset at or after it. */
    private static void offsets(JsonNode in, ObjectNode out) {
        try (KafkaConsumer<String, String> consumer = consumer(in)) {
            List<TopicPartition> partitions = partitions(in);
            put(out.putObject("beginning"), consumer.beginningOffsets(partitions));
            put(out.putObject("end"), consumer.endOffsets(partitions));
            ArrayNode answers = out.putArray("times");
            for (JsonNode time : in.path("times")) {
                Map<TopicPartition, Long> wanted = new HashMap<>();
                partitions.forEach(partition -> wanted.put(partition, time.asLong()));
                ObjectNode answer = answers.addObject();
                for (Map.Entry<TopicPartition, OffsetAndTimestamp> entry :
                     consumer.offsetsForTimes(wanted).entrySet()) {
                    String name = String.valueOf(entry.getKey().partition());
                    OffsetAndTimestamp found = entry.getValue();
                    if (found == null) {
                        answer.putNull(name);
                    } else {
                        answer.putArray(name).add(found.offset()).add(found.timestamp());
                    }
                }
            }
        }
    }

    private static void put(ObjectNode out, Map<TopicPartition, Long> offsets) {
        offsets.forEach((key, value) -> out.put(String.valueOf(key.partition()), value));
    }
}
