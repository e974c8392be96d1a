package workspacetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var codeChecks = []Check{
	{"Script/answers-in-order", needScript, scriptOutputs},
	{"Script/an-exception-is-a-result", needScript, scriptThrows},
	{"Script/keeps-nothing", needScript, scriptForgets},
	{"Script/shares-the-files-and-no-others", allNeeds(needScript, needFS), scriptFiles},
	{"Script/time-and-memory-are-bounded", needScript, scriptBounds},
	{"Script/refuses-what-it-can-not-do", needScript, scriptRefuses},
	{"Code/a-context-keeps-state", needCode, codeContext},
	{"Code/runs-in-the-same-sandbox", allNeeds(needCode, needFS), codeSandbox},
}

func needScript(e *Env) (string, bool) {
	if e.sample.Script == nil {
		return "module script is absent", false
	}
	return "module script runs no javascript", slices.Contains(e.sample.Script.Languages, "javascript")
}

func needCode(e *Env) (string, bool) {
	if e.sample.Code == nil {
		return "module code is absent", false
	}
	return "module code runs no python in contexts", e.sample.Code.Stateful() && slices.Contains(e.sample.Code.Languages, "python")
}

// runScript runs JavaScript.
func (p *testWorkspace) runScript(t testing.TB, source string) driver.CodeResult {
	t.Helper()
	res, err := p.RunScript(t.Context(), driver.Code{Language: "javascript", Source: source, Timeout: waitLimit})
	if err != nil {
		t.Fatalf("RunScript %q: %v", source, err)
	}
	return res
}

// outputText returns outputs as text: kinds and contents.
func outputText(outputs []driver.Output) string {
	var b strings.Builder
	for _, o := range outputs {
		text := o.Text
		if o.Data != nil {
			text = string(o.Data["text/plain"])
		}
		b.WriteString(string(o.Kind) + "=" + strings.TrimSpace(text) + " ")
	}
	return strings.TrimSpace(b.String())
}

func scriptOutputs(t testing.TB, e *Env) {
	var heard []driver.Output
	res, err := e.open(t).RunScript(t.Context(), driver.Code{
		Language: "javascript", Source: "console.log('a'); console.error('b'); console.log('c'); 6 * 7",
		OnOutput: func(o driver.Output) error { heard = append(heard, o); return nil }, Timeout: waitLimit,
	})
	if !wantNil(t, "RunScript", err) {
		return
	}
	const want = "stdout=a stderr=b stdout=c result=42"
	if outputText(res.Outputs) != want || outputText(heard) != want || res.ExitCode != 0 || res.Error != nil {
		t.Errorf("got %q, heard %q, exit %d, %+v", outputText(res.Outputs), outputText(heard), res.ExitCode, res.Error)
	}
}

func scriptThrows(t testing.TB, e *Env) {
	res := e.open(t).runScript(t, "console.log('before'); throw new TypeError('no')")
	if res.ExitCode == 0 || res.Error == nil || res.Error.Name != "TypeError" || res.Error.Value != "no" || outputText(res.Outputs) != "stdout=before" {
		t.Errorf("got %+v %+v", res, res.Error)
	}
}

func scriptForgets(t testing.TB, e *Env) {
	p := e.open(t)
	p.runScript(t, "globalThis.kept = 1")
	if got := outputText(p.runScript(t, "typeof kept").Outputs); got != "result='undefined'" {
		t.Errorf("a second script sees what the first left: %s", got)
	}
}

func scriptFiles(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/in.txt", "in")
	res := p.runScript(t, `
const text = fs.readFileSync("dir/in.txt", "utf8");
await fs.writeFile("dir/out.txt", text + " and out");
const codes = [];
for (const path of ["../outside", "/etc/passwd", "dir/../../x", "missing"]) {
  try { fs.readFileSync(path); codes.push("read") } catch (e) { codes.push(e.code) }
}
codes.join()`)
	if got := outputText(res.Outputs); got != "result='EACCES,EACCES,EACCES,ENOENT'" {
		t.Errorf("got %s %+v", got, res.Error)
	}
	p.wantContent(t, "dir/out.txt", "in and out")
}

func scriptBounds(t testing.TB, e *Env) {
	p := e.open(t)
	for _, limit := range []time.Duration{200 * time.Millisecond, 5 * time.Second, waitLimit} { // until it writes something
		began := time.Now()
		res, err := p.RunScript(t.Context(), driver.Code{Source: "console.log('up'); for (;;) {}", Timeout: limit})
		if !wantNil(t, "RunScript", err) {
			return
		}
		if len(res.Outputs) == 0 && limit < waitLimit {
			continue
		}
		if res.Cause != driver.CauseTimeout || outputText(res.Outputs) != "stdout=up" || time.Since(began) < limit {
			t.Errorf("a loop of %v: %+v", limit, res)
		}
		break
	}
	if res := p.runScript(t, "const a = []; for (;;) a.push(new Array(1e5).fill(0.5))"); res.Cause != driver.CauseOOM {
		t.Errorf("too much memory: %+v %+v", res, res.Error)
	}
	p.wantUsable(t)
}

