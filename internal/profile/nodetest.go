package profile

import (
	"path"
	"slices"
	"strings"
)

// A testRunner is a test runner of Node: how to run it once, and how it takes files.
type testRunner struct {
	name    string
	once    []string // arguments to run once, without watch mode
	scoped  []string // arguments to take files literally
	configs []string // its configuration files
	key     string   // its key in package.json
}

var runners = []testRunner{
	{name: "vitest", once: []string{"run"}, configs: nodeConfigs("vitest.config", "vitest.workspace")},
	{name: "jest", scoped: []string{"--runTestsByPath"}, configs: append(nodeConfigs("jest.config"), "jest.config.json"), key: "jest"},
	{name: "mocha", configs: []string{".mocharc.js", ".mocharc.cjs", ".mocharc.mjs", ".mocharc.yaml", ".mocharc.yml", ".mocharc.json", ".mocharc.jsonc"}, key: "mocha"},
	{name: "ava", configs: []string{"ava.config.js", "ava.config.cjs", "ava.config.mjs"}, key: "ava"},
}

func nodeConfigs(stems ...string) []string {
	var out []string
	for _, stem := range stems {
		for _, ext := range []string{".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"} {
			out = append(out, stem+ext)
		}
	}
	return out
}

func (n *nodeProject) detectTests() {
	script := n.scriptText("test")
	if strings.Contains(script, "no test specified") {
		script = "" // the default of npm init
	}
	argv, simple := testProgram(script)
	switch {
	case script == "":
		n.testsByEvidence()
	case len(argv) > 0 && n.testsByProgram(argv, simple):
	default:
		n.Test = n.command(n.Proof, n.runScript("test")...).matching(pageFiles)
		if strings.Contains(script, "react-scripts test") {
			n.Test.Argv = append(n.Test.Argv, "--", "--watchAll=false")
		}
		n.scopedByEvidence()
	}
}

// testsByProgram handles a test script that starts a known runner. A script that does more
// is run unchanged.
func (n *nodeProject) testsByProgram(argv []string, simple bool) bool {
	scoped, once, known := n.startRunner(argv, simple)
	if !known {
		return false
	}
	n.ScopedTest = n.command(n.Proof, append(slices.Clone(scoped), Files)...).matching(scriptFiles).withWhole(once...)
	n.Test = n.command(n.Proof, once...).matching(pageFiles)
	if !simple {
		n.Test = n.command(n.Proof, n.runScript("test")...).matching(pageFiles)
		n.ScopedTest = n.ScopedTest.withWhole(n.runScript("test")...)
	}
	return true
}

// startRunner returns the commands for some files and for all.
func (n *nodeProject) startRunner(argv []string, simple bool) (scoped, once []string, known bool) {
	name := path.Base(argv[0])
	flags, rest := runnerFlags(argv[1:])
	if !simple {
		flags, rest = nil, nil
	}
	switch {
	case !startsTests(argv):
		return nil, nil, false
	case name == "bun":
		scoped = append([]string{"bun", "test"}, flags...)
		return scoped, scoped, true
	case name == "node" || name == "tsx":
		if !simple {
			flags = []string{"--test"}
		}
		scoped = append([]string{"node"}, flags...)
		if name == "tsx" {
			scoped = append(n.execArgv("tsx"), flags...)
		}
		return scoped, append(slices.Clone(scoped), rest...), true
	}
	r := runners[slices.IndexFunc(runners, func(r testRunner) bool { return r.name == name })]
	if len(rest) > 0 && slices.Contains([]string{"run", "watch", "dev"}, rest[0]) {
		rest = rest[1:]
	}
	base := n.execArgv(r.name, append(slices.Clone(r.once), flags...)...)
	return append(slices.Clone(base), r.scoped...), append(slices.Clone(base), rest...), true
}

// runnerFlags splits arguments into flags, without watch flags, and the rest. The value of
// a flag stays with it.
func runnerFlags(args []string) (flags, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.HasPrefix(a, "--watch") || a == "-w" || a == "--run":
		case !strings.HasPrefix(a, "-"):
			rest = append(rest, a)
		default:
			flags = append(flags, a)
			if takesValue(a) && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		}
	}
	return flags, rest
}

