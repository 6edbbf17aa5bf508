#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-engine.sh start DIR [DOCKERD-OPTION...] | stop DIR
# A private Docker Engine that keeps everything below DIR and shares nothing with another one: own socket
# (unix://DIR/docker.sock), data, bridge and address range. `start` prints its address, also when it runs already.
# Needs root, docker.io and iproute2; no init system. `stop` ends it with its containers and mounts and keeps the data.
set -euo pipefail

readonly START_SECONDS=60
readonly STOP_SECONDS=20
# 10.128.0.0/9 in /16 slices: one an engine, its first /24 for the bridge and the rest for networks.
readonly SLICES=128

die() {
	printf 'test-engine.sh: %s\n' "$*" >&2
	exit 1
}

usage() {
	echo 'usage: test-engine.sh start DIR [DOCKERD-OPTION...] | stop DIR' >&2
	exit 2
}

# The pid of this folder's dockerd; false when it does not run. A stale pid file may name someone else's process.
engine_pid() {
	local pid
	pid=$(cat "$dir/dockerd.pid" 2> /dev/null) || return 1
	[ -n "$pid" ] && tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" | grep -q -F -- "--pidfile $dir/dockerd.pid" || return 1
	echo "$pid"
}

engine_answers() {
	curl -s -f -m 5 --unix-socket "$dir/docker.sock" http://docker/_ping > /dev/null 2>&1
}

mount_cgroups() {
	grep -q -E '^[^ ]+ [^ ]+ cgroup2? ' /proc/mounts && return
	if grep -q -w cgroup2 /proc/filesystems; then
		mount -t cgroup2 none /sys/fs/cgroup && return
	fi
	mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup || die 'cannot mount /sys/fs/cgroup: is this root?'
	local name enabled
	while read -r name _ _ enabled; do
		[ "$enabled" = 1 ] || continue
		mkdir -p "/sys/fs/cgroup/$name"
		mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" || rmdir "/sys/fs/cgroup/$name"
	done < <(grep -v '^#' /proc/cgroups)
}

# Makes the bridge in a slice that no route of this host touches, and prints the slice's "10.N".
make_bridge() {
	local start slice try
	ip link delete "$bridge" 2> /dev/null || true
	start=$(printf '%s' "$dir" | cksum | cut -d ' ' -f 1)
	for ((try = 0; try < SLICES; try++)); do
		slice=10.$((128 + (start + try) % SLICES))
		if ! ip -4 route show table all | grep -q -E "(^| )$slice\." && ! ip -4 addr show | grep -q -F " $slice."; then
			ip link add name "$bridge" type bridge
			ip addr add "$slice.0.1/24" dev "$bridge"
			ip link set "$bridge" up
			echo "$slice"
			return
		fi
	done
	die 'no free /16 below 10.128.0.0/9 for the bridge: stop other test engines'
}

start_engine() {
	[ "$(id -u)" = 0 ] || die 'not root'
	local dockerd
	dockerd=$(PATH=/usr/sbin:$PATH command -v dockerd) || die 'dockerd is missing: apt-get install docker.io'
	for tool in curl ip; do
		command -v $tool > /dev/null || die "$tool is missing: apt-get install curl iproute2"
	done
	mkdir -p "$dir"
	if engine_pid > /dev/null && engine_answers; then
		echo "unix://$dir/docker.sock"
		return
	fi
	mount_cgroups
	# One start at a time, so that two do not take the same slice.
	exec 9> /tmp/berth-test-engine.lock
	flock 9
	local slice pid
	slice=$(make_bridge)
	rm -f "$dir/dockerd.pid" "$dir/docker.sock"
	echo '{}' > "$dir/daemon.json"
	# Debian's tools first: dockerd must find the runc and containerd of its own version.
	HOME=${HOME:-$dir} PATH=/usr/sbin:/usr/bin:/sbin:/bin setsid "$dockerd" --config-file "$dir/daemon.json" \
		--data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" -H "unix://$dir/docker.sock" \
		--containerd-namespace "$bridge" --containerd-plugins-namespace "$bridge-plugins" \
		--bridge "$bridge" --default-address-pool "base=$slice.0.0/16,size=24" "$@" \
		< /dev/null > "$dir/dockerd.log" 2>&1 9>&- &
	pid=$!
	local deadline=$((SECONDS + START_SECONDS))
	until engine_answers; do
		if ! kill -0 "$pid" 2> /dev/null || [ $SECONDS -ge $deadline ]; then
			tail -n 15 "$dir/dockerd.log" >&2
			stop_engine
			die "dockerd did not come up in $START_SECONDS s: see $dir/dockerd.log"
		fi
		sleep 0.1
	done
	echo "unix://$dir/docker.sock"
}

