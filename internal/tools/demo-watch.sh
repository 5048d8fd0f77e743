#!/bin/sh
# Shows the watcher at work: agents trade on a simulated venue for a while, the
# watcher follows, and what it concluded about each contract is held against what
# the agents did. Ends with 0 only if both agree.
#
# usage: demo-watch.sh PROGRAM MARKET [SECONDS]
set -eu

program=$1
market=$2
seconds=${3:-60}

dir=$(mktemp -d "${TMPDIR:-/tmp}/tclk-demo-watch.XXXXXX")
market_pid=
watch_pid=
shown_pid=
clean() {
	code=$?
	trap - EXIT
	trap '' INT TERM HUP
	for pid in $watch_pid $market_pid $shown_pid; do
		kill "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$dir"
	exit "$code"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fail() {
	echo "demo-watch: $1" >&2
	exit 1
}

# Deadlines come within the minute: a deal has 35 seconds until its refund.
"$market" -for "${seconds}s" -stay -life 35s -offers 0.7 -board 4 -rooms 30 -hot 3 -reads 3000 \
	-contracts "$dir/did" >"$dir/market" &
market_pid=$!
url=
tries=0
while [ -z "$url" ]; do
	kill -0 "$market_pid" 2>/dev/null || fail 'the market did not start'
	[ "$tries" -lt 100 ] || fail 'the market says no URL'
	tries=$((tries + 1))
	sleep 0.1
	url=$(head -n 1 "$dir/market")
done

# shorten shows a log line as a person wants to see it.
shorten() {
	while IFS= read -r line; do
		printf '%s\n' "$line" | sed -E \
			-e 's/^time=[0-9-]*T([0-9:]*)[^ ]* level=([A-Z]*) /\1 \2 /' -e 's/ (msg|venue|text|about|deadline)=/ /g' \
			-e 's/contract=(0x[0-9a-f]{16})[0-9a-f]*/\1/g' -e 's/^(.{150}).*/\1/'
	done
}
mkfifo "$dir/log"
shorten <"$dir/log" &
shown_pid=$!
printf '\n$ %s watch --venue demo=%s ...\n' "$program" "$url"
"$program" watch --venue "demo=$url" --data "$dir/data" --listen none --log-format text \
	--board-every 1s --hot-every 2s --cold-every 3s --settle-grace 2s --warn-before 30s >/dev/null 2>"$dir/log" &
watch_pid=$!

# The watcher gets a moment to read what came last.
left=$((seconds + 10))
while [ "$left" -gt 0 ]; do
	kill -0 "$watch_pid" 2>/dev/null || fail 'the watcher ended'
	kill -0 "$market_pid" 2>/dev/null || fail 'the market ended'
	sleep 1
	left=$((left - 1))
done

# stop PID NAME: end a process and see that it ended well.
stop() {
	kill -TERM "$1"
	wait "$1" || fail "the $2 ended with exit code $?"
}
stop "$watch_pid" watcher
watch_pid=
wait "$shown_pid" || true
shown_pid=
stop "$market_pid" market
market_pid=

show() {
	printf '\n$ %s %s\n' "$program" "$1"
	shift
	"$@"
}
show 'contracts' "$program" contracts --data "$dir/data"
"$program" events --data "$dir/data" >"$dir/events"
show 'events | tail -n 15' tail -n 15 "$dir/events"
show 'status' "$program" status --data "$dir/data"
printf '\nthe market\n'
tail -n 1 "$dir/market"
echo

"$program" contracts --data "$dir/data" --jsonl --limit 0 |
	sed -E 's/^\{"contract":"(0x[0-9a-f]+)","offer":[^,]*,"room":[^,]*,"status":"?([a-z]+)"?,.*/\1 \2/' |
	sort >"$dir/saw"
outcomes=$(cut -d ' ' -f 2 "$dir/did" | sort | uniq -c | awk '{ printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2 }')
if ! cmp -s "$dir/did" "$dir/saw"; then
	diff "$dir/did" "$dir/saw" | head -n 20 >&2 || true
	fail "the watcher does not agree with the market: < is what the agents did ($outcomes), > is what it saw"
fi
[ -s "$dir/did" ] || fail 'there was no contract'
echo "The watcher agrees with the market about every contract: $outcomes."