func takesValue(flag string) bool {
	switch flag {
	case "-c", "--config", "--root", "-r", "--require", "--import", "--loader", "--experimental-loader", "--project", "--environment",
		"--reporter", "--dir", "--mode", "--timeout", "-t", "--maxWorkers", "--test-reporter", "--test-concurrency", "--test-timeout", "--preload":
		return true
	}
	return false
}

func (n *nodeProject) testsByEvidence() {
	n.scopedByEvidence()
	if once, ok := n.ScopedTest.All(); ok {
		n.Test = n.command(n.ScopedTest.Proof, once...).matching(pageFiles)
		return
	}
	if n.PackageManager == "bun" {
		n.ScopedTest = n.command(n.PackageManagerProof, "bun", "test", Files).matching(scriptFiles).withWhole("bun", "test")
		n.Test = n.command(n.PackageManagerProof, "bun", "test").matching(pageFiles)
	}
}

// scopedByEvidence finds a runner by its configuration, else by a dependency on it.
func (n *nodeProject) scopedByEvidence() {
	for _, byDep := range []bool{false, true} {
		for _, r := range runners {
			proof := n.s.firstFile(n.Dir, r.configs...)
			if proof == "" && r.key != "" && n.manifest.hasKey(r.key) || byDep && n.deps[r.name] {
				proof = n.Proof
			}
			base := n.execArgv(r.name, r.once...)
			if proof == "" || base == nil {
				continue
			}
			scoped := append(append(slices.Clone(base), r.scoped...), Files)
			n.ScopedTest = n.command(proof, scoped...).matching(scriptFiles).withWhole(base...)
			return
		}
	}
}

// testProgram returns the command of a test script that runs the tests, if its program is
// known. simple means that the script is only that command, so that it can be run without a
// shell.
func testProgram(script string) (argv []string, simple bool) {
	segments := splitScript(script)
	for _, words := range segments {
		rest, bare := unwrapCommand(words)
		if len(rest) == 0 {
			continue
		}
		if startsTests(rest) {
			return rest, bare && len(segments) == 1 && !strings.ContainsAny(script, "$`\"'\\*?<>(){}~")
		}
	}
	return nil, false
}

// splitScript splits a script into commands, and these into words.
func splitScript(script string) [][]string {
	replaced := strings.NewReplacer("&&", "\n", "||", "\n", ";", "\n", "|", "\n", "&", "\n").Replace(script)
	var out [][]string
	for line := range strings.Lines(replaced) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// unwrapCommand drops what precedes the program: assignments, and programs that run a
// program. bare is false if something was dropped that changes what runs.
func unwrapCommand(words []string) (rest []string, bare bool) {
	bare = true
	for len(words) > 0 {
		w := words[0]
		switch {
		case strings.Contains(w, "=") && !strings.HasPrefix(w, "-"), w == "cross-env", w == "c8", w == "nyc", w == "dotenv", w == "env":
			bare = false
		case w == "npx", w == "bunx", w == "pnpx":
		case (w == "pnpm" || w == "yarn") && len(words) > 1:
			if words[1] != "exec" && words[1] != "dlx" && !isRunner(words[1]) {
				return words, bare
			}
			if !isRunner(words[1]) {
				words = words[1:]
			}
		case strings.HasPrefix(w, "-"):
		default:
			return words, bare
		}
		words = words[1:]
	}
	return nil, bare
}

// startsTests reports whether a command runs tests in a known way.
func startsTests(argv []string) bool {
	switch name := path.Base(argv[0]); name {
	case "node", "tsx":
		return slices.Contains(argv, "--test")
	case "bun":
		return len(argv) > 1 && argv[1] == "test"
	default:
		return isRunner(name)
	}
}

func isRunner(name string) bool {
	return slices.ContainsFunc(runners, func(r testRunner) bool { return r.name == name })
}
