package isolate_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// engine is shared, as it is in a program: it takes a while to compile.
var engine isolate.Engine

// unhurried is for scripts of which not the time is in question, on a machine that
// is busy otherwise.
var unhurried = &isolate.Options{Timeout: patience}

const patience = 2 * time.Minute

func files(t testing.TB) *driver.FS {
	t.Helper()
	ws, err := new(memory.Provider).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: "memory"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	return ws.FS
}

func scriptRun(t testing.TB, m *driver.Interpreter, code driver.Code) driver.CodeResult {
	t.Helper()
	res, err := m.RunCode(t.Context(), code)
	if err != nil {
		t.Fatalf("RunCode: %v", err)
	}
	return res
}

func stdout(res driver.CodeResult) string {
	var b strings.Builder
	for _, o := range res.Outputs {
		if o.Kind == driver.OutputStdout {
			b.WriteString(o.Text)
		}
	}
	return b.String()
}

func TestScripts(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	for _, tt := range []struct {
		name, language, source string
		out, result, fault     string
	}{
		{"value", "", "1 + 2", "", "3", ""},
		{"text", "", "'a' + 'b'", "", "'ab'", ""},
		{"object", "", "({a: 1, b: [1, 'x', null], c: new Map([[1, 2]])})", "", "{ a: 1, b: [ 1, 'x', null ], c: Map(1) { 1 => 2 } }", ""},
		{"nothing", "", "let x = 1; undefined", "", "", ""},
		{"console", "", "console.log('a', 1, {b: 2}); console.log('%s=%d', 'x', 5)", "a 1 { b: 2 }\nx=5\n", "", ""},
		{"await", "", "const v = await Promise.resolve(20); v * 2", "", "40", ""},
		// The clock stands still while they are set, since they are due by it.
		{"timers", "", "const clock = Date.now, now = clock(); Date.now = () => now; setTimeout(() => console.log('late'), 5); setTimeout(() => console.log('soon'), 1); console.log('now'); const wait = new Promise(r => setTimeout(r, 2)); Date.now = clock; await wait; 'done'", "now\nsoon\nlate\n", "'done'", ""},
		{"typescript", "typescript", "interface P { x: number }\nenum C { Red = 3 }\nconst p: P = { x: 4 };\np.x + C.Red as number", "", "7", ""},
		{"types are only dropped", "typescript", "const n: number = 'text' as any; n", "", "'text'", ""},
		{"bad typescript", "typescript", "const = 1", "", "", "SyntaxError"},
		{"throws", "", "console.log('before'); throw new TypeError('no')", "before\n", "", "TypeError"},
		{"syntax", "", "let 1", "", "", "SyntaxError"},
		{"later rejection", "", "await Promise.reject(new RangeError('x'))", "", "", "RangeError"},
		{"rejection that nobody awaits", "", "async function main() { console.log('a'); throw new RangeError('x') }\nmain(); 1", "a\n", "1", "RangeError"},
		{"the first of them", "", "Promise.reject(new RangeError('x')); Promise.reject(new TypeError('y')); undefined", "", "", "RangeError"},
		{"before a timer", "", "setTimeout(() => console.log('late'), 0); fs.readFile('nope'); undefined", "", "", "Error"},
		{"in a module", "", "import 'fs'\nPromise.reject(new RangeError('x'))\nexport default 1", "", "1", "RangeError"},
		{"more than are kept", "", "for (let i = 0; i < 100000; i++) Promise.reject(new Array(100)); Promise.reject(new RangeError('x')); undefined", "", "", "Error"},
		{"of no error", "", "Promise.reject('text'); undefined", "", "", "Error"},
		{"rejection that is heard later", "", "const p = Promise.reject(new RangeError('x')); await 1; const q = [p, Promise.reject(2)]; (await Promise.allSettled(q)).map(s => s.status).join()", "", "'rejected,rejected'", ""},
		{"rejection that is caught", "", "Promise.reject(1).catch(() => console.log('caught')); try { await fs.readFile('nope') } catch (e) { console.log(e.code) }", "caught\nENOENT\n", "", ""},
		{"never settles", "", "await new Promise(() => {})", "", "", "Error"},
		{"recursion", "", "function f(n) { return 1 + f(n + 1) }; f(0)", "", "", "RangeError"},
		{"module", "", "import { join } from 'node:path'\nimport fs from 'fs/promises'\nawait fs.writeFile('m.txt', 'hi')\nexport default join('a', '..', await fs.readText('m.txt'))", "", "'hi'", ""},
		{"unknown module", "", "import x from 'http'\nexport default x", "", "", "Error"},
		{"require", "", "require('path').basename('/a/b.js', '.js')", "", "'b'", ""},
		{"bytes", "", "fs.writeFileSync('b', new Uint8Array([0, 255, 10])); fs.readFileSync('b').join()", "", "'0,255,10'", ""},
		{"unicode", "", "fs.writeFileSync('u', 'é€😀\\u0000'); fs.readTextSync('u') === 'é€😀\\u0000' && new TextEncoder().encode('é').length", "", "2", ""},
		{"base64", "", "atob(btoa('héllo')) + btoa('ab')", "", "'hélloYWI='", ""},
		{"no way out", "", "[typeof std, typeof os, typeof fetch, typeof WebAssembly, typeof XMLHttpRequest].join()", "", "'undefined,undefined,undefined,undefined,undefined'", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := scriptRun(t, m, driver.Code{Language: tt.language, Source: tt.source})
			result, failure := "", ""
			for _, o := range res.Outputs {
				if o.Kind == driver.OutputResult {
					result = string(o.Data["text/plain"])
				}
			}
			if res.Error != nil {
				failure = res.Error.Name
			}
			if stdout(res) != tt.out || result != tt.result || failure != tt.fault || (res.ExitCode != 0) != (tt.fault != "") {
				t.Errorf("got out %q result %q exit %d error %+v, want %q %q %q", stdout(res), result, res.ExitCode, res.Error, tt.out, tt.result, tt.fault)
			}
		})
	}
}

