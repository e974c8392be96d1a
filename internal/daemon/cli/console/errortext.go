package console

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/server/advice"
)

// packageNames are the packages and providers whose names begin errors. A user knows none
// of them from the command line.
var packageNames = []string{
	"app", "backup", "client", "cmdpolicy", "config", "docker", "e2b", "egress", "eval", "files", "filestore", "history", "jupyter", "local", "mcpserver", "memory",
	"process", "registry", "sandbox", "setup", "snapshot", "ssh", "stage", "store", "suite", "template", "work",
}

// innerStep is an operation of a package, which the command line implies.
var innerStep = lazyregexp.New(`^(open|create|ask the engine|probe|ping the engine)( "[^"]*"| [a-z0-9]{20})?$`)

// errorText returns an error as two texts for a user: what is wrong, and what to do.
func (a *Console) errorText(err error) (what, hint string) {
	text, list := fault.SplitHints(err)
	var lines, hints []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, withoutCode(TrimPackages(a.withNames(line))))
	}
	for _, h := range list {
		if h.Kind == fault.HintProgram && fault.Of(err) != fault.NotFound { // it is no program
			continue
		}
		if words := a.withNames(hintWords(h, a.InWork)); words != "" && !slices.Contains(hints, words) {
			hints = append(hints, words)
		}
	}
	switch {
	case a.tokenOf != "" && fault.Of(err) == fault.Unauthenticated && strings.Contains(text, "wrong token"):
		hints = []string{"the token is that of the data directory " + a.tokenOf + ", and the server's is perhaps another: give --token, " +
			"set CROFT_TOKEN, or set CROFT_DATA to the data directory of the server, whose file token has it"}
	case len(hints) > 0:
	case fault.Of(err) == fault.SandboxViolation:
		hints = []string{"give a path inside the workspace, such as src/main.go"}
	case errors.Is(err, fs.ErrNotExist):
		hints = []string{"check the path"}
	case errors.Is(err, syscall.ENOTDIR):
		hints = []string{"give a directory, not a file"}
	}
	return strings.Join(lines, "\n"), strings.Join(hints, "\nhint: ")
}

// TrimPackages removes the names of packages and their steps from the beginning of a text,
// and a fault code that has its reason after it.
func TrimPackages(text string) string {
	isCode := func(s string) bool {
		return slices.ContainsFunc(fault.All(), func(c fault.Code) bool { return c.Error() == s })
	}
	for inside := false; ; {
		head, rest, more := strings.Cut(text, ": ")
		switch {
		case !more:
			return text
		case slices.Contains(packageNames, head):
			inside = true
		case !isCode(head) && (!inside || !innerStep.MatchString(head)):
			return text
		}
		text = rest
	}
}

// withoutCode says of a value that it is not valid, instead of the code.
func withoutCode(text string) string {
	what, ok := strings.CutSuffix(text, ": "+fault.InvalidArgument.Error())
	if ok && strings.HasSuffix(what, `"`) && !strings.Contains(what, "unknown ") {
		what += " is not valid"
	}
	return what
}

// withNames names workspaces by the names that the user gave, instead of their ids.
func (a *Console) withNames(text string) string {
	for key, value := range a.named.Range {
		id, name := key.(string), value.(string) //nolint:forcetypeassert // as WithOpened stores them
		text = strings.NewReplacer(`workspace "`+id+`"`, `workspace "`+name+`"`, "workspace "+id, "workspace "+name).Replace(text)
	}
	return text
}

// hintSay is the kind of a hint that a command itself gives: its words.
const hintSay fault.HintKind = "say"

// Say adds to an error what the user of a command can do about it, unless the error says that already.
func Say(err error, words string) error {
	if len(fault.HintsOf(err)) > 0 {
		return err
	}
	return fault.WithHint(err, hintSay, words)
}

// SayOf is say for an error with a code.
func SayOf(code fault.Code, err error, words string) error {
	if fault.Of(err) != code {
		return err
	}
	return Say(err, words)
}

// hintWords says a hint in the words of the command line.
func hintWords(h fault.Hint, inWork bool) string {
	tables := []map[fault.HintKind]map[string]string{workHints, hintTexts}
	if !inWork {
		tables = tables[1:]
	}
	if name := h.Arg(0); h.Kind == fault.HintProgram {
		switch {
		case strings.Contains(name, " "):
			h.Args = []string{"words"}
		case strings.Contains(name, "/"):
			h.Args = []string{"path"}
		case slices.Contains(shellBuiltins, name):
			h.Args = []string{"builtin"}
		}
	}
	for _, table := range tables {
		if words := advice.Lookup(table, h); words != "" {
			return words
		}
	}
	if h.Text != "" {
		return h.Text
	}
	return advice.Words(h)
}

// shellBuiltins are no programs.
var shellBuiltins = strings.Fields("cd export source alias ulimit umask set unset type eval")

