package testenv

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DockerImage is the image of each test engine: the default of the provider docker. It is
// not Debian's own, because tests reach no registry: it is built from files of Debian
// packages on this host, with a Jupyter kernel for Python, without documentation and
// translations.
const DockerImage = "debian:stable-slim"

// A wantedPackage is a package of the image. An optional one is included if this host has
// it.
type wantedPackage struct {
	name     string
	optional bool
}

// wanted are the packages of the image.
var wanted = []wantedPackage{
	{"base-files", false}, {"bash", false}, {"coreutils", false}, {"dash", false}, {"diffutils", false}, {"findutils", false},
	{"grep", false}, {"gzip", false}, {"hostname", false}, {"libc-bin", false}, {"ncurses-base", false}, {"perl-base", false}, {"sed", false}, {"tar", false},
	{"util-linux", false}, {"procps", true}, {"mawk", true}, {"gawk", true}, {"patch", true}, {"less", true}, {"xz-utils", true}, {"unzip", true},
	{"ca-certificates", true}, {"openssl", true}, {"curl", true}, {"git", true}, {"make", true}, {"tzdata", true}, {"ripgrep", true},
	{"python3", false}, {"python3-ipykernel", false},
}

// unneeded are dependencies that are only needed to install packages, or that tests do
// not use.
var unneeded = []string{
	"debconf", "debconf-2.0", "dpkg", "install-info", "perl", "liberror-perl", "git-man", "init-system-helpers", "mailcap", "mime-support",
	"login", "passwd", "adduser", "tzdata-legacy",
}

// excludedPaths are prefixes of paths that are not in the image.
var excludedPaths = []string{
	"/usr/share/doc/", "/usr/share/man/", "/usr/share/info/", "/usr/share/locale/", "/usr/share/lintian/", "/usr/share/bug/", "/usr/share/doc-base/",
	"/usr/share/bash-completion/", "/usr/share/zsh/", "/usr/share/gitweb/", "/var/lib/dpkg/", "/etc/cron", "/etc/systemd/", "/lib/systemd/", "/usr/lib/systemd/",
	"/etc/init.d/", "/etc/pam.d/", "/etc/default/", "/etc/logrotate.d/", "/usr/share/git-core/contrib/", "/usr/share/menu/",
}

// generatedFiles are files that maintainer scripts make and that belong to no package.
var generatedFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/nsswitch.conf", "/etc/os-release"}

// WriteRootfs writes the files of DockerImage as a tar.
func WriteRootfs(ctx context.Context, w io.Writer) error {
	list, err := resolvePackages(ctx, wanted)
	if err == nil {
		err = writeRootfs(w, list)
	}
	if err != nil {
		return fmt.Errorf("make the image %s: %w", DockerImage, err)
	}
	return nil
}

// importImage imports DockerImage into the engine.
func (d *Dockerd) importImage(ctx context.Context) error {
	files, w := io.Pipe()
	defer files.Close() //nolint:errcheck // never fails; it ends the goroutine if the engine stops reading
	go func() { w.CloseWithError(WriteRootfs(ctx, w)) }()
	query := url.Values{"fromSrc": {"-"}, "repo": {DockerImage}, "changes": {
		"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV LANG=C.UTF-8", `CMD ["/bin/bash"]`,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/images/create?"+query.Encode(), files)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-tar")
	resp, err := d.httpClient().Do(req)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", DockerImage, err)
	}
	said, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(said, []byte(`"error"`)) {
		return fmt.Errorf("make the image %s: %s, %w: %s", DockerImage, resp.Status, err, said)
	}
	return nil
}

// An installedPackage is a package of this host.
type installedPackage struct {
	name, version string
	depends       []string
	files         []string
}

// resolvePackages returns the wanted packages with their dependencies.
func resolvePackages(ctx context.Context, wanted []wantedPackage) ([]installedPackage, error) {
	known, err := readPackages(ctx)
	if err != nil {
		return nil, err
	}
	var list []installedPackage
	seen := map[string]bool{}
	var add func(name string) bool
	add = func(name string) bool {
		if seen[name] || slices.Contains(unneeded, name) {
			return true
		}
		pkg, ok := known[name]
		if !ok {
			return false
		}
		seen[name] = true
		for _, dep := range pkg.depends {
			add(dep) // a missing dependency is ignored
		}
		list = append(list, *pkg)
		return true
	}
	for _, w := range wanted {
		if !add(w.name) && !w.optional {
			return nil, fmt.Errorf("package %s: it is not installed on this host", w.name)
		}
	}
	slices.SortFunc(list, func(a, b installedPackage) int { return strings.Compare(a.name, b.name) })
	for i := range list {
		if list[i].files, err = filesOf(list[i].name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readPackages reads the installed packages and their dependencies from dpkg.
func readPackages(ctx context.Context) (map[string]*installedPackage, error) {
	program, err := exec.LookPath("dpkg-query")
	if err != nil {
		return nil, errors.New("this host has no packages of Debian")
	}
	cmd := exec.CommandContext(ctx, program, "-W", "-f", "${db:Status-Status}\t${Package}\t${Version}\t${Provides}\t${Pre-Depends}, ${Depends}\n")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask for packages: %w", err)
	}
	known := map[string]*installedPackage{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) != 5 || f[0] != "installed" {
			continue
		}
		pkg := &installedPackage{name: f[1], version: f[2], depends: packageNames(f[4])}
		known[pkg.name] = pkg
		for _, other := range packageNames(f[3]) {
			if known[other] == nil {
				known[other] = pkg
			}
		}
	}
	return known, lines.Err()
}

// packageNames are the names in a field such as Depends, with all alternatives.
func packageNames(field string) []string {
	var list []string
	for _, part := range strings.FieldsFunc(field, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			list = append(list, name)
		}
	}
	return list
}

