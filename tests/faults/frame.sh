# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests with real faults have in common; they source it. The arguments are RINGSUM,
# MKDELIVERY, and the directory of the helpers faultfs, forbid and so on.
#
# As root a test runs in mount and process namespaces of its own, and on a tmpfs that is seen there
# only: however it ends, mounts, loop devices, FUSE servers and files end with it.

apart() { # runs the test again, apart; returns where that cannot be done, or shall not
	[ -z "${RINGSUM_FAULTS_APART-}" ] && [ -z "${is_together-}" ] && [ "$(id -u)" -eq 0 ] || return 0
	unshare -m -p -f --mount-proc true 2>/dev/null || return 0
	export RINGSUM_FAULTS_APART=1
	exec unshare -m -p -f --kill-child --mount-proc -- bash "$0" "$@"
}

# Where a tmpfs hides nothing.
place_for_scratch() {
	local place
	for place in /media /srv /mnt; do
		[ -d "$place" ] && [ -z "$(ls -A "$place" 2>/dev/null)" ] || continue
		case $RINGSUM$MKDELIVERY$HELPERS$0 in *"$place/"*) continue ;; esac
		echo "$place"
		return
	done
	mktemp -d "${TMPDIR:-/tmp}/ringsum-faults.XXXXXX"
}

apart "$@"
here=$(cd "$(dirname "$0")" && pwd) || exit 2
RINGSUM=$(realpath "${1:?the path of ringsum is needed}") || exit 2
MKDELIVERY=$(realpath "${2:?the path of mkdelivery is needed}") || exit 2
HELPERS=$(realpath "${3:?the directory of the helpers is needed}") || exit 2

is_apart=
if [ -n "${RINGSUM_FAULTS_APART-}" ]; then
	TMPDIR=$(place_for_scratch) || exit 2
	export TMPDIR
	if mount -t tmpfs -o size=3g,mode=755 ringsum-faults "$TMPDIR" 2>/dev/null; then
		is_apart=1
	else
		unset TMPDIR
	fi
fi

# shellcheck source=tests/cli/frame.sh
. "$here/../cli/frame.sh"

# What is apart goes with the last process. Nothing else is ever removed through a mount.
if [ -n "$is_apart" ]; then
	trap - EXIT
else
	trap 'rm -rf --one-file-system "$work"' EXIT
fi

# Why a test that needs mounts cannot run; nothing where it can.
why_not_apart() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "needs root"
	elif [ -z "$is_apart" ]; then
		echo "no mount namespace to be had here"
	fi
}

# The rest of the test cannot run: says so as one case, and ends.
skip_rest() {
	skip "$1" "$2"
	finish
	exit
}

# Another user, with no other process and no memory locked. Others may then read what is here.
user=$((61000 + $$ % 500))
as_user() { setpriv --reuid="$user" --regid="$user" --clear-groups "$@"; }

# Whether that user can run ringsum at all: a copy of it, since it may have been built anywhere.
user_is_ready() {
	local built
	built=$(dirname "$(dirname "$RINGSUM")")
	[ "$(id -u)" -eq 0 ] || return 1
	chmod 755 "$work" && mkdir -p as-user/tools as-user/src &&
		cp "$RINGSUM" as-user/tools && cp "$built"/src/libringsum.so.0 as-user/src || return 1
	RINGSUM_OF_USER=$work/as-user/tools/$(basename "$RINGSUM")
	as_user "$RINGSUM_OF_USER" --version >/dev/null 2>&1
}

# run COMMAND...: as ringsum does, for any command.
patience=120
run() {
	timeout "$patience" "$@" >out 2>err </dev/null
	status=$?
	cat out err >both
	ran="$*"
}

# A report without what says how it was read, and how fast.
without_io() {
	sed -e '/^ "io":/d; /^ "elapsed_seconds":/d; /^ "bytes_per_second":/d; /^ "limited_by":/d' \
		-e 's/\("bytes":{.*\),"read":[0-9]*/\1/' "$1"
}

# alike NAME REPORT WANTED: two reports agree in all but how it was read.
alike() {
	without_io "$2" >alike.found
	without_io "$3" >alike.wanted
	if [ -s alike.wanted ] && grep -q '"verdict"' alike.wanted &&
		cmp -s alike.found alike.wanted; then
		pass "$1"
	else
		diff alike.wanted alike.found >both
		fail "$1" "the reports differ, or there is none"
	fi
}

# The promise of a tensor: its file, its first byte and the byte past its last.
promise() { # delivery, tensor; sets file, begin, end
	local entry
	entry=$(grep -F "\"name\": \"$2\"" "$1/TENSORS.json")
	file=$(printf '%s' "$entry" | sed 's/.*"destination_file": "\([^"]*\)".*/\1/')
	begin=$(printf '%s' "$entry" | sed 's/.*"destination_byte_range": \[\([0-9]*\),.*/\1/')
	end=$(printf '%s' "$entry" |
		sed 's/.*"destination_byte_range": \[[0-9]*, \([0-9]*\)\].*/\1/')
}
