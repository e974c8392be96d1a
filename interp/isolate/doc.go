// Package isolate runs JavaScript and TypeScript in this process, in a WebAssembly
// isolate per run: the Script module of a workspace that has files.
//
//	var engine isolate.Engine
//	defer engine.Close(ctx)
//	ws.Script = engine.Module(ws.FS, &isolate.Options{Root: ws.Traits.Root})
//
// # What is prevented, what is not
//
// The interpreter is QuickJS-NG, compiled to WebAssembly and run by wazero. A script
// that exploits a bug of the interpreter controls a WebAssembly machine of bounded
// memory and nothing else: there is no cgo, and a script can't reach Croft's memory.
// [Options.Memory] bounds the memory of an isolate. A counter at the head of every loop
// of the interpreter (see internal/meter) bounds its time. No script can evade the
// counter, not even within a built-in function, and Go's garbage collector can run
// meanwhile. [Options.Output] bounds the output. There is no network, no process and no
// file except those of the workspace, through the functions of its FS: a path that
// leaves the workspace is refused.
//
// Timing side channels are not prevented. Isolates share the processor with the rest of
// Croft: at most [Engine.Most] isolates run at once, and further runs wait.
//
// # What a script sees
//
// The language with its built-ins, top-level await, and the last value as the
// result; console; timers; fs (readFile, writeFile, readdir, stat, mkdir, rm,
// rename, exists, glob; each with a Sync twin) as a global, by require("fs") and
// by import, as node's fs and fs/promises; path; process (env, argv, cwd, exit);
// TextEncoder, TextDecoder, atob, btoa. Relative imports are files of the
// workspace.
//
// Sucrase removes the types of TypeScript without checking them, in its own isolate with
// the memory and time bounds of the run: a TypeScript parser backtracks, so a few lines
// can keep it busy for ever. Line numbers do not change. Enums and parameter properties
// work; namespaces are refused.
//
// # Start time
//
// The interpreter is compiled to machine code once, at the first run (with
// [Engine.Cache], once per machine). An isolate is a copy of the memory of a prepared
// one and starts in a millisecond: nothing is parsed, and runs share no state.
package isolate
