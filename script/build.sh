#!/bin/sh
# Builds the interpreter that package script embeds: QuickJS-NG as WebAssembly,
# from the npm package pinned below, with a count in every loop that lets it be
# stopped (internal/meter), compressed. What it writes is committed, so that
# nobody needs any of this to build Croft.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=3.6.2
(cd "$work" && npm pack --silent "quickjs-wasi@$version" >/dev/null && tar xzf "quickjs-wasi-$version.tgz")
(cd "$here" && go run ./internal/meter 8 host_interrupt <"$work/package/quickjs.wasm" >"$work/out.wasm")
gzip -9 -n <"$work/out.wasm" >"$here/quickjs.wasm.gz"
{
	printf 'quickjs.wasm: npm quickjs-wasi %s, which has QuickJS-NG, both under the MIT licence.\n' "$version"
	printf 'QuickJS: Copyright (c) 2017-2024 Fabrice Bellard, Charlie Gordon; QuickJS-NG: Ben Noordhuis, Saúl Ibarra Corretgé and others.\n\n'
	cat "$work/package/LICENSE"
} >"$here/LICENSES"
ls -l "$here/quickjs.wasm.gz" | awk '{print $5}'
