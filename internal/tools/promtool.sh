# promtool, which the tests of the metrics use: Debian's, installed where that is
# allowed. Without it those tests say that they left it out.
set -eu
if command -v promtool >/dev/null; then
	promtool --version 2>&1 | head -n 1
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	log=$(mktemp)
	if { apt-get install -y -q prometheus || { apt-get update -q && apt-get install -y -q prometheus; }; } >"$log" 2>&1; then
		rm -f "$log"
		promtool --version 2>&1 | head -n 1
		exit 0
	fi
	tail -n 3 "$log"
	rm -f "$log"
fi
echo 'SKIPPED: promtool is not here and cannot be installed: the metrics are not shown to it'