func scriptRefuses(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.RunScript(t.Context(), driver.Code{Language: "cobol", Source: "x"})
	wantCode(t, "a language that it does not run", err, fault.InvalidArgument)
	_, err = p.RunScript(t.Context(), driver.Code{Dir: "../..", Source: "1"})
	wantCode(t, "a directory that leaves", err, fault.SandboxViolation)
}

// newContext creates a context, or skips the check if no kernel is installed.
func (p *testWorkspace) newContext(t testing.TB) string {
	t.Helper()
	c, err := p.CreateContext(t.Context(), "python", nil)
	if fault.Of(err) == fault.Unsupported {
		t.Skipf("skipped: host: it lacks a kernel: %v", err)
	}
	if err != nil {
		t.Fatalf("CreateContext: %v", err)
	}
	return c.ID
}

func (p *testWorkspace) runCode(t testing.TB, code driver.Code) driver.CodeResult {
	t.Helper()
	res, err := p.RunCode(t.Context(), code)
	if err != nil {
		t.Fatalf("RunCode %q: %v", code.Source, err)
	}
	return res
}

// codeContext is one check, because a kernel takes a second to start.
func codeContext(t testing.TB, e *Env) {
	p := e.open(t)
	id := p.newContext(t)
	for _, tt := range []struct{ source, want, fails string }{
		{"import sys\nx = 20\nprint('a', flush=True)\nprint('b', file=sys.stderr, flush=True)\nx", "stdout=a stderr=b result=20", ""},
		{"x + 1", "result=21", ""},
		{"print('c')\n1/0", "stdout=c", "ZeroDivisionError"},
		{"x", "result=20", ""},
	} {
		res := p.runCode(t, driver.Code{Context: id, Source: tt.source})
		name := ""
		if res.Error != nil {
			name = res.Error.Name
		}
		if outputText(res.Outputs) != tt.want || name != tt.fails || (res.ExitCode != 0) != (tt.fails != "") {
			t.Errorf("%q: got %s, exit %d, %+v", tt.source, outputText(res.Outputs), res.ExitCode, res.Error)
		}
	}
	for _, limit := range []time.Duration{300 * time.Millisecond, 5 * time.Second, waitLimit} { // until it writes something
		p.runCode(t, driver.Code{Context: id, Source: "x = 20"}) // an interrupt before the code begins may lose the state
		res := p.runCode(t, driver.Code{Context: id, Source: "import time\nprint('up', flush=True)\ntime.sleep(1000)", Timeout: limit})
		if len(res.Outputs) == 0 && limit < waitLimit {
			continue
		}
		if res.Cause != driver.CauseTimeout || outputText(res.Outputs) != "stdout=up" {
			t.Errorf("time-out of %v: %+v", limit, res)
		}
		break
	}
	if got := outputText(p.runCode(t, driver.Code{Context: id, Source: "x"}).Outputs); got != "result=20" {
		t.Errorf("after the time-out: %s", got)
	}
	wantNil(t, "RestartContext", p.RestartContext(t.Context(), id))
	if res := p.runCode(t, driver.Code{Context: id, Source: "x"}); res.Error == nil || res.Error.Name != "NameError" {
		t.Errorf("after a restart: %+v", res)
	}
	wantNil(t, "DeleteContext", p.DeleteContext(t.Context(), id))
	_, err := p.RunCode(t.Context(), driver.Code{Context: id, Source: "1"})
	wantCode(t, "a context that was deleted", err, fault.NotFound)
}

// codeSandbox runs code in the sandbox of commands: with the same files, and no more.
func codeSandbox(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "in.txt", "in")
	id := p.newContext(t)
	res := p.runCode(t, driver.Code{Context: id, Source: "t = open('in.txt').read()\nopen('out.txt', 'w').write(t + ' and out')\nprint(t)"})
	if outputText(res.Outputs) != "stdout=in" {
		t.Errorf("got %+v %+v", res, res.Error)
	}
	p.wantContent(t, "out.txt", "in and out")
	if e.Traits.Network != driver.NetworkNone {
		return
	}
	res = p.runCode(t, driver.Code{Context: id, Source: "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)"})
	if res.Error == nil {
		t.Error("code reached the network, which Traits.Network says it can't")
	}
}