// filesOf lists the files of a package.
func filesOf(name string) ([]string, error) {
	found, err := filepath.Glob("/var/lib/dpkg/info/" + name + ".list")
	if err == nil && len(found) == 0 {
		found, err = filepath.Glob("/var/lib/dpkg/info/" + name + ":*.list")
	}
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("package %s has no list of files", name)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return nil, fmt.Errorf("files of package %s: %w", name, err)
	}
	return strings.Fields(string(data)), nil
}

// A rootfsWriter writes a rootfs as a tar, each path once and after its parents.
type rootfsWriter struct {
	tar  *tar.Writer
	done map[string]bool
}

func writeRootfs(w io.Writer, list []installedPackage) error {
	b := &rootfsWriter{tar: tar.NewWriter(w), done: map[string]bool{"/": true}}
	for _, dir := range []string{"/usr", "/usr/bin", "/usr/lib", "/usr/sbin", "/etc", "/var", "/var/tmp", "/tmp", "/run", "/proc", "/sys", "/dev", "/home", "/root", "/workspace"} {
		if err := b.addDir(dir); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "lib", "sbin", "lib64", "lib32", "libx32"} {
		if target, err := os.Readlink("/" + link); err == nil {
			if err := b.addPath("/" + link); err != nil {
				return err
			}
			if err := b.addDir(path.Join("/", target)); err != nil {
				return err
			}
		}
	}
	for _, pkg := range list {
		for _, file := range pkg.files {
			if err := b.addFile(file); err != nil {
				return fmt.Errorf("%s of package %s: %w", file, pkg.name, err)
			}
		}
	}
	for _, file := range generatedFiles {
		if err := b.addFile(file); err != nil {
			return err
		}
	}
	return b.tar.Close()
}

// addFile adds a path of the host, and names that are alternatives of it.
func (b *rootfsWriter) addFile(file string) error {
	if file == "/." || slices.ContainsFunc(excludedPaths, func(p string) bool { return strings.HasPrefix(file+"/", p) }) {
		return nil
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(file)) // /bin is /usr/bin
	if err != nil {
		return nil // the host lacks it
	}
	file = filepath.Join(real, filepath.Base(file))
	if err := b.addPath(file); err != nil {
		return err
	}
	if !strings.HasPrefix(file, "/usr/bin/") && !strings.HasPrefix(file, "/usr/lib/") {
		return nil
	}
	return b.addAlternatives(file)
}

// addAlternatives adds symlinks for other names of a program: awk for mawk.
func (b *rootfsWriter) addAlternatives(file string) error {
	for name, alternative := range map[string]string{"/usr/bin/mawk": "awk", "/usr/bin/gawk": "awk", "/usr/bin/less": "pager"} {
		if file != name || b.done["/usr/bin/"+alternative] {
			continue
		}
		b.done["/usr/bin/"+alternative] = true
		err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/" + alternative, Linkname: path.Base(name), Mode: 0o777, ModTime: time.Unix(0, 0)})
		if err != nil {
			return err
		}
	}
	return nil
}

// addDir adds a directory and its parents.
func (b *rootfsWriter) addDir(dir string) error {
	if b.done[dir] {
		return nil
	}
	if err := b.addDir(path.Dir(dir)); err != nil {
		return err
	}
	b.done[dir] = true
	mode := int64(0o755)
	if dir == "/tmp" || dir == "/var/tmp" { // some runtimes give a mount there the mode of the image
		mode = 0o1777
	}
	return b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: mode, ModTime: time.Unix(0, 0)})
}

// addPath adds an entry of the host. Missing and special files are left out.
func (b *rootfsWriter) addPath(file string) error {
	if b.done[file] {
		return nil
	}
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.addDir(path.Dir(file)); err != nil {
		return err
	}
	if info.IsDir() {
		return b.addDir(file)
	}
	b.done[file] = true
	h := &tar.Header{Name: strings.TrimPrefix(file, "/"), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
		return b.tar.WriteHeader(h)
	case !info.Mode().IsRegular() || info.Mode()&0o004 == 0: // files that are not world-readable are left out
		return nil
	}
	return b.writeContent(h, file)
}

func (b *rootfsWriter) writeContent(h *tar.Header, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(b.tar, f, h.Size)
	return err
}
