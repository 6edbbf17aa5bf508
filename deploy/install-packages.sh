#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install-packages.sh KIND...: installs what is missing of deploy/packages.txt for the kinds build, run, test.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -gt 0 ] || { echo "usage: install-packages.sh build|run|test ..." >&2; exit 2; }

missing=()
while read -r package kind; do
	case " $* " in *" $kind "*) ;; *) continue ;; esac
	dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2> /dev/null | grep -q '^ii' || missing+=("$package")
done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/packages.txt")
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
	echo "not root: run   sudo apt-get install ${missing[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
# The Engine must not be started by the package: the scripts start their own where none answers.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' > "$policy"
	chmod 755 "$policy"
fi
apt-get -qq install -y --no-install-recommends "${missing[@]}" > /dev/null
