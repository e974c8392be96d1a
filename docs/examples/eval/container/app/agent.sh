#!/bin/sh
# It says where it works, and what it was asked.
echo "{\"type\":\"command\",\"command\":\"echo hello > greeting.txt\",\"exitCode\":0}"
echo hello > greeting.txt
printf '{"type":"output","text":"%s, in %s"}\n' "$CROFT_EVAL_PROMPT" "$PWD"
