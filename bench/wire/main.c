/* main.c - bench_wire: loads one Kafka-speaking broker on 127.0.0.1 and prints one line of JSON.
 *
 * Exit: 0 when no answer carried an error, 2 when one did, 1 on anything else (the broker closed a
 * connection, a frame of unknown form, wrong options). */
#include "load.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static const char USAGE[] =
    "bench_wire MODE --port P [options]\n"
    "modes\n"
    "  produce    the same batch again and again        fetch     read a cached log round and "
    "round\n"
    "  parked     publish until the parked fetch has it longpoll  fetches that wait in vain\n"
    "options (default)\n"
    "  --pid PID          the broker's process: its CPU and memory are measured\n"
    "  --connections N    (1)      --depth N        requests in flight on each (1)\n"
    "  --topics N         (1)      --partitions N   of each topic (1)\n"
    "  --batch BYTES      (1: one record a batch)   --record BYTES  value of a record (100)\n"
    "  --acks 1|-1        (1)      --rate R         open loop, requests a second (0: closed)\n"
    "  --seconds S        window (2)                --warm S        before it (0.5)\n"
    "  --bytes-max N      records' bytes written in all (0: no limit)\n"
    "  --fetch-bytes N    a fetch answer at most (1048576)\n"
    "  --load-bytes N     fetch: written first (268435456)\n"
    "  --wait-ms N        long polls (500)          --gap-us N      parked, before a publish "
    "(500)\n"
    "  --topic PREFIX     (bench-PID)               --spread        walk over all partitions\n"
    "  --keep             do not delete the topics  --use           they exist already\n";

enum option_id {
    OPT_PORT = 1,
    OPT_PID,
    OPT_CONNECTIONS,
    OPT_DEPTH,
    OPT_TOPICS,
    OPT_PARTITIONS,
    OPT_BATCH,
    OPT_RECORD,
    OPT_ACKS,
    OPT_RATE,
    OPT_SECONDS,
    OPT_WARM,
    OPT_BYTES_MAX,
    OPT_FETCH_BYTES,
    OPT_LOAD_BYTES,
    OPT_WAIT_MS,
    OPT_GAP_US,
    OPT_TOPIC,
    OPT_SPREAD,
    OPT_KEEP,
    OPT_USE,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"port", required_argument, NULL, OPT_PORT},
    {"pid", required_argument, NULL, OPT_PID},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"topics", required_argument, NULL, OPT_TOPICS},
    {"partitions", required_argument, NULL, OPT_PARTITIONS},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"record", required_argument, NULL, OPT_RECORD},
    {"acks", required_argument, NULL, OPT_ACKS},
    {"rate", required_argument, NULL, OPT_RATE},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"warm", required_argument, NULL, OPT_WARM},
    {"bytes-max", required_argument, NULL, OPT_BYTES_MAX},
    {"fetch-bytes", required_argument, NULL, OPT_FETCH_BYTES},
    {"load-bytes", required_argument, NULL, OPT_LOAD_BYTES},
    {"wait-ms", required_argument, NULL, OPT_WAIT_MS},
    {"gap-us", required_argument, NULL, OPT_GAP_US},
    {"topic", required_argument, NULL, OPT_TOPIC},
    {"spread", no_argument, NULL, OPT_SPREAD},
    {"keep", no_argument, NULL, OPT_KEEP},
    {"use", no_argument, NULL, OPT_USE},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static const struct mode *const MODES[] = {
    &mode_produce,
    &mode_fetch,
    &mode_parked,
    &mode_longpoll,
};

static double number(const char *name, const char *text, double least, double most)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most)) {
        die("--%s %s: expected a number from %.0f to %.0f", name, text, least, most);
    }
    return value;
}

static uint32_t whole(const char *name, const char *text, uint32_t least, uint32_t most)
{
    return (uint32_t)number(name, text, least, most);
}