// What to do, for several hints.
const (
	useShell     = "it is a builtin of the shell: -- sh -c 'cd src && make'"
	leaveOutSudo = "leave out sudo: nothing inside becomes another user, and the files of the workspace are its own already; " + HostPackages
	workSudo     = "leave out sudo: the files of the work are its own already; programs are those of this host: install packages here, outside of the work"
)

// hintTexts are what to do, by the kind of a hint and its first argument; "*" is any other one, and
// stands for it.
var hintTexts = map[fault.HintKind]map[string]string{
	hintSay:              {"*": "*"},
	fault.HintBestEffort: {"": "to go on without this limit: --best-effort, or bestEffort of the limit in croft.yaml and in requests"},
	fault.HintDenied: {
		"":     "leave it out: no command of a workspace may change the machine, or run what commands.deny of croft.yaml lists",
		"sudo": leaveOutSudo, "su": leaveOutSudo,
	},
	fault.HintDoctor: {"": "croft doctor says what this host lacks; --provider docker isolates, too, and --provider local does not"},
	fault.HintImage: {"": `import it with "croft image import", or name one that the engine has: --options '{"image":"NAME"}', ` +
		"options.image of the provider in croft.yaml"},
	fault.HintKey: {
		"": "give the token that croft up prints, or a key that croft key create makes on the server's host", "*": "croft key create --scope * makes a key for it",
	},
	fault.HintList: {
		"artifacts":       "croft artifact list NAME lists those of a workspace",
		"keys":            `"croft key list" lists the keys`,
		"sessions":        `"croft ws ps" lists the sessions`,
		"snapshots":       "croft ws snapshots NAME lists those of a workspace, croft snapshot list all",
		"templates":       `"croft template list" lists the templates`,
		"workspaces":      "croft ws list lists the workspaces (one of another tenant goes by its id); croft ws open NAME makes one",
		"workspace names": "croft ws list lists the names; a directory of this host is --dir DIR",
	},
	fault.HintMinimum: {
		"": "give a larger value", "memory": "give a larger value, with a unit: 512M, 2G", "disk": "give a larger value, with a unit: 512M, 2G",
	},
	fault.HintPattern: {"": `quote special characters with \, or search for a text: croft ws grep -F NAME TEXT`},
	fault.HintProgram: {
		"": "the command is a program, not an image; a sandbox has those of this host below /usr and /opt, and with --toolchain auto " +
			"those of your home directory",
		"path": "the path is inside the workspace; croft run begins with an empty one: --template . starts it with a copy of this directory, " +
			"--rw . works in this directory",
		"words":   "the program and its arguments are separate words, such as: -- echo hi; a shell command is: -- sh -c 'echo hi'",
		"builtin": useShell,
		"python":  "the program is perhaps called python3 here",
	},
	fault.HintProvider: {
		"commands":   "use --provider sandbox, or another one with a shell: croft provider list",
		"pausing":    "use --provider sandbox for a workspace that can be paused: croft provider list",
		"kubernetes": "it is in a program of its own, croft-k8s; docs/kubernetes.md says how to install it",
		"podman": "the provider docker works with Podman: --provider docker, with DOCKER_HOST=unix:///run/podman/podman.sock " +
			"if it is not found by itself",
	},
	fault.HintReach: {
		"":    "is the server running? croft up starts one; leave out --server, and unset CROFT_SERVER, to use the data directory",
		"TLS": "check whether the URL of --server begins with http:// or https://; SSL_CERT_FILE=FILE names the authority that signed its certificate",
	},
	fault.HintReset: {"*": "put it back, and run croft ws reset *"},
	fault.HintSetting: {
		"hosts":   "add a name with --host, or with server.hosts in croft.yaml",
		"secrets": "a secret is a variable with the prefix CROFT_SECRET_, such as CROFT_SECRET_E2B_API_KEY, or a file of secrets.dir",
	},
	fault.HintSnapshot: {
		"": "open a workspace with croft ws open NAME --checkpoints, or take a snapshot first: croft ws snapshot NAME",
	},
	fault.HintState: {
		"": "croft ws list shows the states", "reset": "only a failed workspace needs it: croft ws describe NAME shows the state",
	},
}

// workHints are those of croft work, which has the toolchains already, and neither --provider nor images.
var workHints = map[fault.HintKind]map[string]string{
	fault.HintDenied: {"sudo": workSudo, "su": workSudo},
	fault.HintDoctor: {"": "croft doctor says what this host lacks; --isolation none does without a sandbox"},
	fault.HintProgram: {
		"": "install it on this host; a work in the sandbox has the programs below /usr and /opt, and the toolchains of your home directory " +
			"(docs/work.md lists them), and with --ro DIR those of DIR",
		"path":    "the path is inside the copy of the project, from the current directory",
		"builtin": useShell,
	},
}

// HostPackages says what to do instead of installing packages.
const HostPackages = "programs are those of this host, read-only: install packages here, or choose an image that has them (docs/docker.md)"