func TestFilesAreTheWorkspaces(t *testing.T) {
	fs := files(t)
	m := engine.Module(fs, &isolate.Options{Root: "/workspace", Timeout: patience})
	ctx := t.Context()
	if _, err := fs.Write(ctx, "lib/add.ts", strings.NewReader("export const add = (a: number, b: number): number => a + b"), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	res := scriptRun(t, m, driver.Code{Dir: "lib", Env: map[string]string{"A": "b"}, Source: `
import { add } from "./add";
await fs.mkdir("out/deep", { recursive: true });
await fs.writeFile("out/deep/f.txt", "one");
await fs.appendFile("out/deep/f.txt", " two");
await fs.rename("out/deep/f.txt", "/workspace/top.txt");
const seen = [];
for (const bad of ["../../x", "/etc/passwd", "out/missing"]) {
  try { fs.readFileSync(bad); seen.push("read " + bad) } catch (e) { seen.push(e.code) }
}
export default { sum: add(1, 2), text: fs.readFileSync("../top.txt", "utf8"), list: fs.readdirSync(".."), seen,
  stat: fs.statSync("../top.txt").size, dir: fs.statSync("out").isDirectory(), cwd: process.cwd(), env: process.env,
  glob: fs.globSync("**/*.ts"), gone: fs.existsSync("nope") }`})
	if res.Error != nil {
		t.Fatalf("%+v", res.Error)
	}
	got := string(res.Outputs[0].Data["application/json"])
	want := `{"sum":3,"text":"one two","list":["lib","top.txt"],"seen":["EACCES","EACCES","ENOENT"],"stat":7,"dir":true,"cwd":"/workspace/lib","env":{"A":"b"},"glob":["add.ts"],"gone":false}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	m := engine.Module(files(t), &isolate.Options{Memory: 16 << 20, Output: 1000, Timeout: patience})
	const short = 300 * time.Millisecond
	for _, tt := range []struct {
		name, source string
		timeout      time.Duration
		cause        driver.Cause
	}{
		{"memory in pieces", "console.log('begin'); const a = []; for (;;) a.push(new Array(1000).fill(1.5))", 0, driver.CauseOOM},
		{"memory at once", "console.log('begin'); new Uint8Array(1e9)", 0, driver.CauseOOM},
		{"a text that doubles", "console.log('begin'); let s = 'x'; for (;;) s += s + s.toUpperCase()", 0, driver.CauseOOM},
		{"a loop", "console.log('begin'); for (;;) {}", short, driver.CauseTimeout},
		{"a loop that catches", "console.log('begin'); for (;;) { try { for (;;) {} } catch {} }", short, driver.CauseTimeout},
		{"a loop inside a built-in", "console.log('begin'); Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)", short, driver.CauseTimeout},
		{"a regular expression", "console.log('begin'); /^(a+)+$/.test('a'.repeat(40) + 'b')", short, driver.CauseTimeout},
		{"a timer", "console.log('begin'); setInterval(() => {}, 1)", short, driver.CauseTimeout},
		{"jobs for ever", "console.log('begin'); const f = () => { Promise.resolve().then(f) }; f()", short, driver.CauseTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heard := ""
			res := scriptRun(t, m, driver.Code{Source: tt.source, Timeout: tt.timeout, OnOutput: func(o driver.Output) error { heard += o.Text; return nil }})
			if res.Cause != tt.cause || res.ExitCode == 0 || res.Error == nil {
				t.Errorf("got %+v error %+v, want cause %s", res, res.Error, tt.cause)
			}
			// Where the time was up before it began there is nothing.
			if stdout(res) != heard || heard != "begin\n" && (heard != "" || tt.timeout == 0) {
				t.Errorf("it put out %q, and %q was heard", stdout(res), heard)
			}
		})
	}
	res := scriptRun(t, m, driver.Code{Source: "for (let i = 0; i < 100; i++) console.log('x'.repeat(99)); 'end'"})
	if len(stdout(res)) != 1000 || res.Dropped < 9000 || res.ExitCode != 0 {
		t.Errorf("output: kept %d, dropped %d, exit %d; want 1000, at least 9000, 0", len(stdout(res)), res.Dropped, res.ExitCode)
	}
}

func TestCancelling(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := m.RunCode(ctx, driver.Code{Source: "console.log('up'); for (;;) {}", OnOutput: func(driver.Output) error { cancel(); return nil }})
	if err != nil || res.Cause != driver.CauseCanceled || stdout(res) != "up\n" {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestTheCollectorWorksMeanwhile would hang if a script that loops could not be
// interrupted by Go's own scheduler.
func TestTheCollectorWorksMeanwhile(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		res, err := m.RunCode(ctx, driver.Code{Source: "console.log(1); for (;;) {}", Timeout: time.Hour, OnOutput: func(driver.Output) error { close(up); return nil }})
		if err != nil || res.Cause != driver.CauseCanceled {
			t.Errorf("got %+v, %v", res, err)
		}
	}()
	select {
	case <-up:
	case <-done:
		t.Fatal("it has ended before it began")
	}
	for range 3 {
		runtime.GC()
	}
	cancel()
	<-done
}

func TestIsolatesShareNothing(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	scriptRun(t, m, driver.Code{Source: "globalThis.leak = 1; Array.prototype.leak = 2; Object.prototype.x = 3"})
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			res, err := m.RunCode(t.Context(), driver.Code{Source: fmt.Sprintf("globalThis.mine = %d; await new Promise(r => setTimeout(r, 3)); [typeof leak, [].leak, ({}).x, mine, Math.random()].join()", i)})
			if err != nil || res.Error != nil {
				t.Errorf("%v %+v", err, res.Error)
				return
			}
			text := string(res.Outputs[0].Data["text/plain"])
			if want := fmt.Sprintf("'undefined,,,%d,0.", i); !strings.HasPrefix(text, want) {
				t.Errorf("got %s, want %s...", text, want)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[text[strings.LastIndexByte(text, ','):]] = true
		})
	}
	wg.Wait()
	if len(seen) != 12 {
		t.Errorf("%d different random numbers, want 12", len(seen))
	}
}

func TestExit(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	res := scriptRun(t, m, driver.Code{Source: "console.log('a'); try { process.exit(7) } finally { console.log('b') }"})
	if res.ExitCode != 7 || res.Error != nil || stdout(res) != "a\n" {
		t.Errorf("got %+v", res)
	}
}

func TestRefusals(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	for want, code := range map[fault.Code]driver.Code{
		fault.InvalidArgument: {Language: "cobol", Source: "1"},
		fault.Unsupported:     {Context: "x", Source: "1"},
	} {
		if _, err := m.RunCode(t.Context(), code); fault.Of(err) != want {
			t.Errorf("%+v: got %v, want %s", code, err, want)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"1", "import 'fs'", "export default 1", "console.log(`a`)", "fs.readFileSync('\u0000')", "throw null", "await 0"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	m := engine.Module(files(f), &isolate.Options{Memory: 8 << 20, Output: 1 << 10})
	f.Fuzz(func(t *testing.T, source string, ts bool) {
		code := driver.Code{Source: source, Timeout: 200 * time.Millisecond}
		if ts {
			code.Language = "typescript"
		}
		res, err := m.RunCode(t.Context(), code)
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		if (res.Error != nil) != (res.ExitCode != 0) && !strings.Contains(source, "exit") {
			t.Errorf("%q: exit %d, error %+v", source, res.ExitCode, res.Error)
		}
	})
}

func BenchmarkIsolate(b *testing.B) {
	m := engine.Module(files(b), nil)
	scriptRun(b, m, driver.Code{Source: "1"})
	for b.Loop() {
		scriptRun(b, m, driver.Code{Source: "1"})
	}
}