static void parse_count(struct options *o, int id, const char *name)
{
    switch (id) {
    case OPT_CONNECTIONS:
        o->connections = whole(name, optarg, 1, CONNECTIONS_MAX);
        break;
    case OPT_DEPTH:
        o->depth = whole(name, optarg, 1, CONN_DEPTH_MAX);
        break;
    case OPT_TOPICS:
        o->topics = whole(name, optarg, 1, TARGETS_MAX);
        break;
    case OPT_PARTITIONS:
        o->partitions = whole(name, optarg, 1, TARGETS_MAX);
        break;
    case OPT_BATCH:
        o->batch_bytes = whole(name, optarg, 1, 64 * 1024 * 1024);
        break;
    case OPT_RECORD:
        o->record_bytes = whole(name, optarg, 0, 16 * 1024 * 1024);
        break;
    case OPT_FETCH_BYTES:
        o->fetch_bytes = whole(name, optarg, 1, 64 * 1024 * 1024);
        break;
    case OPT_WAIT_MS:
        o->wait_ms = whole(name, optarg, 1, 600000);
        break;
    case OPT_GAP_US:
        o->gap_us = whole(name, optarg, 0, 60000000);
        break;
    default:
        die("an option nobody handles: %s", name);
    }
}

static void parse_one(struct options *o, int id, const char *name)
{
    switch (id) {
    case OPT_PORT:
        o->port = (uint16_t)whole(name, optarg, 1, 65535);
        break;
    case OPT_PID:
        o->broker_pid = (int)whole(name, optarg, 1, 1U << 30);
        break;
    case OPT_ACKS:
        o->acks = (int16_t)number(name, optarg, -1, 1);
        break;
    case OPT_RATE:
        o->rate = number(name, optarg, 0, 1e7);
        break;
    case OPT_SECONDS:
        o->seconds = number(name, optarg, 0, 86400);
        break;
    case OPT_WARM:
        o->warm_seconds = number(name, optarg, 0, 86400);
        break;
    case OPT_BYTES_MAX:
        o->bytes_max = (uint64_t)number(name, optarg, 0, 1e13);
        break;
    case OPT_LOAD_BYTES:
        o->load_bytes = (uint64_t)number(name, optarg, 1, 1e11);
        break;
    case OPT_TOPIC:
        o->topic = optarg;
        break;
    case OPT_SPREAD:
        o->spread = true;
        break;
    case OPT_KEEP:
        o->keep_topics = true;
        break;
    case OPT_USE:
        o->use_topics = true;
        break;
    default:
        parse_count(o, id, name);
        break;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    for (;;) {
        int index = 0;
        int id = getopt_long(argc, argv, "", OPTIONS, &index);
        if (id == -1) { break; }
        if (id == '?') { exit(1); }
        if (id == OPT_HELP) {
            fputs(USAGE, stdout);
            exit(0);
        }
        parse_one(o, id, OPTIONS[index].name);
    }
    if (optind + 1 != argc || o->port == 0) {
        fputs(USAGE, stderr);
        exit(1);
    }
    o->mode = argv[optind];
    if (o->acks == 0) { die("--acks 0 has no answers to measure"); }
    if (strlen(o->topic) > TOPIC_NAME_MAX - 12) { die("--topic is too long"); }
    if ((uint64_t)o->topics * o->partitions > TARGETS_MAX) {
        die("more than %d partitions", TARGETS_MAX);
    }
}

static void allow_files(uint32_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) { die("getrlimit: %s", strerror(errno)); }
    if (limit.rlim_cur >= count) { return; }
    limit.rlim_cur = count;
    if (limit.rlim_max < count) { limit.rlim_max = count; }
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        die("%u open files are not allowed: %s", count, strerror(errno));
    }
}

static double micros(const struct load *l, double share)
{
    return (double)hist_quantile(&l->hist, share) / 1e3;
}

