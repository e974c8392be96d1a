package cli_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

type mistake struct{ line, what, todo string }

// mistakes are typical wrong command lines: what the answer says is wrong, and what it says
// to do. PORT is a port that is in use.
var mistakes = []mistake{
	// Commands of docker, kubectl and other programs.
	{"create box", `unknown command "create"`, "croft ws open [NAME]"},
	{"delete box", `unknown command "delete"`, "croft ws rm NAME"},
	{"stop box", `unknown command "stop"`, "croft ws pause NAME, or croft ws rm NAME"},
	{"start", `unknown command "start"`, "croft up"},
	{"ps", `unknown command "ps"`, "croft ws list"},
	{"ls", `unknown command "ls"`, "croft ws list"},
	{"exec box ls", `unknown command "exec"`, "croft ws exec NAME"},
	{"cp a box:/b", `unknown command "cp"`, "croft ws put NAME SRC DEST"},
	{"logs box", `unknown command "logs"`, "croft ws logs NAME SESSION"},
	{"rm box", `unknown command "rm"`, "croft ws rm NAME"},
	{"images", `unknown command "images"`, "croft image"},
	{"pull debian", `unknown command "pull"`, "croft template create NAME --image IMAGE"},
	{"inspect box", `unknown command "inspect"`, "croft ws show NAME"},
	{"serve", `unknown command "serve"`, "croft up"},
	{"ws create box", `unknown command "create" for "croft ws"`, "croft ws open [NAME]"},
	{"ws delete box", `unknown command "delete" for "croft ws"`, "croft ws rm NAME"},
	{"ws run box ls", `unknown command "run" for "croft ws"`, "croft ws exec NAME"},
	{"ws cp a b", `unknown command "cp" for "croft ws"`, "croft ws put NAME SRC DEST"},
	{"key delete x", `unknown command "delete" for "croft key"`, "croft key revoke ID"},
	{"snapshot create demo", `unknown command "create" for "croft snapshot"`, "croft ws snapshot NAME"},

	{"claude", `unknown command "claude"`, "use: croft work claude"},
	{"git status", `unknown command "git"`, "use: croft run -- git"},

	// Flags of docker, and earlier names.
	{"run --net host ls", "unknown flag: --net", "use --allow-net HOST"},
	{"run -v /a:/b ls", "unknown flag: -v", "use --rw DIR or --ro DIR"},
	{"run -p 8080:80 ls", "unknown flag: -p", "croft ws port-forward NAME PORT"},
	{"run -m 512m ls", "unknown flag: -m", "use --memory SIZE"},
	{"run -d ls", "unknown flag: -d", "croft ws exec NAME --detach"},
	{"run --name box ls", "unknown flag: --name", "croft ws open NAME"},
	{"run --image debian ls", "unknown flag: --image", "--provider docker"},
	{"run --privileged ls", "unknown flag: --privileged", "croft doctor"},
	{"ws list -o json", "unknown flag: -o", "use --json"},
	{"up --port 7070", "unknown flag: --port", "use --addr 127.0.0.1:PORT"},

	// More words of docker, kubectl and git.
	{"login", `unknown command "login"`, "croft key create makes a key"},
	{"network ls", `unknown command "network"`, "--allow-net HOST"},
	{"volume create data", `unknown command "volume"`, "--rw DIR or --ro DIR"},
	{"restart box", `unknown command "restart"`, "croft ws exec NAME [--] PROGRAM [ARGUMENT]..."},
	{"rename a b", `unknown command "rename"`, "croft ws fork NAME [NEW]"},
	{"save box", `unknown command "save"`, "croft ws snapshot NAME"},
	{"export box", `unknown command "export"`, "croft ws get NAME PATH DEST"},
	{"tag a b", `unknown command "tag"`, "croft ws snapshot NAME"},
	{"port box", `unknown command "port"`, "croft ws port-forward NAME [LOCAL:]PORT"},
	{"edit demo", `unknown command "edit"`, "croft ws shell NAME"},
	{"clone https://a.example/x.git", `unknown command "clone"`, "git clone"},
	{"checkout x", `unknown command "checkout"`, "croft ws restore NAME SNAPSHOT"},
	{"log", `unknown command "log"`, "croft work log"},
	{"merge", `unknown command "merge"`, "croft work apply"},
	{"ssh demo", `unknown command "ssh"`, "croft ws shell NAME"},
	{"upgrade", `unknown command "upgrade"`, "docs/install.md"},
	{"ws rename demo other", `unknown command "rename" for "croft ws"`, "croft ws fork NAME [NEW]"},
	{"ws clone demo other", `unknown command "clone" for "croft ws"`, "croft ws fork NAME [NEW]"},
	{"ws info demo", `unknown command "info" for "croft ws"`, "croft ws show NAME"},
	{"ws status demo", `unknown command "status" for "croft ws"`, "croft ws show NAME"},
	{"ws stats demo", `unknown command "stats" for "croft ws"`, "croft ws ps NAME"},
	{"ws checkout demo x", `unknown command "checkout" for "croft ws"`, "croft ws restore NAME SNAPSHOT [NEW]"},
	{"ws log demo", `unknown command "log" for "croft ws"`, "croft ws history NAME"},
	{"ws merge a b", `unknown command "merge" for "croft ws"`, "croft ws apply NAME DIR [PATH...]"},
	{"ws export demo", `unknown command "export" for "croft ws"`, "croft ws get NAME PATH DEST"},
	{"work branch", `unknown command "branch" for "croft work"`, "croft work apply [NAME] [PATH...]"},
	{"work kill", `unknown command "kill" for "croft work"`, "croft work discard"},
	{"work --agent claude", "unknown flag: --agent", "croft work claude"},
	{"work undo", "nothing was applied", "croft work apply applies one"},
	{"config view", `unknown command "view" for "croft config"`, "croft config print"},
	{"config set a b", `unknown command "set" for "croft config"`, "croft.yaml"},
	{"key new", `unknown command "new" for "croft key"`, "croft key create"},
	{"key create me", "takes no arguments; given 1 argument", "usage: croft key create"},
	{"template build x", `unknown command "build" for "croft template"`, "croft template create NAME"},
	{"eval suite.yaml", `unknown command "suite.yaml" for "croft eval"`, "use: croft eval run suite.yaml"},

	{"run -c ls", "unknown flag: -c", "croft run -- sh -c 'COMMAND'"},
	{"ws rm -f demo", "unknown flag: -f", "croft ws rm NAME asks nothing"},
	{"up --host 0.0.0.0", `--host "0.0.0.0" is no name`, "--addr 0.0.0.0:7070"},

	{"mcp serve", "takes no arguments; given 1 argument", "usage: croft mcp"},
	{"mcp install", "takes no arguments; given 1 argument", "usage: croft mcp"},
	{"mcp .", "takes no arguments; given 1 argument", "usage: croft mcp"},
	{"ws logs demo", "takes NAME SESSION; given 1 argument", "usage: croft ws logs"},
	{"ws kill demo", "takes NAME SESSION; given 1 argument", "usage: croft ws kill"},
	{"ws list demo", "takes no arguments; given 1 argument", "usage: croft ws list"},
	{"ws restore demo", "given 1 argument", "usage: croft ws restore"},
	{"ws get demo f", "takes NAME PATH DEST; given 2 arguments", "usage: croft ws get NAME PATH DEST"},
	{"ws put demo:/x f", "takes NAME SRC DEST; given 2 arguments", "usage: croft ws put NAME SRC DEST"},
	{"run --secret KEY@ ls", `--secret "KEY@" is not NAME@HOST`, "KEY@api.example.com"},
	{"ws open x --memory 1", "limit memory", "give a larger value"},
	{"ws open x --provider local --memory 64M", "limit memory: unsupported", "--best-effort"},
	{"ws snapshot demo a=b", `snapshot name "a=b"`, "choose another name"},
	{"template create t --dir nope", "nope\": not found", "check the path"},
	{"ws exec demo cd src", `program "cd": not found`, "a builtin of the shell"},
	{"ws exec demo ls /etc", "path is outside workspace", "give a path inside the workspace"},
	{"ws open x --provider podman", `unknown provider "podman"`, "--provider docker"},
	{"ws list --server ftp://x", "--server ftp://x", "http://127.0.0.1:7070"},
	{"ws list --server http://[::1", "--server http://[::1", "http://127.0.0.1:7070"},
	{"run --memory 512 -- true", "the minimum is", "512M"},
	{"ws open x --provider kubernetes", `unknown provider "kubernetes"`, "croft-k8s"},
	{"code 1+1", "open 1+1: no such file", "the code itself with -c"},
	{"image list", "failed to connect to the docker API", "start a container engine"},
	{"script 1+1", "open 1+1: no such file", "the code itself with -c"},
	{"eval rerun nope", "no journal.jsonl", "give directories of runs"},

	// Misspelt, missing and superfluous words.
	{"rnu -- ls", `unknown command "rnu"`, "did you mean run? use: croft run -- ls"},
	{"wrok claude", `unknown command "wrok"`, "did you mean work? use: croft work claude"},
	{"wrok claude --yolo", `unknown command "wrok"`, "did you mean work? use: croft work claude"},
	{"wrok --in-place claude", `unknown command "wrok"`, "did you mean work?"},
	{"ws opne box --memory 1G", `unknown command "opne" for "croft ws"`, "did you mean open? use: croft ws open box"},
	{"work cluade -- fix it", "cluade is no agent", "did you mean claude? use: croft work claude -- fix it"},
	{"work cluade -p fix", "cluade is no agent", "did you mean claude?"},
	{"work nonsense", "nonsense is no agent: give one of claude, codex, opencode, gemini, copilot", "or a command after --"},
	{"ws lsit", `unknown command "lsit"`, "did you mean list?"},
	{"run --memroy 1G -- ls", "unknown flag: --memroy", "did you mean --memory?"},
	{"ws show", "takes NAME; given 0 arguments", "usage: croft ws show NAME"},
	{"ws ls", "takes NAME [PATH]; given 0 arguments", "usage: croft ws ls NAME"},
	{"ws cat demo", "takes NAME PATH; given 1 argument", "usage: croft ws cat NAME PATH"},
	{"ws put demo f", "takes NAME SRC DEST; given 2 arguments", "usage: croft ws put NAME SRC DEST"},
	{"ws exec demo", "needs a program", "croft ws exec demo -- ls -l"},
	{"run", "needs a program", "croft run -- ls -l"},
	{"run --workdir", "--workdir needs a value", "working directory in the workspace"},
	{"up here", "takes no arguments; given 1 argument", "usage: croft up"},
	{"help ws opne", `unknown command "opne" for "croft ws"`, "did you mean open?"},
	{"help foo", `unknown command "foo"`, "croft help lists the commands"},
	{"completion tcsh", `unknown command "tcsh"`, "croft completion --help"},
	{"eval run", "no suite", "name one"},
	{"prep f", "--workspace is required", "croft prep f --workspace demo"},
	{"template create t", "no source", "--dir DIR, --snapshot ID, --repo DIR and --image IMAGE"},
	{"snapshot export x", "--bucket is required", "file:///srv/snapshots"},
	{"snapshot prune", "no rule", "give --keep N"},

	// Values that can't be read.
	{"run --memory lots ls", `--memory "lots"`, "such as 512M or 2G"},
	{"run --cpus two ls", `--cpus "two"`, "such as 1.5"},
	{"run --timeout 10 ls", `--timeout "10"`, "such as 30s"},
	{"ws open x --idle 30", `--idle "30"`, "such as 30s"},
	{"run --env FOO ls", `--env "FOO" is not K=V`, `--env FOO="$FOO"`},
	{"run --env =x ls", `--env "=x" is not K=V`, "--env GREETING=hi"},
	{"run --allow-net npm ls", `--allow-net "npm"`, "did you mean @npm"},
	{"template create t dir", "takes NAME; given 2 arguments", "usage: croft template create NAME"},
	{"ws exec ls demo", `there is no workspace "ls"`, "croft ws exec demo -- ls"},
	{"ws rm nope other", `croft: workspace "nope": not found`, "croft ws list"},
	{"ws open x --label team", `--label "team" is not K=V`, "--label team=core"},
	{"run --secret KEY ls", `--secret "KEY" is not NAME@HOST`, "KEY@api.example.com"},
	{"run --allow-net https://a.example/ ls", `"https://a.example/"`, "leave out"},
	{"ws open x --options {", "not valid JSON", "give a JSON object"},
	{"ws open x --want net", "--want net", "the capabilities are fs, shell"},
	{"ws open My_Box", `workspace name "My_Box"`, "a name is [a-z0-9]"},
	{"ws list --state runing", `"runing"`, "ready"},
	{"ws port-forward demo web", `"web" is not [LOCAL:]PORT`, "such as 8080"},
	{"ws grep demo (", "not an RE2 regular expression", "croft ws grep -F"},
	{"key create --scope root", `scope "root" is not valid`, "the scopes are read, run and admin"},
	{"mcp --toolset all", `toolset "all"`, "give default, full, codegen"},
	{"events --kind nosuch", `event kind "nosuch"`, "the kinds are"},
	{"eval schema foo", `schema "foo"`, "expected suite or config"},
	{"tool Read a.txt --workspace demo", "arguments are not JSON", `croft tool Read '{"file_path"`},
	{`tool Read {"file":"x"} --workspace demo`, `unknown argument "file"`, "file_path"},

	// What does not exist.
	{"ws show nope", `workspace "nope": not found`, "croft ws list"},
	{"ws show dmeo", `workspace "dmeo": not found`, "did you mean demo?"},
	{"ws cat demo nope.txt", `"nope.txt": not found`, "croft ws ls NAME"},
	{"ws cat demo ../x", "outside the workspace", "give a path inside"},
	{"ws put demo nope x", "put nope: not found", "check the path"},
	{"ws logs demo x", `session "x": not found`, `"croft ws ps" lists`},
	{"ws restore demo nope", `snapshot "nope": not found`, "croft ws snapshots NAME"},
	{"ws open x --template nope", `template "nope": not found`, `"croft template list" lists`},
	{"ws open x --policy nope", `policy "nope": not found`, "the policies are"},
	{"ws open x --provider sanbox", `unknown provider "sanbox"`, "did you mean sandbox?"},
	{"ws open x --provider local --dir nope", "path does not exist", "give a directory that exists"},
	{"ws open x --provider local --dir f", "not a directory", "give a directory, not a file"},
	{"ws open demo", `workspace "demo": already exists`, "choose another name"},
	{"ws exec demo nosuchprogram", `program "nosuchprogram": not found`, "--toolchain auto"},
	{"ws exec demo ./nosuchprogram", `program "./nosuchprogram": not found`, "--template ."},
	{"ws exec demo sudo apt install jq", `command uses denylisted token "sudo"`, "leave out sudo"},
	{"ws exec demo -- sh -c reboot", `denylisted token "reboot"`, "no command of a workspace may change the machine"},
	{"run --isolation foo ls", `isolation "foo" is not valid`, "the levels are"},
	{"run --toolchain nodejs ls", `toolchain "nodejs"`, "the toolchains are go"},
	{"run --provider memory ls", "unsupported", "--provider sandbox"},
	{"mcp --workspace .", `workspace "."`, "a directory of this host is --dir DIR"},
	{"mcp --dir nope", "path does not exist", "give a directory that exists"},
	{"tool Raed", `unknown tool "Raed"`, "did you mean Read?"},
	{"key revoke x", `API key "x": not found`, `"croft key list" lists`},
	{"template rm nope", `template "nope": not found`, `"croft template list" lists`},
	{"snapshot rm nope", `snapshot "nope": not found`, "croft snapshot list"},
	{"eval run nope.yaml", "nope.yaml: no such file", "check the path"},
	{"work cladue", "cladue is no agent", "did you mean claude?"},
	{"work aplly", "aplly is no agent", "did you mean apply?"},
	{"work rm", `unknown command "rm" for "croft work"`, "croft work discard"},
	{"work ls", `unknown command "ls" for "croft work"`, "croft work list"},
	{"work git status", "git is no agent", "croft work -- git status"},
	{"work git -q status", "git is no agent", "croft work -- git ARGUMENT..."},
	{"work claude fix it", "arguments of the agent after --", "croft work claude -- fix it"},
	{"work claude -p fix", "unknown flag: -p", "the flags of the agent come after --"},
	{"work discard nope", `work "nope": not found`, "croft work list"},
	{"work discard --all x", "--all takes no names", "all works of the project"},
	{"work claude", "no program claude in PATH", "npm install -g"},
	{"work diff nope", `work "nope": not found`, "croft work list"},
	{"setup cladue", `no agent "cladue"`, "did you mean claude?"},
	{"ws reset demo", "cannot reset a workspace that is ready", "croft ws describe"},
	{"ws undo demo", "no snapshot or checkpoint", "--checkpoints"},
	{"restore f --data empty", "no backup", "croft backup FILE"},
	{"backup f", "f: already exists", "name a new file"},

	// The server, the data directory and the configuration.
	{"ws list --server http://127.0.0.1:1 --token x", "connection refused", "croft up starts one"},
	{"ws list --server http://server.example", "no token", "give --token or set CROFT_TOKEN"},
	{"ws list --server 127.0.0.1:1 --data d", "--data and --server exclude each other", "give one"},
	{"up --addr 127.0.0.1:PORT", "another program uses the port", "choose one with --addr"},
	{"up --addr 7070", `address "7070" is not valid`, "give HOST:PORT"},
	{"up --addr 0.0.0.0:0", "beyond loopback", "give a token of your own"},
	{"ws list --data newer", "has version 99", "upgrade croft"},
	{"ws list --data f", "not a directory", "give a directory"},
	{"ws list --config nope.yaml", "nope.yaml: not found", "croft config print"},
	{"ws list --config misspelt.yaml", `unknown key "defaults.provder"`, "allowed are provider"},
	{"config check broken.yaml", "not valid YAML", "croft config schema"},
	{"eval run broken.yaml --config runners.yaml", "not valid YAML", "croft eval schema suite"},
	{"eval run broken.yaml --config broken.yaml", "not valid YAML", "croft eval schema config"},
}

