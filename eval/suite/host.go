package suite

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// newHost makes the object by which built-in modules call Go. Suites have no access to
// it.
func (v *vm) newHost(l *Loader) *goja.Object {
	h := v.rt.NewObject()
	set := func(name string, value any) { must(h.Set(name, value)) }
	set("state", func() goja.Value {
		if v.current == nil || v.current.state == nil {
			return goja.Undefined()
		}
		return v.current.state
	})
	set("parseCommand", func(line string) goja.Value { return v.fromJSON(parseCommand(line)) })
	set("stack", v.nodeStack)
	set("frame", v.userFrame)
	set("log", func(level, text string) { v.writeLog(l, Log{Level: level, Text: text}) })
	set("callText", func(stack string) string {
		if frames := v.mappedFrames(stack); len(frames) > 0 {
			return v.sources.callText(frames[0])
		}
		return ""
	})
	set("exit", v.exitExecution)
	set("timer", v.startTimer)
	set("fs", v.fileCall)
	set("env", v.envCall)
	set("envAsync", v.envAsync)
	set("unicodeClasses", unicodeClasses)
	set("parseURL", v.parseURL)
	set("setURLPart", v.setURLPart)
	set("nodeBuffer", v.nodeBuffer)
	set("hashes", hashNames)
	set("digest", v.digestOf)
	set("randomBytes", v.randomBytes)
	set("localTime", v.localTime)
	set("isProxy", func(value goja.Value) bool { _, ok := value.Export().(goja.Proxy); return ok })
	set("promiseState", v.promiseState)
	set("room", v.memoryRefusal)
	v.setHostFacts(set, l)
	return h
}

// promiseState returns the state of a promise, and its result.
func (v *vm) promiseState(value goja.Value) []any {
	p, ok := value.Export().(*goja.Promise)
	if !ok || p.State() == goja.PromiseStatePending {
		return []any{"pending", goja.Undefined()}
	}
	if p.State() == goja.PromiseStateRejected {
		return []any{"rejected", p.Result()}
	}
	return []any{"fulfilled", p.Result()}
}

// must panics on errors that only a bug can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// setHostFacts sets data about the machine that suites may read.
func (v *vm) setHostFacts(set func(string, any), l *Loader) {
	env := v.rt.NewObject()
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			must(env.Set(name, value))
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	set("environ", env)
	set("argv", []string{"croft", "eval"})
	set("cwd", cwd)
	set("tmpdir", filepath.Clean(l.TmpDir))
	set("homedir", home)
	set("userHomedir", userHome(home))
	set("hostname", name)
	set("platform", runtime.GOOS)
	set("arch", map[string]string{"amd64": "x64", "386": "ia32", "arm64": "arm64"}[runtime.GOARCH])
	set("cpus", runtime.NumCPU())
	set("username", userName())
	set("timeZone", localZone())
	set("pid", os.Getpid())
	set("ppid", os.Getppid())
	set("uid", os.Getuid())
	set("gid", os.Getgid())
	started := time.Now()
	set("uptime", func() float64 { return time.Since(started).Seconds() })
}

// userName is the name of the user, "" if it is not known.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return os.Getenv("USER")
	}
	return u.Username
}

// userHome is the home of the user in the database of users, as os.userInfo of Node has it; HOME
// may be another directory.
func userHome(home string) string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || u.HomeDir == "" {
		return home
	}
	return u.HomeDir
}

// localZone is the name of the local time zone, "" if it is not known.
func localZone() string {
	to, err := os.Readlink("/etc/localtime")
	if err != nil {
		return ""
	}
	_, name, _ := strings.Cut(to, "/zoneinfo/")
	return strings.TrimPrefix(name, "Etc/")
}

// maxLogBytes bounds the console output of an execution.
const maxLogBytes = 1 << 20

func (v *vm) writeLog(l *Loader, line Log) {
	ex := v.current
	if ex == nil {
		return
	}
	if ex.written += len(line.Text); ex.written > maxLogBytes {
		return
	}
	ex.logs = append(ex.logs, line)
	if l.Log != nil {
		l.Log(line)
	}
}

// exitExecution ends the execution instead of the process. A suite that catches the error
// can't undo that.
func (v *vm) exitExecution(code int) {
	err := fmt.Errorf("suite: %w: the suite called process.exit(%d)", fault.Failed, code)
	if v.current != nil {
		v.current.fail(err)
	}
	panic(v.toJSError(err))
}

// memoryRefusal returns why an operation would exceed the memory limit, undefined if it
// would not.
func (v *vm) memoryRefusal(bytes float64) goja.Value {
	if v.watchdog == nil { // the engine is booting
		return goja.Undefined()
	}
	if err := v.watchdog.checkMemory(bytes); err != nil {
		return v.rt.ToValue(withoutCode(err))
	}
	return goja.Undefined()
}

// toJSError converts an error of Go to one of JavaScript, with the code of the fault, or
// Node's errno for a file.
func (v *vm) toJSError(err error) *goja.Object {
	var js *goja.Exception
	if errors.As(err, &js) {
		if o, ok := js.Value().(*goja.Object); ok {
			return o
		}
	}
	o, newErr := v.rt.New(v.rt.Get("Error"), v.rt.ToValue(err.Error()))
	if newErr != nil {
		return v.rt.NewGoError(err)
	}
	code := fault.Of(err)
	var e *fileError
	switch {
	case errors.As(err, &e) && e.errno != "":
		must(o.Set("code", e.errno))
		must(o.Set("syscall", e.op))
		must(o.Set("path", e.path))
	default:
		must(o.Set("code", code.Wire()))
	}
	if code == fault.SandboxViolation {
		must(o.Set("name", "SandboxViolation"))
	}
	return o
}
