#!/bin/sh
# Runs a program in a workspace of croft up with curl.
#
#   export CROFT_SERVER=http://127.0.0.1:7070 CROFT_TOKEN=KEY
#   sh sandbox.sh
set -eu
call() { curl -sS --fail-with-body -H "Authorization: Bearer $CROFT_TOKEN" "$@"; }
json() { call -H 'Content-Type: application/json' "$@"; }
url=$CROFT_SERVER/v1/workspaces

name=example-$$
json "$url" -d "{\"name\": \"$name\"}" >/dev/null
trap 'call -X DELETE "$url/$name"' EXIT

printf 'import sys\nprint("hello", sys.argv[1])\n' | call -X PUT --data-binary @- "$url/$name/files?path=greet.py" >/dev/null

# The answer has a JSON object per line: output as it is written, and then the result.
json "$url/$name/exec" -d '{"argv": ["python3", "greet.py", "world"]}'
json "$url/$name/exec" -d '{"argv": ["sh", "-c", "exit 3"]}'
call "$url/$name/files?path=greet.py"
