#!/bin/sh
# Builds what package script embeds, from the npm packages pinned below: the
# interpreter, which is QuickJS-NG as WebAssembly with a count in every loop that lets
# it be stopped (internal/meter), and the program that drops the types of TypeScript,
# which is strip.js with Sucrase. What it writes is committed, so that nobody needs
# any of this to build Croft.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quickjs=3.6.2 sucrase=3.35.1 esbuild=0.28.2
(cd "$work" && npm install --silent --no-audit --no-fund "quickjs-wasi@$quickjs" "sucrase@$sucrase" "esbuild@$esbuild" >/dev/null)
modules=$work/node_modules

(cd "$here" && go run ./internal/meter 8 host_interrupt <"$modules/quickjs-wasi/quickjs.wasm" >"$work/out.wasm")
gzip -9 -n <"$work/out.wasm" >"$here/quickjs.wasm.gz"

# Two changes of Sucrase: a namespace that is not only declared is refused instead of
# dropped, and (b) in a ? (b) : c => d is not taken for the parameters of a function
# whose type is c.
cat >"$work/change.js" <<'JS'
const fs = require("fs");
function change(file, times, from, to) {
  file = process.argv[2] + "/sucrase/dist/esm/parser/" + file;
  const text = fs.readFileSync(file, "utf8");
  const found = (text.match(from) || []).length;
  if (found !== times) throw new Error(`${file} has ${from} ${found} times, not ${times}`);
  fs.writeFileSync(file, text.replace(from, to));
}
change("plugins/typescript.js", 2, /(pushTypeContext\(isBeforeToken \? 2 : 1\);)(\s+tsParseModuleOrNamespaceDeclaration\()/g,
  '$1 if (!oldIsType) unexpected("a namespace is more than types; a module or an object can take its place");$2');
change("plugins/typescript.js", 1, /(function tsParseArrow\(\) \{\s+if \(match\(tt\.colon\))\)/g, "$1 && !state.isConsequent)");
change("traverser/expression.js", 1, /(if \(eat\(tt\.question\)\) \{\s+)(parseMaybeAssign\(\);)/g,
  `$1const snapshot = state.snapshot();
    $2
    if (isTypeScriptEnabled && (state.error || !match(tt.colon)) && !state.isConsequent) {
      state.restoreFromSnapshot(snapshot);
      state.isConsequent = true;
      parseMaybeAssign();
      state.isConsequent = false;
    }`);
JS
node "$work/change.js" "$modules"
NODE_PATH=$modules "$modules/.bin/esbuild" "$here/strip.js" --log-level=warning --bundle --minify --legal-comments=none \
	--format=iife --global-name=croft --target=es2020 --main-fields=module,main --outfile="$work/typescript.js"
gzip -9 -n <"$work/typescript.js" >"$here/typescript.js.gz"

{
	printf 'quickjs.wasm: npm quickjs-wasi %s, which has QuickJS-NG, both under the MIT licence.\n' "$quickjs"
	printf 'QuickJS: Copyright (c) 2017-2024 Fabrice Bellard, Charlie Gordon; QuickJS-NG: Ben Noordhuis, Saúl Ibarra Corretgé and others.\n\n'
	cat "$modules/quickjs-wasi/LICENSE"
	printf '\ntypescript.js: npm sucrase %s, with two changes (build.sh), under the MIT licence, and what it imports:\n' "$sucrase"
	printf 'lines-and-columns, ts-interface-checker (Apache 2.0), @jridgewell/gen-mapping, sourcemap-codec, trace-mapping and resolve-uri.\n'
	for name in sucrase lines-and-columns ts-interface-checker @jridgewell/gen-mapping @jridgewell/sourcemap-codec @jridgewell/trace-mapping @jridgewell/resolve-uri; do
		printf '\n%s\n\n' "$name"
		cat "$modules/$name/LICENSE"
	done
} >"$here/LICENSES"
ls -l "$here/quickjs.wasm.gz" "$here/typescript.js.gz" | awk '{print $5, $9}'
