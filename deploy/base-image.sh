#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# base-image.sh TAG...: a Debian 12 base image under these tags in the Engine of DOCKER_HOST, without a registry.
# The root file system is kept in ${BERTH_CACHE:-~/.cache/berth} by a hash of its recipe: a second run takes seconds.
set -euo pipefail

readonly SUITE=bookworm
readonly PACKAGES=bash,ca-certificates,curl,procps,python3
# Documentation and translations are a third of the size, and no task reads them.
readonly EXCLUDED=('/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*')

die() {
	printf 'base-image.sh: %s\n' "$*" >&2
	exit 1
}

[ $# -gt 0 ] || { echo 'usage: base-image.sh TAG...   (DOCKER_HOST names the Engine)' >&2; exit 2; }
command -v docker > /dev/null || die 'docker is missing: apt-get install docker.io'
docker version --format '{{.Server.Version}}' > /dev/null 2>&1 ||
	die "no Engine answers at ${DOCKER_HOST:-unix:///var/run/docker.sock}: run deploy/test-engine.sh start DIR, or set DOCKER_HOST"

# The mirror that apt uses on this machine, so that what works for apt works here.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $SUITE" 'Created-By: Packages' 2> /dev/null |
	grep -v -e security -e snapshot | head -n 1) || true
[ -n "$mirror" ] || die "apt on this machine knows no mirror of $SUITE: add one to its sources and run apt-get update"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

cache=${BERTH_CACHE:-${HOME:-/root}/.cache/berth}
recipe="$SUITE $PACKAGES ${EXCLUDED[*]} $(dpkg --print-architecture)"
hash=$(printf '%s' "$recipe" | sha256sum | cut -c 1-16)
tar=$cache/base-$hash.tar

build() {
	command -v mmdebstrap > /dev/null || die 'mmdebstrap is missing: apt-get install mmdebstrap'
	[ -r "$keyring" ] || die "$keyring is missing: apt-get install debian-archive-keyring"
	local work options=()
	work=$(mktemp -d "$cache/.base-XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	for pattern in "${EXCLUDED[@]}"; do
		options+=(--dpkgopt="path-exclude=$pattern")
	done
	echo "base-image.sh: making a Debian $SUITE root from $mirror (about two minutes, once)" >&2
	TMPDIR=$work mmdebstrap --quiet --variant=minbase --include="$PACKAGES" "${options[@]}" \
		--aptopt='Apt::Install-Recommends "false"' \
		--customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/*.log "$1"/var/log/apt' \
		--customize-hook='rm -f "$1"/etc/resolv.conf "$1"/etc/hostname' \
		"$SUITE" "$work/root.tar" "deb [signed-by=$keyring] $mirror $SUITE main" > "$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		die "mmdebstrap failed: it needs root and a Debian mirror at $mirror (see the lines above)"
	}
	# Renamed when whole, so that a cut run leaves no half file and two runs do not mix.
	mv "$work/root.tar" "$tar"
}

if [ ! -s "$tar" ]; then
	# One at a time: who waited finds it made.
	mkdir -p "$cache" || die "cannot make the folder $cache: set BERTH_CACHE to one that can be written"
	exec 8> "$cache/lock"
	flock 8
	[ -s "$tar" ] || build
	exec 8>&-
fi

first=$1
# The Engine may have it from before; the label tells which recipe it was made by.
have=$(docker image inspect --format '{{index .Config.Labels "berth.base"}}' "$first" 2> /dev/null) || have=
if [ "$have" != "$hash" ]; then
	docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		--change 'CMD ["bash"]' --change "LABEL berth.base=$hash" "$tar" "$first" > /dev/null ||
		die "docker import of $tar failed: is there space in the Engine's data root?"
fi
for tag in "${@:2}"; do
	docker tag "$first" "$tag"
done
