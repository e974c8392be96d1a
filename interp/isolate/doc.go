// Package isolate runs JavaScript and TypeScript in an isolate that is made for
// one run and thrown away after it, inside this process: the Script module of a
// workspace that has files.
//
//	var engine script.Engine
//	defer engine.Close(ctx)
//	ws.Script = engine.Module(ws.FS, &script.Options{Root: ws.Traits.Root})
//
// # What the fence is
//
// The interpreter is QuickJS-NG, compiled to WebAssembly and run by wazero. So a
// script that breaks the interpreter breaks a machine of bounded memory and
// nothing else; there is no cgo, and no memory of Croft's that a script could
// reach. The memory of an isolate can't grow beyond [Options.Memory]; its time is
// bounded by a count at the head of every loop of the interpreter (see
// internal/meter), which no script can evade, not even within a built-in
// function, and which lets Go's collector work meanwhile; what it puts out is cut at [Options.Output]. There is no network, no
// process and no file but those of the workspace, through the functions of its
// FS: a path that leaves is refused there as anywhere.
//
// It does not hide how long things take, and shares the processor with the rest
// of Croft: at most [Engine.Most] isolates run at once, and others wait.
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
// Types of TypeScript are dropped, not checked, by Sucrase, in an isolate of its own
// with the memory and the time of the run: a parser of TypeScript guesses and goes
// back, so that a few lines can keep one busy for ever. Every line stays where it
// was. Enums and parameter properties are more than types, and work; namespaces are,
// too, and are refused.
//
// # Ready in a millisecond
//
// The interpreter is compiled to machine code at the first run, once (with
// [Engine.Cache], once a machine). An isolate is then a copy of the memory of one
// that was prepared before: nothing is parsed, and nothing is left of another run.
package isolate
