# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of the command have in common; they source it. The arguments are RINGSUM and
# MKDELIVERY (or they stand in the environment). Leaves the shell in a scratch directory of its own.
set -u

RINGSUM=$(realpath "${1:-${RINGSUM:?the path of ringsum is needed}}") || exit 2
MKDELIVERY=$(realpath "${2:-${MKDELIVERY:?the path of mkdelivery is needed}}") || exit 2
export LC_ALL=C
work=$(mktemp -d "${TMPDIR:-/tmp}/ringsum-cli.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

number=0
failures=0

# ---- the frame: run something, then say what it should have done -------------------------------

# Runs ringsum; its exit status, its two outputs and both together are kept.
ringsum() {
	timeout 120 "$RINGSUM" "$@" >out 2>err </dev/null
	status=$?
	cat out err >both
	ran="ringsum $*"
}

pass() { number=$((number + 1)); printf 'ok %d - %s\n' "$number" "$1"; }

skip() { number=$((number + 1)); printf 'ok %d - %s # SKIP %s\n' "$number" "$1" "$2"; }

fail() {
	number=$((number + 1)) failures=$((failures + 1))
	printf 'not ok %d - %s\n# %s\n# ran: %s\n' "$number" "$1" "$2" "$ran"
	sed 's/^/# | /' both | head -n 30
}

# expect NAME STATUS [PATTERN...]: each extended regular expression is found in the output; one
# that begins with ! is not.
expect() {
	local name=$1 wanted=$2 pattern
	shift 2
	if [ "$status" -ne "$wanted" ]; then
		fail "$name" "exit status $status, expected $wanted"
		return 1
	fi
	for pattern in "$@"; do
		if [ "${pattern#!}" != "$pattern" ]; then
			grep -Eq -- "${pattern#!}" both || continue
			fail "$name" "unexpected in the output: ${pattern#!}"
			return 1
		fi
		if ! grep -Eq -- "$pattern" both; then
			fail "$name" "not in the output: $pattern"
			return 1
		fi
	done
	pass "$name"
}

# holds NAME COMMAND...: the command, run on what is there, succeeds.
holds() {
	local name=$1
	shift
	if "$@"; then
		pass "$name"
	else
		fail "$name" "this does not hold: $*"
	fi
}

# The last line of every test.
finish() {
	printf '1..%d\n' "$number"
	[ "$failures" -eq 0 ]
}
