package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// planted is part of every token in a home, and of nothing else.
const planted = "tok-PLANTED"

// toolchainHome makes toolchains, caches and credential files in the home of a project.
// Node and Python are the system's, behind scripts; Go, uv and Rust are stand-ins.
func (p *hostProject) toolchainHome() string {
	p.t.Helper()
	for _, path := range []string{"/usr/bin/node", "/usr/bin/python3"} {
		if _, err := os.Stat(path); err != nil {
			p.t.Skipf("skipped: host: it lacks %s", path)
		}
	}
	home := filepath.Dir(p.dir)
	script := func(text string) string { return "#!/bin/sh\necho " + text + "\n" }
	for name, content := range map[string]string{
		"sdk/go1.99.0/bin/go":                                             script("go1.99.0 of sdk"),
		"go/bin/gopls":                                                    script("gopls of home"),
		".nvm/versions/node/v18.1.0/bin/other":                            script("other"),
		".nvm/versions/node/v20.11.1/bin/tool":                            "#!/usr/bin/env node\nconsole.log('node tool of ' + process.env.NODE_OF)\n",
		".nvm/versions/node/v20.11.1/bin/node":                            "#!/bin/sh\nNODE_OF=nvm exec /usr/bin/node \"$@\"\n",
		".pyenv/versions/3.12.1/bin/python3":                              "#!/bin/sh\nPYTHON_OF=pyenv exec /usr/bin/python3 \"$@\"\n",
		".nvm/alias/default":                                              "18\n",
		".pyenv/versions/3.12.1/bin/pytool":                               "#!/usr/bin/env python3\nimport os; print('python tool of', os.environ['PYTHON_OF'])\n",
		".local/bin/uv":                                                   script("uv 9.9"),
		".local/share/uv/python/cpython-3.13.0-linux-x86_64-gnu/bin/p313": script("python of uv"),
		".rustup/toolchains/stable/bin/rustc":                             script("rustc 1.99"),
		".rustup/settings.toml":                                           "default_toolchain = \"stable\"\n",
		".cargo/bin/cargo":                                                "#!/bin/sh\nexec \"$RUSTUP_HOME/toolchains/stable/bin/rustc\"\n",
		".sdkman/candidates/maven/3.9.9/bin/mvn":                          script("maven"),
		// Caches.
		".cache/go-build/00/entry": "of the host", "go/pkg/mod/example.com@v1/x.go": "package x", ".npm/_cacache/index": "of the host",
		".cache/pip/http/entry": "of the host", ".cargo/registry/cache/x.crate": "of the host", ".gradle/caches/modules-2/x": "of the host", ".cache/ccache/0/x": "of the host",
		// Credentials.
		".cargo/credentials.toml": planted, ".cargo/config.toml": planted, ".npmrc": planted, ".pypirc": planted, ".m2/settings.xml": planted, ".netrc": planted,
		".config/pip/pip.conf": planted, ".gradle/gradle.properties": planted, ".nuget/NuGet/NuGet.Config": planted, ".docker/config.json": planted, ".ssh/id_ed25519": planted,
		".nvm/versions/node/v20.11.1/etc/npmrc": planted, ".pyenv/versions/3.12.1/pip.conf": planted, ".pyenv/versions/3.12.1/.netrc": planted,
		".sdkman/candidates/maven/3.9.9/conf/settings.xml": planted, ".cache/ccache/ccache.conf": planted, "go/pkg/mod/cache/vcs/abc/config": planted,
		".local/share/uv/credentials/credentials.toml": planted, ".rustup/.netrc": planted, "sdk/go1.99.0/.netrc": planted, ".volta/hooks.json": planted,
		".config/mise/config.toml": planted, ".sdkman/etc/config": planted, ".bash_history": planted,
		".aws/credentials": planted, ".config/gh/hosts.yml": planted, ".git-credentials": planted, ".kube/config": planted, ".config/gcloud/application_default_credentials.json": planted,
		".azure/msal_token_cache.json": planted, ".yarnrc.yml": planted, ".gem/credentials": planted, ".composer/auth.json": planted, ".terraform.d/credentials.tfrc.json": planted,
		".config/containers/auth.json": planted, ".gnupg/private-keys-v1.d/key": planted, ".local/share/keyrings/login.keyring": planted, ".pgpass": planted, ".vault-token": planted,
		// An agent, installed by the npm of nvm.
		".nvm/versions/node/v20.11.1/lib/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\nrequire('child_process').execFileSync('sh', ['-c', process.argv[2]], {stdio: 'inherit'})\n",
		".nvm/versions/node/v20.11.1/lib/node_modules/@anthropic-ai/claude-code/.npmrc": planted,
	} {
		put(p.t, "", home, map[string]string{name: content})
		if strings.HasPrefix(content, "#!") {
			if err := os.Chmod(filepath.Join(home, name), 0o755); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("3.9.9", filepath.Join(home, ".sdkman/candidates/maven/current")); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Symlink("../lib/node_modules/@anthropic-ai/claude-code/cli.js", filepath.Join(home, ".nvm/versions/node/v20.11.1/bin/claude")); err != nil {
		p.t.Fatal(err)
	}
	put(p.t, "", p.dir, map[string]string{".nvmrc": "20\n"})
	if err := chownAll(home, p.uid); err != nil {
		p.t.Fatal(err)
	}
	// Only what is of the system, and an agent: the tools are those of the home.
	p.setEnv("PATH", home+"/.nvm/versions/node/v20.11.1/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
	p.setEnv("ANTHROPIC_API_KEY", planted)
	return home
}

func (p *hostProject) setEnv(name, value string) {
	p.env = append(slices.DeleteFunc(p.env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }), name+"="+value)
}

// digestTree returns a digest of names, modes, owners, times and contents below a
// directory, without Croft's data.
func digestTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(dir, "data") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprint(info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		if path != dir { // in which the data directory is
			text += fmt.Sprint(info.ModTime())
		}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			text += hex.EncodeToString(sum[:])
		}
		all[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, is := range after {
		if before[path] != is {
			t.Errorf("%s was %q, and is %q", path, before[path], is)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			t.Errorf("%s is gone", path)
		}
	}
}

// useToolchains runs each tool, tries to write where it must not and where it may, and
// searches for the tokens.
const useToolchains = `
go version; gopls; node -e 'console.log("node of", process.env.NODE_OF)'; tool; python3 -c 'import os; print("python of", os.environ["PYTHON_OF"])'; pytool; uv; p313; rustc 2>/dev/null; cargo; mvn
for d in sdk/go1.99.0 go/bin .nvm/versions/node/v20.11.1 .pyenv/versions/3.12.1 .local/bin .rustup .cargo/bin .sdkman/candidates; do
	touch "$H/$d/new" 2>/dev/null && echo "wrote to $d"
done
for d in .cache/go-build go/pkg/mod .npm/_cacache .cache/pip .cargo/registry .gradle/caches .cache/ccache; do
	test -e "$H/$d" || echo "$d is missing"
	echo inside > "$H/$d/new" || echo "no write to $d"
done
echo inside > "$H/.cache/go-build/00/entry"; rm -r "$H/go/pkg/mod/example.com@v1"
echo "$GOCACHE $GOMODCACHE $npm_config_cache $PIP_CACHE_DIR $CARGO_HOME $GRADLE_USER_HOME $CCACHE_DIR"
cat "$H/.sdkman/candidates/maven/3.9.9/conf/settings.xml"
grep -rsl PLANTED "$H" "$HOME" /tmp /workspace 2>/dev/null; env | grep PLANTED
echo end
`

// TestToolchainsBelowHome: toolchains of a user are found and usable inside, read-only;
// caches are copy-on-write; no credential file is there; nothing below the home changes.
//
//croft:slow
func TestToolchainsBelowHome(t *testing.T) {
	asBoth(t, func(t *testing.T, uid int) {
		p := newProject(t, uid)
		home := p.toolchainHome()
		want := strings.NewReplacer("$H", home).Replace(`go1.99.0 of sdk
gopls of home
node of nvm
node tool of nvm
python of pyenv
python tool of pyenv
uv 9.9
python of uv
rustc 1.99
maven
$H/.cache/go-build $H/go/pkg/mod $H/.npm $H/.cache/pip $H/.cargo $H/.gradle $H/.cache/ccache
<settings/>
end
`)
		before := digestTree(t, home)
		env := "H=" + home
		p.must("ws", "open", "web", "--template", p.dir, "--toolchain", "auto")
		for name, args := range map[string][]string{
			"run":             {"run", "--env", env, "--toolchain", "auto", "--rw", p.dir, "--", "sh", "-c", useToolchains},
			"run --template":  {"run", "--env", env, "--toolchain", "auto", "--template", p.dir, "--", "sh", "-c", useToolchains},
			"ws open":         {"ws", "exec", "web", "--env", env, "--", "sh", "-c", useToolchains},
			"work":            {"work", "--env", env, "--", "sh", "-c", useToolchains},
			"work claude":     {"work", "--env", env, "claude", "--", useToolchains},
			"login shell":     {"run", "--env", env, "--toolchain", "auto", "--rw", p.dir, "--", "bash", "-lc", useToolchains},
			"work --in-place": {"work", "--in-place", "--env", env, "--", "sh", "-c", useToolchains},
		} {
			out, status := p.run(p.croft, args...)
			if got := notNotes(out); got != want || status != 0 {
				t.Errorf("%s: exit %d, got:\n%s\nwant:\n%s", name, status, out, want)
			}
		}
		for _, flags := range [][]string{{"--toolchain", "auto"}, {"--dir", "."}} {
			if got := notNotes(p.callBash("export H="+home+"\n"+useToolchains, flags...)); !strings.HasPrefix(got, want) {
				t.Errorf("mcp %s: got:\n%s\nwant:\n%s", flags, got, want)
			}
		}
		if got := p.callBash("command -v cargo || echo none", "--toolchain", "none"); !strings.HasPrefix(got, "none\n") {
			t.Errorf("mcp --toolchain none: got %s", got)
		}
		sameTree(t, before, digestTree(t, home))
		// The layer lives as long as the workspace.
		if out := p.must("ws", "exec", "web", "--", "cat", home+"/.cache/pip/new"); out != "inside\n" {
			t.Errorf("the layer of a cache has %q", out)
		}
		if out, status := p.run(p.croft, "run", "--rw", p.dir, "--", "sh", "-c", "ls "+home+"/.nvm; command -v cargo"); status == 0 || strings.Contains(out, "versions") {
			t.Errorf("without the flag: exit %d, %s", status, out)
		}
		p.must("ws", "rm", "web")
		if out, status := p.run(p.croft, "run", "--rw", p.dir, "--", "sh", "-c", "pytool"); status != 127 || !strings.Contains(out, "--toolchain auto shows go, nvm, pyenv") {
			t.Errorf("a program of the home without the flag: exit %d, %s", status, out)
		}
	})
}

// notNotes returns output without the lines of croft itself.
func notNotes(out string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(out, "\n"), func(line string) bool { return strings.HasPrefix(line, "croft: ") })
	return strings.Join(lines, "")
}

// callBash starts croft mcp with flags in the project, and returns the output of a command
// by its tool Bash.
func (p *hostProject) callBash(command string, flags ...string) string {
	p.t.Helper()
	cmd := exec.Command(p.croft, append([]string{"mcp"}, flags...)...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(p.t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := s.CallTool(p.t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": command}})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		p.t.Errorf("croft mcp: %v", err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// TestToolchainFlags: --ro and --rw are alike with and without a template.
func TestToolchainFlags(t *testing.T) {
	p := newProject(t, 12345)
	if os.Getuid() != 0 {
		p = newProject(t, os.Getuid())
	}
	home := filepath.Dir(p.dir)
	put(t, "", home, map[string]string{"more/a": "of more\n", "out/b": "of out\n"})
	if err := chownAll(home, p.uid); err != nil {
		t.Fatal(err)
	}
	const try = `cat sum.py >/dev/null && cat "$H/more/a" "$H/out/b" && ! touch "$H/more/new" 2>/dev/null && echo x > "$H/out/$N" && pwd`
	flags := []string{"--ro", home + "/more", "--rw", home + "/out"}
	p.must(append([]string{"ws", "open", "web", "--template", p.dir}, flags...)...)
	p.must(append([]string{"ws", "open", "place", "--dir", p.dir}, flags...)...)
	for name, args := range map[string][]string{
		"/workspace template": append([]string{"run", "--template", p.dir, "--env", "N=1", "--env", "H=" + home}, flags...),
		"/workspace ws":       {"ws", "exec", "web", "--env", "N=2", "--env", "H=" + home},
		p.dir + " place":      {"ws", "exec", "place", "--env", "N=3", "--env", "H=" + home},
	} {
		dir, _, _ := strings.Cut(name, " ")
		if out, status := p.run(p.croft, append(args, "--", "sh", "-c", try)...); out != "of more\nof out\n"+dir+"\n" || status != 0 {
			t.Errorf("%s: exit %d: %s", name, status, out)
		}
	}
	for _, n := range []string{"1", "2", "3"} {
		if _, err := os.Stat(filepath.Join(home, "out", n)); err != nil {
			t.Error(err)
		}
	}
	for args, want := range map[string]string{
		"run --toolchain perl -- true":                                     "the toolchains are go, nvm,",
		"ws open --provider local --toolchain auto":                        "they are for the provider sandbox",
		"run --provider local --toolchain auto -- true":                    "--toolchain is for the provider sandbox",
		"run --allow-net @nmp -- true":                                     "@cargo, @go, @npm, @pypi",
		"run --secret KEY@@npm -- true":                                    "a secret goes to one host",
		"--server http://127.0.0.1:1 ws open --toolchain auto":             "--toolchain is for this host",
		"--server http://127.0.0.1:1 mcp --toolchain auto --workspace web": "do not apply with --server",
		"mcp --workspace web --toolchain auto":                             "give them to croft ws open",
	} {
		if out, status := p.run(p.croft, strings.Fields(args)...); status == 0 || !strings.Contains(out, want) {
			t.Errorf("croft %s: exit %d, %s; want %q", args, status, out, want)
		}
	}
}

// goProject makes a Go module whose test needs several packages of the standard library,
// with a warm cache.
func goProject(t *testing.T) *hostProject {
	t.Helper()
	uid := 12345
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	p := newProject(t, uid)
	files := map[string]string{
		"go.mod":      "module example.com/web\n\ngo 1.22\n",
		"web.go":      "package web\n\nimport \"encoding/json\"\n\nfunc Answer() int { return 42 }\n\nfunc Text() ([]byte, error) { return json.Marshal(Answer()) }\n",
		"web_test.go": "package web\n\nimport \"testing\"\n\nfunc TestText(t *testing.T) {\n\tif got, err := Text(); string(got) != \"42\" || err != nil {\n\t\tt.Errorf(\"got %s, %v\", got, err)\n\t}\n}\n",
	}
	put(t, "", p.dir, files)
	if err := chownAll(p.dir, p.uid); err != nil {
		t.Fatal(err)
	}
	p.setEnv("GOTOOLCHAIN", "local")
	p.setEnv("GOFLAGS", "")
	for _, verb := range []string{"build", "test"} {
		if out, status := p.run("go", verb, "./..."); status != 0 {
			t.Fatalf("go %s on the host: %s", verb, out)
		}
	}
	return p
}

// measure runs a program that prints the time before and after what it does, and returns the
// difference.
func (p *hostProject) measure(name string, args ...string) int {
	p.t.Helper()
	out, status := p.run(name, args...)
	words := strings.Fields(out)
	if status != 0 || len(words) != 2 {
		p.t.Fatalf("exit %d: %s", status, out)
	}
	began, err := strconv.Atoi(words[0])
	if err != nil {
		p.t.Fatal(err)
	}
	ended, err := strconv.Atoi(words[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return ended - began
}

// TestWarmGoCache: what the host has built is not built again inside, and a go test in a
// fresh workspace takes about the time of one on the host.
//
//croft:slow
func TestWarmGoCache(t *testing.T) {
	p := goProject(t)
	home := filepath.Dir(p.dir)
	before := digestTree(t, home)
	p.must("ws", "open", "warm", "--template", p.dir, "--toolchain", "go", "--options", fmt.Sprintf(`{"at":%q}`, p.dir))
	if out := p.must("ws", "exec", "warm", "--", "go", "build", "-v", "./..."); out != "" {
		t.Errorf("built inside although the host had built it: %s", out)
	}
	p.must("ws", "exec", "warm", "--", "go", "test", "-count=1", "./...") // copies what is used into the layer
	sameTree(t, before, digestTree(t, home))
	// The second one, and those after it, by turns with the host: the machine is busy.
	const timed = "date +%s%3N; go test -count=1 ./... >/dev/null; date +%s%3N"
	host, inside := 1<<30, 1<<30
	for range 5 {
		host = min(host, p.measure("/usr/bin/env", "sh", "-c", timed))
		inside = min(inside, p.measure(p.croft, "ws", "exec", "warm", "--", "sh", "-c", timed))
	}
	t.Logf("go test: %d ms on the host, %d ms inside", host, inside)
	const start = 400 // ms: of the command, beside other tests
	if inside > host*3/2+start {
		t.Errorf("go test inside takes %d ms, on the host %d ms; want at most 1.5 times as long, and %d ms", inside, host, start)
	}
	p.must("ws", "rm", "warm")
	if out, status := p.run("go", "test", "./..."); status != 0 || !strings.Contains(out, "(cached)") {
		t.Errorf("afterwards, on the host: exit %d, %s", status, out)
	}
	t.Run("host changes its cache", p.changeCacheMeanwhile)
}

// changeCacheMeanwhile changes the lower layer of a cache while it is mounted, which
// overlayfs leaves undefined. Builds inside stay right.
func (p *hostProject) changeCacheMeanwhile(t *testing.T) {
	p.must("ws", "open", "shared", "--template", p.dir, "--toolchain", "go")
	ends := time.Now().Add(20 * time.Second)
	done := make(chan struct{})
	go func() { // the host builds, cleans, and replaces entries
		defer close(done)
		for i := 0; time.Now().Before(ends); i++ {
			cmd := exec.Command("go", "build", "-gcflags=-N", "./...")
			if i%3 == 1 {
				cmd = exec.Command("go", "clean", "-cache")
			}
			if i%3 == 2 {
				cmd = exec.Command("sh", "-c", `for f in "$HOME"/.cache/go-build/*/*; do cp -p "$f" "$f.new" && mv "$f.new" "$f"; done`)
			}
			cmd.Dir, cmd.Env = p.dir, p.env
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
			cmd.Run() // cleaning while building may fail; the inside counts
		}
	}()
	for i := 0; time.Now().Before(ends); i++ {
		want := "ok"
		answer := 42
		if i%2 == 1 {
			want, answer = "FAIL", 43
		}
		out, _ := p.run(p.croft, "ws", "exec", "shared", "--", "sh", "-c",
			fmt.Sprintf("sed -i 's/return 4./return %d/' web.go; go test -count=1 ./...", answer))
		if !strings.Contains(out, want) || want == "ok" && strings.Contains(out, "FAIL") || want == "FAIL" && !strings.Contains(out, "got 43") {
			t.Errorf("round %d: want %s, got:\n%s", i, want, out)
		}
	}
	<-done
	p.must("ws", "rm", "shared")
}

// TestRealToolchains runs the toolchains of this host's own user, where it has them.
func TestRealToolchains(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("skipped: host: this user has no home directory")
	}
	croft := filepath.Join(buildCroft(t), "croft")
	ran := false
	for _, tt := range []struct{ dir, toolchain, script, want string }{
		{".pyenv/versions", "pyenv", "python3 -c 'import sys, json; print(sys.prefix)'", filepath.Join(home, ".pyenv/versions")},
		{".rustup/toolchains", "rust", `printf 'fn main() { println!("{}", 6*7) }' > /tmp/x.rs && cd /tmp && rustc x.rs && ./x`, "42"},
	} {
		if _, err := os.Stat(filepath.Join(home, tt.dir)); err != nil {
			continue
		}
		ran = true
		cmd := exec.Command(croft, "run", "--toolchain", tt.toolchain, "--", "sh", "-c", tt.script)
		cmd.Env = append(os.Environ(), "CROFT_DATA="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v, %s", tt.toolchain, err, out)
		}
	}
	if !ran {
		t.Skip("skipped: host: the home has neither pyenv nor rustup")
	}
}
