package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// expect reports a difference between what was found and what should be.
func expect[T comparable](what string, found, wanted T) error {
	if found != wanted {
		return fmt.Errorf("%s: found %v, not %v", what, found, wanted)
	}
	return nil
}

// admin drives kadm: a topic from its creation to its deletion.
func admin(ctx context.Context, bootstrap, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	hour := "3600000"
	if _, err = adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &hour}, topic); err != nil {
		return err
	}
	_, err = adm.CreateTopic(ctx, 2, 1, nil, topic)
	return errors.Join(
		expect("creating it twice", errors.Is(err, kerr.TopicAlreadyExists), true),
		partitionsOf(ctx, adm, topic),
		configsOf(ctx, adm, topic),
		offsetsOf(ctx, client, adm, topic),
		deletionOf(ctx, adm, topic))
}

func partitionsOf(ctx context.Context, adm *kadm.Client, topic string) error {
	if _, err := adm.UpdatePartitions(ctx, 5, topic); err != nil {
		return err
	}
	found, err := adm.ListTopics(ctx, topic)
	for err == nil && ctx.Err() == nil && len(found[topic].Partitions) < 5 { // a broker may learn it late
		time.Sleep(20 * time.Millisecond)
		found, err = adm.ListTopics(ctx, topic)
	}
	if err != nil {
		return err
	}
	brokers, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	return errors.Join(found[topic].Err,
		expect("partitions", len(found[topic].Partitions), 5),
		expect("brokers", len(brokers.Brokers), 1),
		expect("leader", found[topic].Partitions[4].Leader, brokers.Brokers[0].NodeID))
}

func configsOf(ctx context.Context, adm *kadm.Client, topic string) error {
	value := "700000"
	answers, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "segment.ms", Value: &value},
		{Op: kadm.DeleteConfig, Name: "retention.ms"}}, topic)
	if err != nil {
		return err
	}
	if err = answers[0].Err; err != nil {
		return err
	}
	found, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for _, config := range found[0].Configs {
		values[config.Key] = config.MaybeValue()
	}
	return errors.Join(found[0].Err, expect("segment.ms", values["segment.ms"], "700000"),
		expect("retention.ms", values["retention.ms"], "604800000"))
}

func offsetsOf(ctx context.Context, client *kgo.Client, adm *kadm.Client, topic string) error {
	for n := range int64(20) {
		record := &kgo.Record{Value: value(int(n)), Partition: 3,
			Timestamp: time.UnixMilli(1700000000000 + 1000*n)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	cut := kadm.Offsets{}
	cut.AddOffset(topic, 3, 7, -1)
	answers, err := adm.DeleteRecords(ctx, cut)
	if err != nil {
		return err
	}
	cutTo, _ := answers.Lookup(topic, 3)
	starts, err1 := adm.ListStartOffsets(ctx, topic)
	ends, err2 := adm.ListEndOffsets(ctx, topic)
	after, err3 := adm.ListOffsetsAfterMilli(ctx, 1700000008500, topic)
	latest, err4 := adm.ListMaxTimestampOffsets(ctx, topic)
	if err = errors.Join(cutTo.Err, err1, err2, err3, err4); err != nil {
		return err
	}
	at := func(listed kadm.ListedOffsets) int64 {
		found, _ := listed.Lookup(topic, 3)
		return found.Offset
	}
	return errors.Join(expect("low watermark", cutTo.LowWatermark, 7),
		expect("start", at(starts), 7), expect("end", at(ends), 20),
		expect("by time", at(after), 9), expect("highest time", at(latest), 19))
}

func deletionOf(ctx context.Context, adm *kadm.Client, topic string) error {
	if _, err := adm.DeleteTopic(ctx, topic); err != nil {
		return err
	}
	_, err := adm.DeleteTopic(ctx, topic)
	return expect("deleting it twice", errors.Is(err, kerr.UnknownTopicOrPartition), true)
}
