/* AdminCommands.java - commands that call Kafka's Admin client.
 *
 * Each opens its own client, so that one command's connections do not help the next. */
package barnabas.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

final class AdminCommands {
    /** What one command does with its client. */
    private interface Work {
        void run(Admin admin, JsonNode in, ObjectNode out) throws Exception;
    }

    private AdminCommands() {
    }

    static void addTo(Map<String, Driver.Command> commands) {
        add(commands, "create_topic", AdminCommands::createTopic);
        add(commands, "delete_topics", AdminCommands::deleteTopics);
        add(commands, "list_topics", AdminCommands::listTopics);
        add(commands, "describe_topic", AdminCommands::describeTopic);
        add(commands, "create_partitions", AdminCommands::createPartitions);
        add(commands, "describe_configs", AdminCommands::describeConfigs);
        add(commands, "alter_configs", AdminCommands::alterConfigs);
        add(commands, "delete_records", AdminCommands::deleteRecords);
        add(commands, "describe_cluster", AdminCommands::describeCluster);
        add(commands, "list_offsets", AdminCommands::listOffsets);
    }

    private static void add(Map<String, Driver.Command> commands, String name, Work work) {
        commands.put(name, (in, out) -> {
            try (Admin admin = Admin.create(Clients.properties(in))) {
                work.run(admin, in, out);
            }
        });
    }

