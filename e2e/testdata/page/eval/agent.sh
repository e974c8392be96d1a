#!/bin/sh
# An agent that adds a heading to a file, and says what it does. With a model named "slow" it waits.
echo '{"type":"session","id":"s-1"}'
echo '{"type":"step"}'
echo '{"type":"message","text":"I read the notes first.","phase":"commentary"}'
echo '{"type":"toolCall","tool":"shell","args":{"command":"wc -l notes.txt"}}'
echo '{"type":"command","command":"wc -l notes.txt","exitCode":0,"durationMs":4}'
echo '{"type":"toolResult","tool":"shell","output":"2 notes.txt"}'
case $CROFT_EVAL_PROMPT in
*heading*) printf '# Notes\n\n%s\n' "$(cat notes.txt)" > notes.txt
	echo '{"type":"command","command":"sed -i 1i#\\ Notes notes.txt","exitCode":0,"durationMs":7}' ;;
*network*) echo '{"type":"command","command":"curl https://example.com","exitCode":6,"durationMs":31}' ;;
esac
[ "$CROFT_EVAL_MODEL" != slow ] || sleep 1
cost=0.004; [ "$CROFT_EVAL_MODEL" != slow ] || cost=0.019
echo '{"type":"step"}'
printf '{"type":"usage","inputTokens":1820,"outputTokens":340,"cacheTokens":600,"costUsd":%s}\n' "$cost"
printf '{"type":"message","text":"Done: %s"}\n' "$CROFT_EVAL_PROMPT"
