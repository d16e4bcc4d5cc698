#!/bin/sh
# check.sh BUILD_DIR - what we write, read by Kafka's own classes: batches of every codec, a producer
# snapshot, an epoch file. Needs Java and the jars of tools/peer.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jars=$("$here/../../../tools/peer/fetch.sh")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$1/golden_wire_records" --write "$out"
"$1/golden_log_state" --write "$out"
java -cp "$jars/*" "$here/Records.java" check "$out"