wait_gone() { # PID SECONDS
	local deadline=$((SECONDS + $2))
	while kill -0 "$1" 2> /dev/null; do
		# A zombie is gone; whoever started it has not looked yet.
		grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2> /dev/null && return
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.05
	done
}

# Removes containers and networks through the Engine, while it answers.
empty_engine() {
	export DOCKER_HOST=unix://$dir/docker.sock
	timeout $STOP_SECONDS bash -c 'docker ps -aq | xargs -r docker rm -f -v; docker network prune -f' > /dev/null 2>&1 ||
		echo "test-engine.sh: the Engine did not remove its containers; killing what is left" >&2
}

# What an Engine that had to be killed leaves: containers' first processes, shims and containerd, known by their paths.
kill_leftovers() {
	local file pid
	for file in "$dir"/exec/containerd/daemon/io.containerd.runtime.v2.task/*/*/init.pid; do
		[ -r "$file" ] && kill -9 "$(cat "$file")" 2> /dev/null || true
	done
	for file in /proc/[0-9]*/cmdline; do
		pid=${file#/proc/}
		pid=${pid%/cmdline}
		case $(tr '\0' ' ' 2> /dev/null < "$file") in
			*containerd*"$dir/exec/"*) kill -9 "$pid" 2> /dev/null || true ;;
		esac
	done
}

unmount_all() {
	local point
	while read -r point; do
		umount -l "$point" 2> /dev/null || true
	done < <(cut -d ' ' -f 2 /proc/self/mounts | grep -F "$dir/" | sort -r)
}

# The Engine leaves its packet filter rules behind; those of this bridge go with it.
remove_bridge() {
	ip link delete "$bridge" 2> /dev/null || true
	command -v iptables-save > /dev/null || return 0
	local table rule
	for table in nat filter; do
		while read -r rule; do
			# shellcheck disable=SC2086
			eval iptables -w -t "$table" "-D ${rule#-A }" 2> /dev/null || true
		done < <(iptables-save -t "$table" 2> /dev/null | grep -E -- "^-A .*[io] $bridge( |\$)" || true)
	done
}

stop_engine() {
	local pid
	if pid=$(engine_pid); then
		engine_answers && empty_engine
		kill -TERM "$pid" 2> /dev/null || true
		if ! wait_gone "$pid" $STOP_SECONDS; then
			kill -KILL "$pid" 2> /dev/null || true
			wait_gone "$pid" $STOP_SECONDS || die "dockerd (pid $pid) does not end"
		fi
	fi
	kill_leftovers
	unmount_all
	remove_bridge
	rm -f "$dir/dockerd.pid" "$dir/docker.sock"
}

[ $# -ge 2 ] || usage
verb=$1
dir=$(realpath -m -- "$2")
shift 2
# A unix socket's path has at most 107 bytes; the longest is that of containerd.
[ ${#dir} -le 70 ] || die "the path $dir is too long for unix sockets: at most 70 characters"
bridge=bt$(printf '%s' "$dir" | sha256sum | cut -c 1-10)

case $verb in
	start) start_engine "$@" ;;
	stop) stop_engine ;;
	*) usage ;;
esac