    private static void createTopic(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        String name = in.get("topic").asText();
        NewTopic topic;
        if (in.has("assignment")) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            for (JsonNode replicas : in.get("assignment")) {
                List<Integer> nodes = new ArrayList<>();
                replicas.forEach(node -> nodes.add(node.asInt()));
                assignment.put(assignment.size(), nodes);
            }
            topic = new NewTopic(name, assignment);
        } else {
            topic = new NewTopic(name, in.path("partitions").asInt(1), (short) 1);
        }
        if (in.has("configs")) {
            Map<String, String> configs = new HashMap<>();
            in.get("configs").fields().forEachRemaining(
                entry -> configs.put(entry.getKey(), entry.getValue().asText()));
            topic.configs(configs);
        }
        CreateTopicsResult result = admin.createTopics(
            List.of(topic),
            new CreateTopicsOptions().validateOnly(in.path("validate_only").asBoolean(false)));
        out.put("partitions", result.numPartitions(name).get());
        out.put("replication", result.replicationFactor(name).get());
        ObjectNode configs = out.putObject("configs");
        result.config(name).get().entries().forEach(
            entry -> configs.put(entry.name(), entry.value()));
        result.all().get();
    }

    private static void deleteTopics(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        List<String> names = new ArrayList<>();
        in.get("topics").forEach(name -> names.add(name.asText()));
        admin.deleteTopics(names).all().get();
    }

    private static void listTopics(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        ObjectNode topics = out.putObject("topics");
        admin.listTopics().listings().get().forEach(
            listing -> topics.put(listing.name(), listing.topicId().toString()));
    }

    private static void describeTopic(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        String name = in.get("topic").asText();
        TopicDescription description =
            admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        out.put("id", description.topicId().toString());
        out.put("internal", description.isInternal());
        ArrayNode partitions = out.putArray("partitions");
        for (TopicPartitionInfo info : description.partitions()) {
            ObjectNode item = partitions.addObject();
            item.put("partition", info.partition());
            item.put("leader", info.leader() == null ? -1 : info.leader().id());
            item.put("port", info.leader() == null ? -1 : info.leader().port());
            ArrayNode replicas = item.putArray("replicas");
            info.replicas().forEach(node -> replicas.add(node.id()));
            ArrayNode isr = item.putArray("isr");
            info.isr().forEach(node -> isr.add(node.id()));
        }
    }

    private static void createPartitions(Admin admin, JsonNode in, ObjectNode out)
        throws Exception {
        admin.createPartitions(
            Map.of(in.get("topic").asText(), NewPartitions.increaseTo(in.get("count").asInt())),
            new CreatePartitionsOptions().validateOnly(in.path("validate_only").asBoolean(false)))
            .all().get();
    }

    private static ConfigResource resource(JsonNode in) {
        if (in.has("topic")) {
            return new ConfigResource(ConfigResource.Type.TOPIC, in.get("topic").asText());
        }
        return new ConfigResource(ConfigResource.Type.BROKER, in.get("broker").asText());
    }

    private static void describeConfigs(Admin admin, JsonNode in, ObjectNode out)
        throws Exception {
        ConfigResource resource = resource(in);
        ObjectNode configs = out.putObject("configs");
        for (ConfigEntry entry :
             admin.describeConfigs(List.of(resource),
                                   new DescribeConfigsOptions().includeSynonyms(true)
                                       .includeDocumentation(true))
                 .all().get().get(resource).entries()) {
            ObjectNode item = configs.putObject(entry.name());
            item.put("value", entry.value());
            item.put("source", entry.source().toString());
            item.put("type", entry.type().toString());
            item.put("sensitive", entry.isSensitive());
            item.put("read_only", entry.isReadOnly());
            ArrayNode synonyms = item.putArray("synonyms");
            entry.synonyms().forEach(synonym -> synonyms.addArray()
                                                    .add(synonym.name())
                                                    .add(synonym.value())
                                                    .add(synonym.source().toString()));
        }
    }

    /** "ops": [[key, value, SET | DELETE | APPEND | SUBTRACT]] */
    private static void alterConfigs(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        for (JsonNode op : in.get("ops")) {
            ops.add(new AlterConfigOp(
                new ConfigEntry(op.get(0).asText(),
                                op.get(1).isNull() ? null : op.get(1).asText()),
                AlterConfigOp.OpType.valueOf(op.get(2).asText())));
        }
        admin.incrementalAlterConfigs(Map.of(resource(in), ops)).all().get();
    }

    private static void deleteRecords(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        TopicPartition partition =
            new TopicPartition(in.get("topic").asText(), in.path("partition").asInt(0));
        out.put("low_watermark",
                admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(
                                                          in.get("before").asLong())))
                    .lowWatermarks().get(partition).get().lowWatermark());
    }

    private static void describeCluster(Admin admin, JsonNode in, ObjectNode out)
        throws Exception {
        DescribeClusterResult result = admin.describeCluster();
        out.put("cluster", result.clusterId().get());
        out.put("controller", result.controller().get().id());
        ArrayNode nodes = out.putArray("nodes");
        for (Node node : result.nodes().get()) {
            nodes.addArray().add(node.id()).add(node.host()).add(node.port());
        }
    }

    private static OffsetSpec spec(String name) {
        switch (name) {
        case "earliest":
            return OffsetSpec.earliest();
        case "latest":
            return OffsetSpec.latest();
        case "max_timestamp":
            return OffsetSpec.maxTimestamp();
        default:
            return OffsetSpec.forTimestamp(Long.parseLong(name));
        }
    }

    /** "specs": earliest, latest, max_timestamp or a time; answers [offset, timestamp] each. */
    private static void listOffsets(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        TopicPartition partition =
            new TopicPartition(in.get("topic").asText(), in.path("partition").asInt(0));
        Map<String, KafkaFuture<ListOffsetsResultInfo>> results = new TreeMap<>();
        for (JsonNode name : in.get("specs")) {
            results.put(name.asText(), admin.listOffsets(Map.of(partition, spec(name.asText())))
                                           .partitionResult(partition));
        }
        ObjectNode offsets = out.putObject("offsets");
        for (Map.Entry<String, KafkaFuture<ListOffsetsResultInfo>> entry : results.entrySet()) {
            ListOffsetsResultInfo info = entry.getValue().get();
            offsets.putArray(entry.getKey()).add(info.offset()).add(info.timestamp());
        }
    }
}
