// Command franz_go writes, reads and administers topics with franz-go and compares: every codec,
// keys, headers, null values, an idempotent producer, a consumer that assigns its partitions itself.
//
//	franz_go BOOTSTRAP TOPIC-PREFIX none|gzip|snappy|lz4|zstd|partitions|admin
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 2000

func value(n int) []byte {
	if n%11 == 10 {
		return nil
	}
	return []byte(fmt.Sprintf("%d:%s", n, strings.Repeat("abcdefgh", n%200)))
}

// record is what offset n / partitions of partition n % partitions holds.
func record(n, partitions int) *kgo.Record {
	return &kgo.Record{Key: []byte(fmt.Sprint(n)), Value: value(n), Partition: int32(n % partitions),
		Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(fmt.Sprint(n))}}}
}

// write creates the topic and sends records 0 to count-1, round robin, with an idempotent producer.
func write(ctx context.Context, bootstrap, topic string, partitions int, codec kgo.CompressionCodec) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), 1, nil, topic); err != nil {
		return err
	}
	records := make([]*kgo.Record, count)
	for n := range records {
		records[n] = record(n, partitions)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	for n, found := range records {
		if found.Offset != int64(n/partitions) {
			return fmt.Errorf("record %d has offset %d", n, found.Offset)
		}
	}
	return nil
}

// read expects what write wrote, in each partition from an offset on.
func read(ctx context.Context, bootstrap, topic string, partitions int, from int64) error {
	starts := map[int32]kgo.Offset{}
	next := make([]int64, partitions)
	for part := range next {
		starts[int32(part)] = kgo.NewOffset().At(from)
		next[part] = from
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		return err
	}
	defer client.Close()
	for left := count - int(from)*partitions; left > 0; {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		for _, found := range fetches.Records() {
			wanted := record(int(next[found.Partition])*partitions+int(found.Partition), partitions)
			same := found.Offset == next[found.Partition] && string(found.Key) == string(wanted.Key) &&
				string(found.Value) == string(wanted.Value) &&
				(found.Value == nil) == (wanted.Value == nil) &&
				len(found.Headers) == 1 && string(found.Headers[0].Value) == string(wanted.Key)
			if !same {
				return fmt.Errorf("partition %d: offset %d is not what was written: %v",
					found.Partition, next[found.Partition], found)
			}
			next[found.Partition]++
			left--
		}
	}
	return nil
}

func run(ctx context.Context, bootstrap, prefix, what string) error {
	topic := prefix + "-" + what
	codec, partitions, from := kgo.NoCompression(), 1, int64(777)
	switch what {
	case "admin":
		return admin(ctx, bootstrap, topic)
	case "partitions":
		codec, partitions, from = kgo.ZstdCompression(), 20, 33
	case "gzip":
		codec = kgo.GzipCompression()
	case "snappy":
		codec = kgo.SnappyCompression()
	case "lz4":
		codec = kgo.Lz4Compression()
	case "zstd":
		codec = kgo.ZstdCompression()
	case "none":
	default:
		return fmt.Errorf("unknown")
	}
	if err := write(ctx, bootstrap, topic, partitions, codec); err != nil {
		return err
	}
	if err := read(ctx, bootstrap, topic, partitions, 0); err != nil {
		return err
	}
	return read(ctx, bootstrap, topic, partitions, from)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: franz_go BOOTSTRAP TOPIC-PREFIX WHAT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[3]+":", err)
		os.Exit(1)
	}
}
