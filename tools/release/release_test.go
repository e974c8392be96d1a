package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const testVersion = "v0.9.1"

// TestGoMod: "go install" refuses a module with replace or exclude.
func TestGoMod(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Replace)+len(f.Exclude) > 0 {
		t.Errorf("go.mod has %d replace and %d exclude directives, with which go install MODULE@VERSION fails", len(f.Replace), len(f.Exclude))
	}
}

func TestVersions(t *testing.T) {
	for _, v := range []string{"", "0.1.0", "v1", "v1.2", "v1.2.3+x", "latest", "v1.2.3 v1.2.4"} {
		if err := run(t.Context(), append([]string{"tag", "-repo", t.TempDir()}, strings.Fields(v)...)); err == nil || !strings.Contains(err.Error(), "must have the form") {
			t.Errorf("%q: got %v", v, err)
		}
	}
}

// TestRelease makes a release of HEAD and installs it in every way that docs/install.md
// names. It takes minutes: make test-release runs it.
func TestRelease(t *testing.T) {
	if os.Getenv("CROFT_TEST_RELEASE") == "" {
		t.Skip("skipped: make test-release makes a release and installs it")
	}
	for _, name := range []string{"AUTHOR", "COMMITTER"} { // of commits and tags
		t.Setenv("GIT_"+name+"_NAME", "Croft")
		t.Setenv("GIT_"+name+"_EMAIL", "croft@example.com")
	}
	repo := filepath.Join(t.TempDir(), "croft")
	mustRun(t, "../..", nil, "git", "clone", "-q", "--shared", ".", repo)
	if err := run(t.Context(), []string{"tag", "-repo", repo, testVersion}); err != nil {
		t.Fatal(err)
	}
	if changes := mustRun(t, repo, nil, "git", "status", "--porcelain"); changes != "" {
		t.Errorf("release tag has changed the work tree: %s", changes)
	}
	// A second build, without the results of the first.
	t.Run("guests are reproducible", func(t *testing.T) {
		t.Setenv("GOCACHE", t.TempDir())
		t.Setenv("GUESTS", "amd64") // one is enough for the compiler, the linker and zstd
		dir := t.TempDir()
		if err := export(t.Context(), repo, testVersion, dir); err != nil {
			t.Fatal(err)
		}
		if err := verifyGuests(t.Context(), dir); err != nil {
			t.Error(err)
		}
		name := filepath.Join(dir, guestsDir, "linux-amd64.zst")
		if err := os.WriteFile(name, []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verifyGuests(t.Context(), dir); err == nil {
			t.Error("a guest that is not of the source was accepted")
		}
	})
	t.Run("go", func(t *testing.T) { testGo(t, repo) })

	dist := [2]string{filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")}
	for _, dir := range dist {
		if err := run(t.Context(), []string{"build", "-repo", repo, "-o", dir, "-platforms", "linux/" + runtime.GOARCH, "-image=false", testVersion}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("files are reproducible", func(t *testing.T) {
		sums := mustRun(t, dist[0], nil, "cat", "SHA256SUMS")
		if again := mustRun(t, dist[1], nil, "cat", "SHA256SUMS"); again != sums {
			t.Errorf("got\n%s\nand\n%s", sums, again)
		}
		mustRun(t, dist[0], nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
		for _, suffix := range []string{".tar.gz", ".deb", ".rpm", ".cdx.json", "install.sh"} {
			if !strings.Contains(sums, suffix+"\n") && !strings.HasSuffix(sums, suffix) {
				t.Errorf("there is no %s in\n%s", suffix, sums)
			}
		}
	})
	t.Run("packages", func(t *testing.T) { testPackages(t, dist[0]) })
	t.Run("Debian", func(t *testing.T) { testDebian(t, dist[0]) })
}

func mustRun(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), dir, env, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func try(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// testGo installs the tag by go install and go get, from a module proxy in a directory.
func testGo(t *testing.T, repo string) {
	cache := mustRun(t, ".", nil, "go", "env", "GOMODCACHE")
	proxy, bin, home := t.TempDir(), t.TempDir(), t.TempDir()
	addModule(t, proxy, repo, "")
	for _, name := range nested {
		addModule(t, proxy, repo, name)
	}
	// Dependencies come from what is downloaded already, as from a proxy. With -trimpath,
	// what is compiled already is not compiled again.
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache/download") + "," + mustRun(t, ".", nil, "go", "env", "GOPROXY"),
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + bin, "GOSUMDB=off", "GOFLAGS=-trimpath -modcacherw", "GOWORK=off", "CGO_ENABLED=0",
	}
	mustRun(t, t.TempDir(), env, "go", "install", modulePath+"/cmd/croft@"+testVersion)

	user := []string{"HOME=" + home, "CROFT_DATA=" + filepath.Join(home, "data")}
	var v struct {
		Version, Commit string
		Guest           struct{ From string }
	}
	if err := json.Unmarshal([]byte(mustRun(t, home, user, filepath.Join(bin, "croft"), "version", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	if want := mustRun(t, repo, nil, "git", "rev-parse", "HEAD"); v.Version != testVersion || v.Commit != want || v.Guest.From != "embedded" {
		t.Errorf("croft version: got %+v, want %s of %s with an embedded guest", v, testVersion, want)
	}
	if out := mustRun(t, home, user, filepath.Join(bin, "croft"), "run", "--", "id"); !strings.Contains(out, "(croft)") {
		t.Errorf("croft run -- id: got %q, want the user of a sandbox", out)
	}
	if out, err := try(t.Context(), home, user, filepath.Join(bin, "croft"), "run", "--", "ls", bin); err == nil {
		t.Errorf("croft run sees the files of the host: %s", out)
	}

	program := t.TempDir()
	if err := os.WriteFile(filepath.Join(program, "main.go"), []byte(libraryProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, program, env, "go", "mod", "init", "example.com/program")
	mustRun(t, program, env, "go", "get", modulePath+"@"+testVersion)
	mustRun(t, program, env, "go", "mod", "tidy")
	if out := mustRun(t, program, append(env, "PATH="+os.Getenv("PATH")), "go", "run", "."); !strings.Contains(out, "(croft)") {
		t.Errorf("a program with the library prints %q, want the user of a sandbox", out)
	}
	other := t.TempDir()
	mustRun(t, other, env, "go", "mod", "init", "example.com/other")
	mustRun(t, other, env, "go", "get", modulePath+"/contrib/trpcagent@"+testVersion)
	mustRun(t, other, env, "go", "build", modulePath+"/contrib/trpcagent")

	mustRun(t, t.TempDir(), env, "go", "install", modulePath+"/provider/kubernetes/cmd/croft-k8s@"+testVersion)
	if out := mustRun(t, home, user, filepath.Join(bin, "croft-k8s"), "version"); !strings.Contains(out, testVersion) || !strings.Contains(out, "embedded") {
		t.Errorf("croft-k8s version: got %q, want %s with an embedded guest", out, testVersion)
	}
	mustRun(t, t.TempDir(), env, "go", "install", modulePath+"/cmd/croft-guest@"+testVersion) // of the image with the guest
}

// TestNestedModules: at its tag a nested module can be installed by "go install", and built in
// a clone, where go.sum must have the sums of Croft's module.
func TestNestedModules(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: host: it has no git")
	}
	repo, proxy, bin := t.TempDir(), t.TempDir(), t.TempDir()
	files := map[string]string{
		"go.mod": "module " + modulePath + "\n\ngo 1.26.0\n", "text.go": "package croft\n\nconst Text = \"of the release\"\n",
	}
	for _, name := range nested {
		up := strings.Repeat("../", strings.Count(name, "/")+1)
		files[name+"/go.mod"] = "module " + modulePath + "/" + name + "\n\ngo 1.26.0\n\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + up + "\n"
		files[name+"/go.sum"] = ""
		files[name+"/cmd/"+path.Base(name)+"/main.go"] = "package main\n\nimport \"" + modulePath + "\"\n\nfunc main() { println(croft.Text) }\n"
	}
	for name, text := range files {
		name = filepath.Join(repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	git := []string{"GIT_AUTHOR_NAME=Croft", "GIT_AUTHOR_EMAIL=croft@example.com", "GIT_COMMITTER_NAME=Croft", "GIT_COMMITTER_EMAIL=croft@example.com"}
	mustRun(t, repo, nil, "git", "init", "-q")
	mustRun(t, repo, nil, "git", "add", ".")
	tree := mustRun(t, repo, nil, "git", "write-tree")
	changed, err := requireRelease(t.Context(), repo, repo, tree, testVersion)
	if err != nil {
		t.Fatal(err)
	}
	if tree, err = addFiles(t.Context(), repo, repo, nil, changed); err != nil {
		t.Fatal(err)
	}
	mustRun(t, repo, nil, "git", "tag", testVersion, mustRun(t, repo, git, "git", "commit-tree", tree, "-m", "release"))

	env := []string{"GOPROXY=file://" + proxy, "GOMODCACHE=" + t.TempDir(), "GOBIN=" + bin, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off"}
	addModule(t, proxy, repo, "")
	for _, name := range nested {
		addModule(t, proxy, repo, name)
		program := "/cmd/" + path.Base(name)
		mustRun(t, t.TempDir(), env, "go", "install", modulePath+"/"+name+program+"@"+testVersion)
		if out := mustRun(t, bin, nil, filepath.Join(bin, path.Base(name))); out != "of the release" {
			t.Errorf("%s prints %q", name, out)
		}
		mustRun(t, filepath.Join(repo, name), env, "go", "build", "-mod=readonly", "-o", os.DevNull, "."+program)
	}
}

// addModule adds the module in a folder of the tag to a module proxy.
func addModule(t *testing.T, proxy, repo, folder string) {
	t.Helper()
	m := module.Version{Path: path.Join(modulePath, folder), Version: testVersion}
	var archive bytes.Buffer
	if err := zip.CreateFromVCS(&archive, m, repo, testVersion, folder); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, m.Path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"list": testVersion + "\n", testVersion + ".info": fmt.Sprintf(`{"Version": %q}`, testVersion),
		testVersion + ".mod": mustRun(t, repo, nil, "git", "show", testVersion+":"+path.Join(folder, "go.mod")) + "\n", testVersion + ".zip": archive.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const libraryProgram = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
)

func main() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "sandboxes")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	provider, err := sandbox.New(&sandbox.Config{Root: root})
	if err != nil {
		log.Fatal(err)
	}
	ws, err := workspace.NewMux(provider).Open(ctx, workspace.Spec{Kind: "sandbox", ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	out, err := ws.Command(ctx, "id").Output()
	fmt.Printf("%s %v\n", out, err)
}
`

// testPackages opens both packages, and installs the .rpm in an empty directory. They have the
// same files, with the same modes and content, belong to root, need no other package and run no
// script. The .rpm leaves nothing after its removal.
func testPackages(t *testing.T, dist string) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: rpm --root needs root")
	}
	for _, program := range []string{"dpkg-deb", "rpm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("skipped: host: it has no " + program)
		}
	}
	base := filepath.Join(dist, (&build{version: testVersion}).name("linux/"+runtime.GOARCH))
	deb, rpm := base+".deb", base+".rpm"
	query := func(args ...string) string {
		return mustRun(t, dist, nil, append(append([]string{"rpm"}, args...), rpm)...)
	}
	debRoot, rpmRoot, control := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "control")
	mustRun(t, dist, nil, "dpkg-deb", "-x", deb, debRoot)
	inRoot := []string{"rpm", "--root", rpmRoot, "--dbpath", "/rpmdb"}
	change := inRoot
	if _, err := os.Stat("/etc/debian_version"); err == nil {
		change = append(slices.Clip(inRoot), "--force-debian") // Debian's rpm installs nothing without it
	}
	mustRun(t, dist, nil, append(slices.Clip(change), "--install", rpm)...)
	if out := mustRun(t, dist, nil, append(slices.Clip(inRoot), "--verify", "croft")...); out != "" {
		t.Errorf("rpm --verify finds %s", out)
	}
	got, want := packageFiles(t, filepath.Join(rpmRoot, "usr")), packageFiles(t, filepath.Join(debRoot, "usr"))
	mustRun(t, dist, nil, append(slices.Clip(change), "--erase", "croft")...)
	if left, err := filepath.Glob(filepath.Join(rpmRoot, "usr/share/doc/*")); err != nil || len(packageFiles(t, filepath.Join(rpmRoot, "usr")))+len(left) > 0 {
		t.Errorf("after the removal of the .rpm there are files, or %v (%v)", left, err)
	}
	const debZsh, rpmZsh = "/share/zsh/vendor-completions/_croft", "/share/zsh/site-functions/_croft"
	if want[debZsh] == "" || want[rpmZsh] != "" {
		t.Errorf("the .deb has no %s, or %s, where zsh of Debian does not look", debZsh, rpmZsh)
	}
	want[rpmZsh] = want[debZsh]
	delete(want, debZsh)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the files of the .rpm differ from those of the .deb (-deb +rpm):\n%s", diff)
	}
	for _, name := range []string{"/bin/croft", "/share/man/man1/croft-run.1", "/share/bash-completion/completions/croft",
		"/share/zsh/site-functions/_croft", "/share/fish/vendor_completions.d/croft.fish", "/share/doc/croft/LICENSE"} {
		if want[name] == "" {
			t.Errorf("the packages have no /usr%s", name)
		}
	}
	for name, file := range want {
		mode := "-rw-r--r--"
		if name == "/bin/croft" {
			mode = "-rwxr-xr-x"
		}
		if !strings.HasPrefix(file, mode) {
			t.Errorf("/usr%s has the mode %s, want %s", name, file[:len(mode)], mode)
		}
	}
	for _, module := range []string{"std@", "github.com/spf13/cobra@"} { // of each licence a directory
		found, err := filepath.Glob(filepath.Join(debRoot, "usr/share/doc/croft/licenses", module+"*"))
		if err != nil || len(found) == 0 {
			t.Errorf("the packages have no licence of %s (%v)", module, err)
		}
	}

	for line := range strings.Lines(mustRun(t, dist, nil, "dpkg-deb", "-c", deb)) {
		if !strings.Contains(line, " root/root ") {
			t.Errorf("of another user than root: %s", line)
		}
	}
	for owner := range strings.SplitSeq(query("-qp", "--queryformat", "[%{FILEUSERNAME}/%{FILEGROUPNAME}\n]"), "\n") {
		if owner != "root/root" {
			t.Errorf("a file of the .rpm belongs to %s", owner)
		}
	}

	mustRun(t, dist, nil, "dpkg-deb", "-e", deb, control)
	parts, err := readDir(control)
	if err != nil || strings.Join(parts, " ") != "conffiles control md5sums" {
		t.Errorf("the .deb has %v, %v besides its files, want no script", parts, err)
	}
	for field, want := range map[string]string{"Depends": "", "Recommends": "git, uidmap", "Version": strings.TrimPrefix(testVersion, "v")} {
		if got := strings.TrimSpace(mustRun(t, dist, nil, "dpkg-deb", "-f", deb, field)); got != want {
			t.Errorf("%s of the .deb is %q, want %q", field, got, want)
		}
	}
	for line := range strings.Lines(query("-qp", "--requires")) {
		if !strings.HasPrefix(line, "rpmlib(") { // a feature of rpm itself
			t.Errorf("the .rpm requires %s", line)
		}
	}
	for _, tt := range []struct{ what, got, want string }{
		{"scripts", query("-qp", "--scripts"), ""},
		{"triggers", query("-qp", "--triggers"), ""},
		{"recommended packages", query("-qp", "--recommends"), "git\nshadow-utils"},
		{"version and licence", query("-qp", "--queryformat", "%{NAME} %{VERSION} %{LICENSE}"), "croft " + strings.TrimPrefix(testVersion, "v") + " Apache-2.0"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s of the .rpm: %q, want %q", tt.what, tt.got, tt.want)
		}
	}
	if out := query("-K", "--nosignature"); !strings.Contains(out, "digests OK") {
		t.Errorf("rpm -K prints %s", out)
	}
}

// packageFiles returns the mode and the digest of each file by its path.
func packageFiles(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(name, root)] = fmt.Sprintf("%s %x", info.Mode(), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// testDebian does what a new user would, by the commands of README.md: in a fresh Debian, as
// a plain user. User namespaces are refused after chroot, so the root is entered by
// pivot_root.
func testDebian(t *testing.T, dist string) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: debootstrap and pivot_root need root")
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		t.Skip("skipped: host: it has no debootstrap")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer server.Close()
	root := filepath.Join(t.TempDir(), "root")
	mustRun(t, ".", nil, "cp", "-a", debian(t), root)
	mustRun(t, ".", nil, "chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "user")

	login := func(script string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "commands"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, "enter", root)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v\n%s", script, err, out)
		}
		return string(out)
	}
	install := section(t, string(readme), "Install")
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	removal := string(page)
	fetch := find(t, install, `(?m)^(curl .*install\.sh.*)$`)
	const releases = "https://github.com/croft-run/croft/releases/latest/download"
	if !strings.Contains(fetch, releases) {
		t.Fatalf("%q does not download from %s", fetch, releases)
	}
	login("export CROFT_INSTALL_URL=" + server.URL + "\n" + strings.ReplaceAll(fetch, releases, server.URL))
	// In the next login, .profile of Debian has ~/.local/bin on PATH.
	if out := login("croft version"); !strings.Contains(out, "croft "+testVersion+" ") {
		t.Errorf("croft version prints %s", out)
	}
	work := find(t, section(t, string(readme), "An agent in your project"), "(?s)```sh\n([^`]*croft work [^`]*)```")
	work = regexp.MustCompile(`(?m)^(croft work apply.*)$`).ReplaceAllString(work, "grep 'a - b' calc.py\n$1\ngrep 'a + b' calc.py")
	login("set -ex\n" + work)
	list := login(find(t, removal, `(?m)^(croft uninstall --dry-run)`))
	for _, want := range []string{"workspace ", "/home/user/.local/share/croft ", "/home/user/.local/bin/croft ", "manual pages"} {
		if !strings.Contains(list, want) {
			t.Errorf("croft uninstall --dry-run does not list %q:\n%s", want, list)
		}
	}
	login("croft uninstall --yes")
	left, err := readDir(filepath.Join(root, "home/user"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if strings.Contains(name, "croft") {
			t.Errorf("after croft uninstall there is %s", name)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "home/user/app/calc.py")); err != nil {
		t.Errorf("the project of the user is gone: %v", err)
	}
}

// enter makes $1 the root of this mount namespace and runs the file /commands as a login of user.
const enter = `set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mkdir -p old
pivot_root . old
cd /
umount -l old
exec su --login user --command 'exec bash --login /commands'`

// debian returns the directory of a fresh Debian with what README.md uses. It is made once,
// from the mirror of this machine.
func debian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "croft", "debian-bookworm")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	mirror := "http://deb.debian.org/debian"
	lists, err := filepath.Glob("/etc/apt/sources.list*")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(lists, sources...) {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a directory
		}
		if m := regexp.MustCompile(`(?m)^(?:deb|URIs:) *(https?://\S+/debian)/?(?: |$)`).FindSubmatch(data); m != nil {
			mirror = string(m[1])
			break
		}
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(part), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := try(t.Context(), ".", nil, "debootstrap", "--variant=minbase", "--include=ca-certificates,curl,git", "bookworm", part, mirror); err != nil {
		t.Logf("debootstrap: %v\n%s", err, out)
		t.Skip("skipped: host: debootstrap can't make a Debian from its mirror")
	}
	if err := os.Rename(part, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// section returns the text of a page below a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("README.md has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func find(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("README.md has no %s in\n%s", pattern, text)
	}
	return m[1]
}
