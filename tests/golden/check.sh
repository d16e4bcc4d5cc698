#!/bin/sh
# check.sh [--write] - our definitions and golden vectors against Kafka's own jars. Needs Java 17 and, once, the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
jars=$("$root/tools/peer/fetch.sh")
python3 "$root/tools/check_protocol.py" "$jars"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each kind of difference is really found: one planted at a time.
planted() { # file, sed expression
    rm -rf "$work/protocol"
    cp -r "$root/protocol" "$work/protocol"
    sed -i "$2" "$work/protocol/$1"
    if cmp -s "$root/protocol/$1" "$work/protocol/$1"; then
        echo "check.sh: nothing planted by $2" >&2
        exit 1
    fi
    if python3 "$root/tools/check_protocol.py" --protocol "$work/protocol" "$jars" >/dev/null; then
        echo "check.sh: not found in $1: $2" >&2
        exit 1
    fi
}
planted api/fetch_request.msg 's/MaxWaitMs i32/MaxWaitMs i64/'
planted api/fetch_request.msg 's/RackId str 11+/RackId str 10+/'
planted api/fetch_request.msg 's/12+ null tag 0/12+ tag 0/'
planted api/fetch_request.msg 's/tag 1 default 9223372036854775807/tag 2 default 9223372036854775807/'
planted api/fetch_request.msg 's/SessionEpoch i32 7+ default -1/SessionEpoch i32 7+/'
planted api/fetch_request.msg 's/flexible 12+/flexible 13+/'
planted api/fetch_request.msg 's/FetchRequest 4-18/FetchRequest 4-17/'
planted api/fetch_request.msg 's/MinBytes/LeastBytes/'
planted kraft/topic_record.msg '$d'
java -cp "$jars/*" "$here/java/Golden.java" "$work/vectors.txt.gz" \
    "$jars/kafka-clients-4.4.0.jar" "$jars/kafka-metadata-4.4.0.jar" "$jars/kafka-group-coordinator-4.4.0.jar" \
    "$jars/kafka-transaction-coordinator-4.4.0.jar" "$jars/kafka-share-coordinator-4.4.0.jar" \
    "$jars/kafka-storage-4.4.0.jar"
if [ "${1:-}" = --write ]; then
    cp "$work/vectors.txt.gz" "$here/vectors.txt.gz"
    exit 0
fi
gzip -dc "$work/vectors.txt.gz" >"$work/new"
gzip -dc "$here/vectors.txt.gz" >"$work/old"
cmp "$work/old" "$work/new"
echo "vectors are what Kafka writes"
