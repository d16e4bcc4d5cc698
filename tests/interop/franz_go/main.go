// Command franz_go writes and reads one topic with franz-go and compares: every codec, keys,
// headers, null values, an idempotent producer, a consumer that assigns its partitions itself.
//
//	franz_go BOOTSTRAP TOPIC-PREFIX
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const count = 2000

func value(n int) []byte {
	if n%11 == 10 {
		return nil
	}
	return []byte(fmt.Sprintf("%d:%s", n, strings.Repeat("abcdefgh", n%200)))
}

func create(ctx context.Context, client *kgo.Client, topic string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 20000
	item := kmsg.NewCreateTopicsRequestTopic()
	item.Topic, item.NumPartitions, item.ReplicationFactor = topic, 1, 1
	request.Topics = append(request.Topics, item)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if code := answer.Topics[0].ErrorCode; code != 0 {
		return fmt.Errorf("create: error %d", code)
	}
	return nil
}

func write(ctx context.Context, bootstrap, topic string, codec kgo.CompressionCodec) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := create(ctx, client, topic); err != nil {
		return err
	}
	records := make([]*kgo.Record, count)
	for n := range records {
		records[n] = &kgo.Record{Key: []byte(fmt.Sprint(n)), Value: value(n),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(fmt.Sprint(n))}}}
	}
	for n, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return result.Err
		}
		if result.Record.Offset != int64(n) {
			return fmt.Errorf("record %d has offset %d", n, result.Record.Offset)
		}
	}
	return nil
}

func read(ctx context.Context, bootstrap, topic string, from int64) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	if err != nil {
		return err
	}
	defer client.Close()
	for next := from; next < count; {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		for _, record := range fetches.Records() {
			n := int(next)
			same := record.Offset == next && string(record.Key) == fmt.Sprint(n) &&
				string(record.Value) == string(value(n)) &&
				(record.Value == nil) == (value(n) == nil) &&
				len(record.Headers) == 1 && string(record.Headers[0].Value) == fmt.Sprint(n)
			if !same {
				return fmt.Errorf("offset %d is not what was written: %v", next, record)
			}
			next++
		}
	}
	return nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(),
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		topic := os.Args[2] + "-" + name
		err := write(ctx, os.Args[1], topic, codec)
		for _, from := range []int64{0, 777} {
			if err == nil {
				err = read(ctx, os.Args[1], topic, from)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		fmt.Println(name, count)
	}
}
