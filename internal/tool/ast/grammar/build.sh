#!/bin/sh
# Builds the grammars that package grammar embeds: tree-sitter's C library, one
# grammar and croft.c as one WebAssembly module a language, compressed. The
# sources are npm packages, pinned below; clang, lld and wasi-libc are Debian's.
# What it writes is committed, so that nobody needs any of this to build Croft.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unpack() { # package version
	npm pack --silent "$1@$2" >/dev/null
	mkdir -p "$1"
	tar xzf "$1-$2.tgz" -C "$1" --strip-components=1
}
unpack tree-sitter 0.25.1
lib=$work/tree-sitter/vendor/tree-sitter/lib
licenses=$here/LICENSES
: >"$licenses"
build() { # name function package version directory
	[ -d "$3" ] || unpack "$3" "$4"
	src=$work/$3/$5/src
	scanner=""
	[ ! -e "$src/scanner.c" ] || scanner=$src/scanner.c
	# shellcheck disable=SC2086
	clang --target=wasm32-wasi -mexec-model=reactor -O2 -DNDEBUG -D_WASI_EMULATED_PROCESS_CLOCKS -DGRAMMAR="$2" \
		-I "$lib/include" -I "$lib/src" -I "$src" -Wl,--strip-all -Wl,-z,stack-size=1048576 \
		-o "$1.wasm" "$here/src/croft.c" "$lib/src/lib.c" "$src/parser.c" $scanner
	gzip -9 -n -c "$1.wasm" >"$here/$1.wasm.gz"
	printf '%s: npm %s %s\n' "$1" "$3" "$4" >>"$licenses"
	ls -l "$1.wasm" "$here/$1.wasm.gz" | awk '{print $5, $NF}'
}
build python tree_sitter_python tree-sitter-python 0.25.0 .
build javascript tree_sitter_javascript tree-sitter-javascript 0.25.0 .
build typescript tree_sitter_typescript tree-sitter-typescript 0.23.2 typescript
build tsx tree_sitter_tsx tree-sitter-typescript 0.23.2 tsx
build rust tree_sitter_rust tree-sitter-rust 0.24.0 .
build java tree_sitter_java tree-sitter-java 0.23.5 .
build c tree_sitter_c tree-sitter-c 0.24.1 .
build cpp tree_sitter_cpp tree-sitter-cpp 0.23.4 .
printf 'runtime: npm tree-sitter 0.25.1\n\nAll are under the MIT licence:\n\n' >>"$licenses"
for p in tree-sitter tree-sitter-python tree-sitter-javascript tree-sitter-typescript tree-sitter-rust tree-sitter-java tree-sitter-c tree-sitter-cpp; do
	grep -h -i '^copyright' "$p/LICENSE" 2>/dev/null | sed "s/^/$p: /" >>"$licenses" || true
done
sed -n '/Permission is hereby/,$p' tree-sitter-python/LICENSE >>"$licenses"