static void print_usage(const struct load *l, double seconds)
{
    double broker_s = (double)(l->after.broker_cpu_ns - l->before.broker_cpu_ns) / 1e9;
    double self_s = (double)(l->after.self_cpu_ns - l->before.self_cpu_ns) / 1e9;
    double busy_s = (double)(l->after.busy_ns - l->before.busy_ns) / 1e9;
    double steal_s = (double)(l->after.steal_ns - l->before.steal_ns) / 1e9;
    double foreign_s = busy_s - broker_s - self_s;
    double all_s = seconds * (double)sysconf(_SC_NPROCESSORS_ONLN);
    /* Ticks of 10 ms against exact clocks: a little below zero means none. */
    if (foreign_s < 0 || l->options->broker_pid == 0) { foreign_s = 0; }
    printf(", \"broker_cpu_s\": %.4f, \"broker_cores\": %.3f, \"self_cpu_s\": %.4f"
           ", \"foreign_share\": %.4f, \"steal_share\": %.4f",
           broker_s, broker_s / seconds, self_s, foreign_s / all_s, steal_s / all_s);
    printf(", \"cpu_us_each\": %.3f, \"cpu_s_per_gb\": %.4f",
           l->requests ? broker_s * 1e6 / (double)l->requests : 0.0,
           l->bytes ? broker_s * 1e9 / (double)l->bytes : 0.0);
    printf(", \"rss_kib\": %lld, \"rss_max_kib\": %lld", (long long)l->after.broker_rss_kib,
           (long long)l->after.broker_rss_max_kib);
}

static void print_result(const struct load *l)
{
    const struct options *o = l->options;
    double seconds = (double)(l->after.at_ns - l->before.at_ns) / 1e9;
    printf("{\"mode\": \"%s\", \"connections\": %u, \"depth\": %u, \"acks\": %d", o->mode,
           o->connections, o->depth, o->acks);
    printf(", \"partitions\": %u, \"batch_bytes\": %u, \"batch_records\": %u, \"rate\": %.0f",
           o->topics * o->partitions, l->batch.size, l->batch.records, o->rate);
    printf(", \"seconds\": %.3f, \"requests\": %llu, \"req_s\": %.1f, \"mb_s\": %.2f"
           ", \"records_s\": %.0f",
           seconds, (unsigned long long)l->requests, (double)l->requests / seconds,
           (double)l->bytes / 1e6 / seconds, (double)l->records / seconds);
    printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f",
           micros(l, 0.5), micros(l, 0.99), micros(l, 0.999), (double)l->hist.max / 1e3);
    printf(", \"errors\": %llu, \"first_error\": %d", (unsigned long long)l->errors,
           l->first_error);
    print_usage(l, seconds);
    if (l->mode->report) { l->mode->report(l); }
    puts("}");
}

int main(int argc, char **argv)
{
    char topic[32];
    snprintf(topic, sizeof topic, "bench-%d", (int)getpid());
    struct options o = {
        .topic = topic,
        .acks = 1,
        .connections = 1,
        .depth = 1,
        .topics = 1,
        .partitions = 1,
        .batch_bytes = 1,
        .record_bytes = 100,
        .fetch_bytes = 1024 * 1024,
        .wait_ms = 500,
        .gap_us = 500,
        .load_bytes = 256 * 1024 * 1024,
        .seconds = 2,
        .warm_seconds = 0.5,
    };
    parse(argc, argv, &o);
    struct load *l = calloc(1, sizeof *l);
    if (!l) { die("no memory"); }
    l->options = &o;
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        if (strcmp(MODES[i]->name, o.mode) == 0) { l->mode = MODES[i]; }
    }
    if (!l->mode) { die("there is no mode %s; see --help", o.mode); }
    allow_files(o.connections + 64);
    (void)prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; 50 us by default would blur the open loop */
    load_create_topics(l);
    load_run(l);
    print_result(l);
    fflush(stdout);
    load_close(l);
    if (!o.keep_topics) { load_delete_topics(l); }
    int status = l->errors > 0 ? 2 : 0;
    close(l->admin_fd);
    free(l->batch.at);
    free(l->ends);
    free(l->targets);
    free(l);
    return status;
}
