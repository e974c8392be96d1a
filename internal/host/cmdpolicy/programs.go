package cmdpolicy

import (
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// checkPrograms checks the programs of an analysis against the deny and allow lists.
func (c *Checker) checkPrograms(f *analysis) error {
	for _, program := range f.calls {
		p := program.words[0]
		if name, ok := matchDenied(p, c.opts.Commands.Deny); ok {
			return newRefusal(RuleCommands, fault.SandboxViolation, withName(TextDenied, name), "")
		}
		if r := c.checkAllowed(f, program); r != nil {
			return r
		}
	}
	switch f.problem {
	case "":
		return nil
	case TextUnparsed:
		if c.opts.Commands.Unparsed && len(c.opts.Commands.Allow) == 0 {
			return nil
		}
	}
	return newRefusal(RuleWellFormed, fault.InvalidArgument, f.problem, f.where)
}

// matchDenied reports whether a program matches the deny list, or is a glob that could.
func matchDenied(p word, deny []string) (string, bool) {
	if !p.known {
		return "", false
	}
	name := programName(p.text)
	for _, d := range deny {
		d = strings.ToLower(d)
		if matchPattern(d, name) || p.glob && matchPattern(name, d) {
			return name, true
		}
	}
	return "", false
}

// checkAllowed refuses a program that is not on the allow list, if there is one.
func (c *Checker) checkAllowed(f *analysis, program call) *Refusal {
	p, allow := program.words[0], c.opts.Commands.Allow
	if len(allow) == 0 {
		return nil
	}
	if !p.known || p.glob && p.text != "[" {
		return newRefusal(RuleCommands, fault.PermissionDenied, TextUnknown, p.text)
	}
	if program.script && (builtins[p.text] || f.functions[p.text]) {
		return nil
	}
	if slices.ContainsFunc(allow, func(pattern string) bool { return matchPattern(pattern, p.text) }) {
		return nil
	}
	return newRefusal(RuleCommands, fault.PermissionDenied, withName(TextNotAllowed, p.text), "")
}

// matchPattern is path.Match for patterns that may come from a script: an invalid one
// matches nothing.
func matchPattern(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// programName returns the last element of a program's path, in lower case and without
// ".exe".
func programName(p string) string {
	name := strings.ToLower(strings.TrimSpace(p))
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.TrimSuffix(name, ".exe")
}

// builtins are builtins of the shell that run no program; the analysis finds programs in
// their arguments separately.
var builtins = wordSet(`: [ [[ alias bg break builtin cd command continue declare dirs echo eval exec exit export false fg
	getopts hash help jobs kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt
	test time times trap true type typeset ulimit umask unalias unset wait`)

func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// A wrapper describes how a program that runs another one finds it in its arguments.
type wrapper struct {
	short  string // options that take a value, by letter
	long   string // options that take a value in the next word
	noRun  string // options with which it runs no program
	script string // options, by letter or word, whose value is a script
	skip   int    // arguments before the program
	assign bool   // NAME=VALUE may stand before the program
}

var wrappers = map[string]wrapper{
	"env":              {short: "uCa", long: "unset chdir argv0", assign: true},
	"nice":             {short: "n", long: "adjustment"},
	"nohup":            {},
	"setsid":           {},
	"exec":             {short: "a"},
	"command":          {noRun: "vV"},
	"builtin":          {},
	"time":             {short: "fo", long: "format output"},
	"timeout":          {short: "sk", long: "signal kill-after", skip: 1},
	"stdbuf":           {short: "ioe", long: "input output error"},
	"xargs":            {short: "adEILnPsJRS", long: "arg-file delimiter max-lines max-args max-procs max-chars replace process-slot-var"},
	"ionice":           {short: "cn", long: "class classdata", noRun: "pPu"},
	"chrt":             {short: "TPD", long: "sched-runtime sched-period sched-deadline", noRun: "pm", skip: 1},
	"taskset":          {noRun: "p", skip: 1},
	"numactl":          {short: "iNCmpl", long: "interleave cpunodebind physcpubind membind preferred"},
	"prlimit":          {short: "po", long: "pid output"},
	"setpriv":          {long: "ruid euid rgid egid reuid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile"},
	"unshare":          {short: "RwSGl", long: "root wd setuid setgid propagation setgroups map-user map-group load-interp"},
	"nsenter":          {short: "tSG", long: "target setuid setgid"},
	"flock":            {short: "wE", long: "timeout conflict-exit-code", script: "c command", skip: 1},
	"script":           {short: "BEIOTmo", script: "c command", skip: 1},
	"strace":           {short: "abeEIoOpPsSuUX", long: "expr output env attach trace user"},
	"ltrace":           {short: "aAeDFlnopsuwx"},
	"catchsegv":        {},
	"caffeinate":       {short: "tw"},
	"chronic":          {},
	"unbuffer":         {},
	"fakeroot":         {short: "lsib", long: "lib save-file"},
	"dbus-run-session": {long: "config-file dbus-daemon"},
	"rlwrap":           {short: "abCDefgHlmOpPqsStwz"},
	"systemd-run":      {short: "pPuEHMtG", long: "unit property description slice uid gid nice working-directory setenv machine"},
	"doas":             {short: "Cu"},
	"runuser":          {short: "ugGs", long: "user group supp-group shell", script: "c command"},
	"pkexec":           {long: "user"},
	"faketime":         {short: "f", skip: 1},
	"linux32":          {},
	"linux64":          {},
	"setarch":          {skip: 1},
	"busybox":          {},
	"toybox":           {},
	"choom":            {short: "np", long: "adjust pid"},
	"uclampset":        {short: "mMp", long: "util-min util-max pid"},
	"eatmydata":        {},
	"torsocks":         {},
	"proxychains":      {short: "f"},
	"proxychains4":     {short: "f"},
	"valgrind":         {},
	"ssh-agent":        {short: "aEOPt"},
	"dbus-launch":      {},
	"xvfb-run":         {short: "efnpsw", long: "error-file auth-file server-num xauth-protocol server-args wait"},
	"ifne":             {},
	"entr":             {},
	"cgexec":           {short: "g"},
	"systemd-inhibit":  {long: "what who why mode"},
	"sg":               {script: "c", skip: 1},
}

// shells run scripts.
var shells = wordSet("sh bash dash ash zsh ksh mksh rbash busybox-sh yash posh fish")

// addCall adds a call and the calls that it runs in turn.
func (f *analysis) addCall(words []word, depth int) {
	for len(words) > 0 {
		if depth > maxDepth {
			f.setProblem(TextNested, "")
			return
		}
		at := len(f.calls)
		f.calls = append(f.calls, call{words, f.level > 0})
		if !words[0].known {
			return
		}
		own, rest, deeper := f.splitInnerCall(words, depth)
		f.calls[at].words = own
		words, depth = rest, depth+deeper
	}
}

// splitInnerCall splits the words of a call into its own and those of the program that it
// runs, and adds scripts that it runs. deeper is 1 if rest is not just the end of words.
func (f *analysis) splitInnerCall(words []word, depth int) (own, rest []word, deeper int) {
	name := programName(words[0].text)
	w, ok := wrappers[name]
	if !ok && strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") { // the dynamic loader runs its argument
		w, ok = wrapper{long: "library-path inhibit-rpath audit preload argv0"}, true
	}
	switch {
	case shells[name]:
		return f.addShell(words, depth), nil, 0
	case name == "env":
		return splitEnvCall(words)
	case !ok:
		return f.addSpecial(name, words, depth), nil, 0
	}
	rest, scripts := w.splitArgs(words[1:])
	own = words[:len(words)-len(rest)]
	for _, s := range scripts {
		f.addNestedScript(s, depth)
		own = slices.DeleteFunc(slices.Clone(own), func(o word) bool { return o == s })
	}
	return own, rest, 0
}

// addNestedScript adds a script that is an argument.
func (f *analysis) addNestedScript(s word, depth int) { f.addScript(s.asScript(), depth+1) }

// splitArgs returns the arguments of a wrapper that are the program it runs, and scripts.
func (w wrapper) splitArgs(args []word) (rest, scripts []word) {
	i := 0
	for i < len(args) && args[i].known {
		t := args[i].text
		if w.assign && isAssignment(t) {
			i++
			continue
		}
		if len(t) < 2 || t[0] != '-' {
			break
		}
		i++
		if t == "--" {
			break
		}
		takes, value, isScript, idle := w.parseOption(t)
		if idle {
			return nil, scripts
		}
		v := literalWord(value)
		if takes && value == "" && i < len(args) {
			v = args[i]
			i++
		}
		if isScript {
			scripts = append(scripts, v)
		}
	}
	for w.assign && i < len(args) && isAssignment(args[i].text) {
		i++
	}
	if i += w.skip; i >= len(args) {
		return nil, scripts
	}
	if w.script != "" && args[i].text == "-"+w.script[:1] && i+1 < len(args) { // flock FILE -c SCRIPT
		return nil, append(scripts, args[i+1])
	}
	return args[i:], scripts
}

// parseOption parses a word of options: whether the last option takes a value, and that
// value if it is part of the word.
func (w wrapper) parseOption(t string) (takes bool, value string, isScript, idle bool) {
	if name, ok := strings.CutPrefix(t, "--"); ok {
		name, value, has := strings.Cut(name, "=")
		isScript = len(name) > 1 && slices.Contains(strings.Fields(w.script), name)
		return !has && (isScript || slices.Contains(strings.Fields(w.long), name)), value, isScript, false
	}
	for j := 1; j < len(t); j++ {
		c := t[j : j+1]
		if strings.Contains(w.noRun, c) {
			return false, "", false, true
		}
		if isScript = w.script != "" && c == w.script[:1]; isScript || strings.Contains(w.short, c) {
			return true, t[j+1:], isScript, false
		}
	}
	return false, "", false, false
}

func isAssignment(s string) bool {
	i := strings.IndexByte(s, '=')
	return i > 0 && !strings.ContainsAny(s[:i], "/-")
}
