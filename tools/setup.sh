#!/bin/sh
# setup.sh build|test|check - installs the Debian packages that a step needs and that are missing. Quiet and quick when nothing is.
set -eu
build="gcc libc6-dev cmake ninja-build pkg-config python3 libisal-dev zlib1g-dev libsnappy-dev liblz4-dev libzstd-dev librdkafka-dev libjansson-dev libmicrohttpd-dev"
tests="libcmocka-dev libuv1-dev kcat maven openjdk-17-jdk-headless python3-venv python3-pip strace spin"
check="clang clang-format clang-tidy libclang-rt-14-dev"
case "${1:-build}" in
build) want="$build" ;;
test) want="$build $tests" ;;
check) want="$build $tests $check" ;;
*) echo "setup.sh: expected build, test or check, got '$1'" >&2; exit 2 ;;
esac
missing=""
for package in $want; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup.sh: needs root or sudo to install:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q >&2
# shellcheck disable=SC2086
$as_root apt-get install -y -q --no-install-recommends $missing >&2
