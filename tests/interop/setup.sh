#!/bin/sh
# setup.sh - fetches the clients that tests/interop and tests/cases use; quiet and quick when nothing is missing.
#
# Into ${BARNABAS_CACHE:-$HOME/.cache/barnabas}: the Python clients (pyX.Y, one folder a Python version; its
# .stamp names what it holds) and the jars of Apache Kafka (tools/peer/fetch.sh). Debian packages are
# tools/setup.sh's, the Go modules of franz/ are fetched by the test that builds it. Safe when two run at a time.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
cache=${BARNABAS_CACHE:-$HOME/.cache/barnabas}
want="confluent-kafka==2.16.1 kafka-python==3.0.12 lz4==4.4.5 python-snappy==0.7.3 cramjam==2.14.0 zstandard==0.25.0 prometheus-client==0.26.0"

mkdir -p "$cache"
dir=$cache/$("$python" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
exec 9>"$dir.lock"
flock 9
if [ "$(cat "$dir/.stamp" 2>/dev/null || true)" != "$want" ]; then
    # Built beside the folder and renamed, so that a broken download leaves no half-filled folder.
    rm -rf "$dir.part"
    # shellcheck disable=SC2086
    "$python" -m pip install -q --disable-pip-version-check --root-user-action ignore --only-binary :all: \
        --target "$dir.part" $want >&2
    echo "$want" >"$dir.part/.stamp"
    rm -rf "$dir"
    mv "$dir.part" "$dir"
fi
exec 9>&-
"$here/../../tools/peer/fetch.sh" >/dev/null
