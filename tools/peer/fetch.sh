#!/bin/sh
# fetch.sh [DIR] - copies the jars of Apache Kafka 4.4.0 into DIR and prints DIR.
#
# Default: ${BARNABAS_CACHE:-$HOME/.cache/barnabas}/kafka-4.4.0. Runs once: a stamp file that holds
# the checksum of pom.xml says the folder is complete. Safe when two callers run it at a time (a
# lock beside the folder). Needs Maven and Java 17; installs them with apt where they are missing
# and we are root or have sudo.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-${BARNABAS_CACHE:-$HOME/.cache/barnabas}/kafka-4.4.0}
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9

want=$(sha256sum <"$here/pom.xml" | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null || true)" = "$want" ]; then
    echo "$dir"
    exit 0
fi

if ! command -v mvn >/dev/null 2>&1 || ! command -v java >/dev/null 2>&1; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
        openjdk-17-jdk-headless maven >&2
fi

# Built beside the folder and renamed, so that a broken download leaves no half-filled folder.
rm -rf "$dir.part" "$dir"
mkdir -p "$dir.part"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/pom.xml" "$work/pom.xml" # maven writes target/ beside the pom; keep the tree clean
try=1
until (cd "$work" && mvn -B -q -ntp dependency:copy-dependencies \
    -DoutputDirectory="$dir.part" -DincludeScope=runtime >&2); do
    [ "$try" -lt 3 ] || { echo "fetch.sh: Maven could not fetch Kafka 4.4.0" >&2; exit 1; }
    try=$((try + 1))
    sleep 2
done
echo "$want" >"$dir.part/.stamp"
mv "$dir.part" "$dir"
echo "$dir"
