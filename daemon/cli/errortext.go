package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// packageNames are the packages and providers whose names begin errors. A user knows none
// of them from the command line.
var packageNames = []string{
	"app", "backup", "client", "config", "docker", "egress", "eval", "files", "filestore", "history", "jupyter", "local", "mcpserver", "memory",
	"process", "registry", "sandbox", "setup", "snapshot", "stage", "store", "suite", "template", "work",
}

// innerStep is an operation of a package, which the command line implies.
var innerStep = regexp.MustCompile(`^(open|create|ask the engine|source)( "[^"]*"| [a-z0-9]{20})?$`)

// errorText returns an error as two texts for a user: what is wrong, and what to do.
func (a *command) errorText(err error) (what, hint string) {
	var lines, hints []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line, advice := cutAdvice(trimPackages(a.withNames(line)))
		if advice == "" {
			advice = adviceFor(line)
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
var adviceStart = regexp.MustCompile(`(?:; |: )((?:did you mean |give |choose |use: |use (?:--|one|another|the) ?|install (?:it|a) |upgrade |run it as |leave out |name a |set the variable |` +
	`check (?:if|the|whether) |"croft |croft [a-z]|allowed are |known: |the [a-z]+ are |a name is |expected [a-z]+ or ).*)$`)

// cutAdvice separates what is wrong from what to do.
func cutAdvice(text string) (what, advice string) {
	at := adviceStart.FindStringSubmatchIndex(text)
	if at == nil {
		return text, ""
	}
	what, advice = text[:at[0]], text[at[2]:]
	// The reason before the advice is clear without the code, unless it is all there is.
	for _, c := range fault.All() {
		if before, ok := strings.CutSuffix(what, ": "+c.Error()); ok && c == fault.InvalidArgument {
			what = before
		}
	}
	return what, advice
}

// advices are what to do about errors that do not say it themselves.
var advices = []struct {
	text   *regexp.Regexp
	advice string
}{
	{regexp.MustCompile(`^workspace "[^"]*": not found$`), "croft ws list lists the workspaces; croft ws open NAME makes one"},
	{regexp.MustCompile(`^workspace "[^"/]*[./~][^"]*"`), "croft ws list lists the names; a directory of this host is --dir DIR"},
	{regexp.MustCompile(`^work "[^"]*": not found$`), "croft work list --all lists the works"},
	{regexp.MustCompile(`^snapshot "[^"]*": not found`), "croft ws snapshots NAME lists those of a workspace, croft snapshot list all"},
	{regexp.MustCompile(`^artifact .*: not found`), "croft artifact list NAME lists those of a workspace"},
	{regexp.MustCompile(`^server .*(connection refused|invalid port|no such host|i/o timeout)`), "is the server running? croft up starts one; leave out --server, and unset CROFT_SERVER, to use the data directory"},
	{regexp.MustCompile(`certificate|HTTP response to HTTPS client`), "check whether the URL of --server begins with http:// or https://"},
	{regexp.MustCompile(`program "[^"]*": not found`), "the command is a program, not an image; a sandbox has those of this host below /usr and /opt, and with --toolchain auto those of your home directory"},
	{regexp.MustCompile(`[Ww]orkspace path does not exist|directory .*: not found$`), "give a directory that exists: mkdir makes one"},
	{regexp.MustCompile(`is not a directory|: not a directory$`), "give a directory, not a file"},
	{regexp.MustCompile(`^commands: unsupported`), "use --provider sandbox, or another one with a shell: croft provider list"},
	{regexp.MustCompile(`pausing: unsupported`), "use --provider sandbox for a workspace that can be paused: croft provider list"},
	{regexp.MustCompile(`cannot reset a workspace`), "only a failed workspace needs it: croft ws describe NAME shows the state"},
	{regexp.MustCompile(`cannot (resume|pause) a workspace`), "croft ws list shows the states"},
	{regexp.MustCompile(`no snapshot or checkpoint has`), "open a workspace with croft ws open NAME --checkpoints, or take a snapshot first: croft ws snapshot NAME"},
	{regexp.MustCompile(`is none of \[`), "give one of these"},
	{regexp.MustCompile(`regular expression`), "quote special characters with \\, or search for a text: croft ws grep -F NAME TEXT"},
	{regexp.MustCompile(`outside the workspace`), "give a path inside the workspace, such as src/main.go"},
	{regexp.MustCompile(`^arguments are not JSON`), `give a JSON object, such as: croft tool Read '{"file_path": "README.md"}'; croft tool NAME --schema shows the arguments`},
	{regexp.MustCompile(` is required$`), "croft tool NAME --schema shows the arguments"},
	{regexp.MustCompile(`not valid YAML`), "mend the line, or see the keys: croft config schema"},
	{regexp.MustCompile(`there is no such file$`), "croft config print writes a configuration with all defaults, to begin with"},
	{regexp.MustCompile(`no backup`), "give a file that croft backup FILE wrote"},
	{regexp.MustCompile(`No skillgym config found`), "or write a suite in YAML: croft eval skills get core explains how"},
	{regexp.MustCompile(`read results: `), "give directories of runs, below .skillgym-results"},
	{regexp.MustCompile(`no agent is installed`), "install one, or add the server by hand: croft mcp --dir DIR"},
	{regexp.MustCompile(`schemes \[file mem s3\]`), "a directory is file:///path, a bucket s3://NAME?region=REGION"},
	{regexp.MustCompile(`^(stat|read|open) "[^"]*": not found`), "croft ws ls NAME lists the files"},
	{regexp.MustCompile(`: no such file or directory$`), "check the path"},
	{regexp.MustCompile(`^server .*: unauthenticated`), "give the token of that server: --token or CROFT_TOKEN"},
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
