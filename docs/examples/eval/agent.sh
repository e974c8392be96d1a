#!/bin/sh
# An agent that needs no model: it shows what one writes. See docs/eval-runners.md.
echo '{"type":"step"}'
case "$1" in
*greeting*)
	echo hello > greeting.txt
	echo '{"type":"command","command":"echo hello > greeting.txt","exitCode":0}'
	echo '{"type":"output","text":"I wrote greeting.txt."}'
	;;
*)
	printf '{"type":"output","text":"%s"}\n' "$(head -n 1 notes.txt)"
	;;
esac
echo '{"type":"usage","inputTokens":20,"outputTokens":5}'