// TestMistakes: a wrong command line is answered with what is wrong and what to do, in the
// user's words.
func TestMistakes(t *testing.T) {
	if len(mistakes) < 60 {
		t.Errorf("%d mistakes", len(mistakes))
	}
	home := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("PATH", gitOnly(t)) // an agent that is installed would start
	for _, name := range []string{"CROFT_SERVER", "CROFT_TOKEN", "CROFT_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("CROFT_DATA", filepath.Join(home, "data"))
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(home, "no-engine.sock"))
	for name, content := range map[string]string{
		"f": "", "misspelt.yaml": "defaults:\n  provder: sandbox\n", "broken.yaml": "defaults: [\n", "runners.yaml": "runners: {a: {agent: {type: codex, model: m}}}\n", "newer/version": "99\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	_, port, _ := net.SplitHostPort(used.Addr().String())
	if _, err := exec.LookPath("git"); err != nil {
		mistakes = slices.DeleteFunc(mistakes, func(m mistake) bool { return m.line == "git status" })
	}
	croft := func(args ...string) (status int, stderr string) {
		var out, errs bytes.Buffer
		status = cli.Run(t.Context(), append([]string{"croft"}, args...), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		return status, errs.String()
	}
	if status, stderr := croft("ws", "open", "demo", "--provider", "local"); status != 0 {
		t.Fatalf("ws open demo: %d: %s", status, stderr)
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.Mkdir("others", 0o700), os.Chown("others", 1, 1)); err != nil {
			t.Fatal(err)
		}
		mistakes = append(mistakes, mistake{"ws list --data others", "it belongs to user 1", "run it as the owner"})
	}
	packages := regexp.MustCompile(`(?m)^croft: (app|client|cmdpolicy|config|files|process|registry|sandbox|snapshot|template|work): `)
	for _, m := range mistakes {
		status, stderr := croft(strings.Fields(strings.ReplaceAll(m.line, "PORT", port))...)
		if status == 0 || !strings.Contains(stderr, m.what) || !strings.Contains(stderr, m.todo) {
			t.Errorf("croft %s: exit status %d: want %q and %q, got:\n%s", m.line, status, m.what, m.todo, stderr)
		}
		if packages.MatchString(stderr) {
			t.Errorf("croft %s: the answer begins with the name of a package:\n%s", m.line, stderr)
		}
		if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) < 2 {
			t.Errorf("croft %s: the answer has no line that says what to do:\n%s", m.line, stderr)
		}
	}
}

// gitOnly returns a directory for PATH with git, if there is one.
func gitOnly(t *testing.T) string {
	dir := t.TempDir()
	if git, err := exec.LookPath("git"); err == nil {
		if err := os.Symlink(git, filepath.Join(dir, "git")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
