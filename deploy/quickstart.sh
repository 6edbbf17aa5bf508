#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh [--keep] [--tasks FOLDER]
# From nothing to a finished job on one Debian 12 machine: installs what is missing, builds, finds or starts a Docker
# Engine, starts a coordinator and two agents with mutual TLS, runs the sample job with live progress, prints the result
# table, and stops what it started. --keep leaves the fleet up and says how to use it; a later run without --keep stops it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly FLEET=quickstart
readonly READY_SECONDS=60
home=${BERTH_QUICKSTART_HOME:-${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/berth-quickstart}
tasks=deploy/samples keep=0
while [ $# -gt 0 ]; do
	case $1 in
	--keep) keep=1 ;;
	--tasks) tasks=${2:?--tasks needs a folder}; shift ;;
	-h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
	*) echo "quickstart.sh: unknown flag $1 (see --help)" >&2; exit 2 ;;
	esac
	shift
done

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() {
	printf 'quickstart.sh: %s\n' "$*" >&2
	exit 1
}

# --- processes: each has a pid file below $home/run, and is only ended by a pid that is still its own ---
running() { # name
	local pid
	pid=$(cat "$home/run/$1.pid" 2> /dev/null) || return 1
	[ -n "$pid" ] && [ "$(readlink "/proc/$pid/exe" 2> /dev/null | sed 's/ (deleted)$//')" = "$(cat "$home/run/$1.exe")" ]
}
launch() { # name, program, arguments...
	local name=$1 program
	program=$(readlink -f "$2")
	shift 2
	setsid "$program" "$@" >> "$home/log/$name.log" 2>&1 < /dev/null &
	echo $! > "$home/run/$name.pid"
	echo "$program" > "$home/run/$name.exe"
	disown
}
halt() { # name
	running "$1" || return 0
	local pid
	pid=$(cat "$home/run/$1.pid")
	kill -TERM "$pid" 2> /dev/null || true
	for _ in $(seq 600); do
		[ -e "/proc/$pid" ] || break
		sleep 0.1
	done
	[ -e "/proc/$pid" ] && kill -KILL "$pid" 2> /dev/null
	rm -f "$home/run/$1.pid"
}
halt_all() {
	halt agent-1
	halt agent-2
	halt coordinator
	if [ -e "$home/run/engine-is-ours" ]; then
		deploy/test-engine.sh stop "$home/engine" > /dev/null
		rm -f "$home/run/engine-is-ours"
	fi
}
wait_for() { # what, log, command...
	local what=$1 log=$2
	shift 2
	for _ in $(seq $((READY_SECONDS * 10))); do
		"$@" > /dev/null 2>&1 && return
		sleep 0.1
	done
	tail -n 20 "$log" >&2 || true
	die "$what did not get ready in $READY_SECONDS s; its log is $log"
}

step '1. Packages'
[ "$(id -u)" = 0 ] || die 'this needs root, to install packages and to use Docker: run it with sudo'
deploy/install-packages.sh build run

step '2. Build'
bazel build --noshow_progress --ui_event_filters=-info //coordinator:berth-coordinator //coordinator/cli:berth //agent:berth-agent ||
	die 'the build failed; the compiler says why above'
mkdir -p "$home/run" "$home/log" "$home/bin"
halt_all # what an earlier run with --keep left
for binary in coordinator/berth-coordinator coordinator/cli/berth agent/berth-agent; do
	install -m 755 "out/bin/$binary" "$home/bin/${binary##*/}"
done

cleanup() {
	local status=$?
	trap - EXIT INT TERM
	if [ "$keep" = 0 ] || [ "$status" != 0 ]; then
		step 'Stopping what was started'
		halt_all
	fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step '3. Docker Engine and base image'
export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}
if version=$(/usr/bin/docker version --format '{{.Server.Version}}' 2> /dev/null) && [ -n "$version" ]; then
	echo "using the Engine $version at $DOCKER_HOST"
else
	echo "no Engine answers at $DOCKER_HOST: starting one below $home/engine"
	touch "$home/run/engine-is-ours"
	DOCKER_HOST=$(deploy/test-engine.sh start "$home/engine" | tail -n 1)
	export DOCKER_HOST
fi
if ! /usr/bin/docker image inspect berth-sample-base > /dev/null 2>&1; then
	deploy/base-image.sh berth-sample-base
fi

step '4. Coordinator and two agents'
berth=$home/bin/berth
if [ ! -d "$home/credentials/coordinator" ]; then
	"$home/bin/berth-coordinator" init --fleet $FLEET --out "$home/credentials"
fi
rm -f "$home/run/ready"
launch coordinator "$home/bin/berth-coordinator" serve --data "$home/data" --credentials "$home/credentials/coordinator" \
	--listen 127.0.0.1:0 --blobs-listen 127.0.0.1:0 --ready-file "$home/run/ready"
wait_for 'the coordinator' "$home/log/coordinator.log" test -s "$home/run/ready"
BERTH_COORDINATOR=127.0.0.1:$(sed -n 's/^listen=//p' "$home/run/ready")
BERTH_BLOBS=127.0.0.1:$(sed -n 's/^blobs=//p' "$home/run/ready")
BERTH_CREDENTIALS=$home/credentials/operator
export BERTH_COORDINATOR BERTH_BLOBS BERTH_CREDENTIALS
slots=$((($(nproc) + 1) / 2))
for n in 1 2; do
	[ -d "$home/credentials/agent-$n" ] || "$berth" agent enroll "agent-$n" --out "$home/credentials/agent-$n" > /dev/null
	launch agent-$n "$home/bin/berth-agent" --coordinator "$BERTH_COORDINATOR" --blobs "$BERTH_BLOBS" \
		--credentials "$home/credentials/agent-$n" --state "$home/agent-$n" --docker "$DOCKER_HOST" --slots "$slots" --cpus "$slots"
done
agents_up() { [ "$("$berth" agent list --output json | grep -o '"AGENT_UP"\|"up"' | wc -l)" = 2 ]; }
wait_for 'the agents' "$home/log/agent-1.log" agents_up
"$berth" agent list

step '5. The sample job'
status=0
"$berth" run -p "$tasks" -a oracle -o "$home/jobs" --job-name "sample-$(date +%Y%m%d-%H%M%S)" -y || status=$?
echo
echo "results: $home/jobs (Harbor's layout)"

if [ "$keep" = 1 ] && [ "$status" = 0 ]; then
	cat <<-END

		The fleet is up. To use it:
		  export BERTH_COORDINATOR=$BERTH_COORDINATOR BERTH_BLOBS=$BERTH_BLOBS BERTH_CREDENTIALS=$BERTH_CREDENTIALS
		  $berth run -p MY-TASKS -a oracle      # a task folder, or a folder of them
		  $berth job list
		  $berth help
		Logs are in $home/log. To stop it, run deploy/quickstart.sh again without --keep.
	END
fi
exit "$status"
