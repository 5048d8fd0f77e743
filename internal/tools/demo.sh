#!/bin/sh
# Shows the main job on a bundled export: the verdict on all of it, then the
# story of one contract. Ends with 0 only if the tool ends as expected.
#
# usage: demo.sh PROGRAM EXPORT VERIFY_EXIT EXPLAIN_EXIT [CONTRACT]
set -eu

program=$1
export=$2
contract=${5:-}

# show EXPECTED ARG...: run the program, say how it ended, stop on a surprise.
show() {
	expected=$1
	shift
	printf '\n$ %s %s\n' "$program" "$*"
	code=0
	"$program" "$@" || code=$?
	echo "(exit code $code)"
	if [ "$code" -ne "$expected" ]; then
		echo "demo: expected exit code $expected" >&2
		exit 1
	fi
}

show "$3" verify "$export"

if [ -z "$contract" ]; then
	contract=$("$program" verify --jsonl "$export" 2>/dev/null | grep -o '"contract":"0x[0-9a-f]*"' | head -n 1 | cut -d '"' -f 4) || true
fi
if [ -z "$contract" ]; then
	echo "demo: no contract to explain in $export" >&2
	exit 1
fi
show "$4" explain "$export" "$contract"
