package cli

import (
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
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
func (a *command) errorText(err error) (what, hint string) {
	var lines, hints []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line, advice := cutAdvice(trimPackages(a.withNames(line)))
		if own := adviceFor(line); advice == "" || insteadOfAdvice.MatchString(line) {
			advice = own
		}
		if a.inWork {
			advice = workAdvice(advice)
		}
		if a.tokenOf != "" && strings.Contains(line, "wrong token") {
			advice = "the token is that of the data directory " + a.tokenOf + ", and the server's is perhaps another: give --token, set CROFT_TOKEN, or set CROFT_DATA to the data directory of the server, whose file token has it"
		}
		lines = append(lines, line)
		if advice != "" && !slices.Contains(hints, advice) {
			hints = append(hints, advice)
		}
	}
	return strings.Join(lines, "\n"), strings.Join(hints, "\nhint: ")
}

// trimPackages removes the names of packages and their steps from the beginning of a text,
// and a fault code that has its reason after it.
func trimPackages(text string) string {
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

// withNames names workspaces by the names that the user gave, instead of their ids.
func (a *command) withNames(text string) string {
	for id, name := range a.named {
		text = strings.NewReplacer(`workspace "`+id+`"`, `workspace "`+name+`"`, "workspace "+id, "workspace "+name).Replace(text)
	}
	return text
}

// adviceStart finds the part of a text that says what to do, or what is allowed.
var adviceStart = lazyregexp.New(`(?:; |: )((?:did you mean |give |choose |use: |use (?:--|one|another|the) ?|install (?:it|a) |upgrade |run it as |leave out |name a |set the variable |` +
	`check (?:if|the|whether) |"croft |croft [a-z]|allowed are |known: |the [a-z]+ are |a name is |expected [a-z]+ or ).*)$`)

// bareValue is a text that names a value, and not what is wrong with it.
var bareValue = lazyregexp.New(`^(?:[^"]*: )?(?:[A-Za-z-]+ )*"[^"]*"$`)

// cutAdvice separates what is wrong from what to do.
func cutAdvice(text string) (what, advice string) {
	if limit, flag, ok := strings.Cut(text, " (to go on without this limit: "); ok {
		return limit, "to go on without this limit: " + strings.TrimSuffix(flag, ")")
	}
	at := adviceStart.FindStringSubmatchIndex(text)
	if at == nil {
		return text, ""
	}
	what, advice = text[:at[0]], text[at[2]:]
	// The reason before the advice is clear without the code, unless it is all there is.
	for _, c := range fault.All() {
		if before, ok := strings.CutSuffix(what, ": "+c.Error()); ok && c == fault.InvalidArgument {
			what = before
			if bareValue.MatchString(what) && !strings.Contains(what, "unknown ") && !strings.Contains(what, "no ") {
				what += " is not valid"
			}
		}
	}
	return what, advice
}

// insteadOfAdvice matches errors whose own advice does not help: that of Docker's library, and
// the list of this program's providers where another program has the one that is meant.
var insteadOfAdvice = lazyregexp.New(`failed to connect to the docker API|^unknown provider "(kubernetes|podman)"`)

// What to do about programs. In croft work it is another advice, see workAdvice.
const (
	pathAdvice     = "the path is inside the workspace; croft run begins with an empty one: --template . starts it with a copy of this directory, --rw . works in this directory"
	workPathAdvice = "the path is inside the copy of the project, from the current directory"
	sudoAdvice     = "leave out sudo: nothing inside becomes another user, and the files of the workspace are its own already; " +
		hostPackages
	workSudoAdvice    = "leave out sudo: the files of the work are its own already; programs are those of this host: install packages here, outside of the work"
	programAdvice     = "the command is a program, not an image; a sandbox has those of this host below /usr and /opt, and with --toolchain auto those of your home directory"
	workProgramAdvice = "install it on this host; a work in the sandbox has the programs below /usr and /opt, and the toolchains of your home directory (docs/work.md lists them), and with --ro DIR those of DIR"
)

// workAdvice returns what to do in croft work, which has the toolchains already, and neither
// --provider nor images.
func workAdvice(advice string) string {
	switch advice {
	case pathAdvice:
		return workPathAdvice
	case sudoAdvice:
		return workSudoAdvice
	case programAdvice:
		return workProgramAdvice
	}
	if before, _, ok := strings.Cut(advice, "; --provider "); ok {
		return before + "; --isolation none does without a sandbox"
	}
	return advice
}

// advices are what to do about errors that do not say it themselves.
var advices = []struct {
	text   *lazyregexp.Regexp
	advice string
}{
	{lazyregexp.New(`^workspace "[^"]*": not found$`), "croft ws list lists the workspaces (one of another tenant goes by its id); croft ws open NAME makes one"},
	{lazyregexp.New(`^workspace "[^"/]*[./~][^"]*"`), "croft ws list lists the names; a directory of this host is --dir DIR"},
	{lazyregexp.New(`^work "[^"]*": not found$`), "croft work list --all lists the works"},
	{lazyregexp.New(`^snapshot "[^"]*": not found`), "croft ws snapshots NAME lists those of a workspace, croft snapshot list all"},
	{lazyregexp.New(`^resolve "[^"]*": .*is not reachable: unavailable`), "the workspace keeps its files; try again when its machine or server answers"},
	{lazyregexp.New(`API key: secret "[^"]*": (?:secrets not configured|unknown secret)`), "a secret is a variable with the prefix CROFT_SECRET_, such as CROFT_SECRET_E2B_API_KEY, or a file of secrets.dir"},
	{lazyregexp.New(`^artifact .*: not found`), "croft artifact list NAME lists those of a workspace"},
	{lazyregexp.New(`^server .*(connection refused|invalid port|no such host|i/o timeout)`), "is the server running? croft up starts one; leave out --server, and unset CROFT_SERVER, to use the data directory"},
	{lazyregexp.New(`certificate signed by unknown authority`), "SSL_CERT_FILE=FILE names the authority that signed the server's certificate"},
	{lazyregexp.New(`certificate|HTTP response to HTTPS client`), "check whether the URL of --server begins with http:// or https://"},
	{lazyregexp.New(`^unknown provider "kubernetes"`), "it is in a program of its own, croft-k8s; docs/kubernetes.md says how to install it"},
	{lazyregexp.New(`failed to connect to the docker API`), "start a container engine, or name the socket of one with DOCKER_HOST; the provider sandbox needs none"},
	{lazyregexp.New(`program "(cd|export|source|alias|ulimit|umask|set|unset|type|eval)": not found`), "it is a builtin of the shell: -- sh -c 'cd src && make'"},
	{lazyregexp.New(`program "python": not found`), "the program is perhaps called python3 here"},
	{lazyregexp.New(`^unknown provider "podman"`), "the provider docker works with Podman: --provider docker, with DOCKER_HOST=unix:///run/podman/podman.sock if it is not found by itself"},
	{lazyregexp.New(`program "[^" ]* [^"]*": not found`), "the program and its arguments are separate words, such as: -- echo hi; a shell command is: -- sh -c 'echo hi'"},
	{lazyregexp.New(`program "[^"]*/[^"]*": not found`), pathAdvice},
	{lazyregexp.New(`program "[^"]*": not found`), programAdvice},
	{lazyregexp.New(`denylisted token "(sudo|su)"$`), sudoAdvice},
	{lazyregexp.New(`the state file .* can't be used`), "restore this file; the files of the workspace are kept"},
	{lazyregexp.New(`denylisted token "`), "leave it out: no command of a workspace may change the machine, or run what commands.deny of croft.yaml lists"},
	{lazyregexp.New(`[Ww]orkspace path does not exist|directory .*: not found$`), "give a directory that exists: mkdir makes one"},
	{lazyregexp.New(`is not a directory|: not a directory$`), "give a directory, not a file"},
	{lazyregexp.New(`^commands: unsupported`), "use --provider sandbox, or another one with a shell: croft provider list"},
	{lazyregexp.New(`pausing: unsupported`), "use --provider sandbox for a workspace that can be paused: croft provider list"},
	{lazyregexp.New(`cannot reset a workspace`), "only a failed workspace needs it: croft ws describe NAME shows the state"},
	{lazyregexp.New(`cannot (resume|pause) a workspace`), "croft ws list shows the states"},
	{lazyregexp.New(`no snapshot or checkpoint has`), "open a workspace with croft ws open NAME --checkpoints, or take a snapshot first: croft ws snapshot NAME"},
	{lazyregexp.New(`is none of \[`), "give one of these"},
	{lazyregexp.New(`regular expression`), "quote special characters with \\, or search for a text: croft ws grep -F NAME TEXT"},
	{lazyregexp.New(`outside (the )?workspace`), "give a path inside the workspace, such as src/main.go"},
	{lazyregexp.New(`^arguments are not JSON`), `give a JSON object, such as: croft tool Read '{"file_path": "README.md"}'; croft tool NAME --schema shows the arguments`},
	{lazyregexp.New(` is required$`), "croft tool NAME --schema shows the arguments"},
	{lazyregexp.New(`^load .*not valid YAML`), "mend the line, or see the keys: croft eval schema suite"},
	{lazyregexp.New(`^read config .*not valid YAML`), "mend the line, or see the keys: croft eval schema config"},
	{lazyregexp.New(`not valid YAML`), "mend the line, or see the keys: croft config schema"},
	{lazyregexp.New(`there is no such file$`), "croft config print writes a configuration with all defaults, to begin with"},
	{lazyregexp.New(`no backup`), "give a file that croft backup FILE wrote"},
	{lazyregexp.New(`No skillgym config found`), "or write a suite in YAML: croft eval skills get core explains how"},
	{lazyregexp.New(`read results: `), "give directories of runs, below .skillgym-results"},
	{lazyregexp.New(`no agent is installed`), "install one, or add the server by hand: croft mcp --dir DIR"},
	{lazyregexp.New(`schemes \[file mem s3\]`), "a directory is file:///path, a bucket s3://NAME?region=REGION"},
	{lazyregexp.New(`^(stat|read|open) "[^"]*": not found`), "croft ws ls NAME lists the files"},
	{lazyregexp.New(`(memory|disk).*the minimum is `), "give a larger value, with a unit: 512M, 2G"},
	{lazyregexp.New(`the minimum is `), "give a larger value"},
	{lazyregexp.New(`snapshot name "`), "choose another name, such as before-tests"},
	{lazyregexp.New(`nothing was applied to `), "croft work list lists the works of the project, croft work apply applies one"},
	{lazyregexp.New(`no journal.jsonl`), "give directories of runs, below .skillgym-results"},
	{lazyregexp.New(`: no such file or directory$`), "check the path"},
	{lazyregexp.New(`^server .*: unauthenticated`), "give the token of that server: --token or CROFT_TOKEN"},
}

// adviceFor returns what to do about an error.
func adviceFor(text string) string {
	for _, a := range advices {
		if a.text.MatchString(text) {
			return a.advice
		}
	}
	return ""
}
