package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/workspace/driver"
)

// proofsName is the file of the proofs in Config.Cache.
const proofsName = "proofs.json"

// proofs is the content of the file: the levels that passed their test, and a digest of
// all that their results depend on. A level that failed its test is not in it: the next
// process tests that level again.
type proofs struct {
	Host   string             `json:"host"` // see hostDigest
	Levels []driver.Isolation `json:"levels"`
}

// A proofStore keeps the proofs in Config.Cache; dir is "" if there is none.
type proofStore struct {
	dir string
	log *slog.Logger
}

// sysctls are those that decide about namespaces and seccomp. Not every kernel has all.
var sysctls = []string{
	"user/max_user_namespaces", "user/max_mnt_namespaces", "user/max_pid_namespaces", "user/max_net_namespaces", "user/max_ipc_namespaces",
	"user/max_uts_namespaces", "user/max_cgroup_namespaces", "kernel/unprivileged_userns_clone", "kernel/apparmor_restrict_unprivileged_userns",
	"kernel/apparmor_restrict_unprivileged_unconfined", "kernel/seccomp/actions_avail", "kernel/yama/ptrace_scope", "kernel/modules_disabled",
}

// statusKeys are the lines of /proc/self/status with the identity and the privileges of
// this process.
var statusKeys = []string{"Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"}

// hostDigest returns a digest of all that the test of a level depends on: the boot of the
// host, the programs, and the identity, privileges, namespaces and sysctls of this process.
// What can't be read counts as empty.
func (p *Provider) hostDigest() (string, error) {
	bin, err := p.binary()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	add := func(name string, value any) { fmt.Fprintf(sum, "%s=%q\n", name, fmt.Sprint(value)) }
	add("boot", p.store.Boot())
	add("guest", bin.Version)
	add("uid base", p.cfg.UIDBase)
	programs := []string{"/proc/self/exe", "/"}
	for _, name := range []string{"bwrap", "runsc"} {
		path, _ := exec.LookPath(name) // the level says what is missing
		programs = append(programs, path)
	}
	for _, path := range append(programs, p.cfg.Runsc) {
		add(path, fileIdentity(path))
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if key, _, _ := strings.Cut(line, "\t"); slices.Contains(statusKeys, key) {
			add("status", line)
		}
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "cgroup"} {
		link, _ := os.Readlink("/proc/self/ns/" + name)
		add("namespace "+name, link)
	}
	for _, file := range []string{"/proc/self/attr/current", "/sys/kernel/security/lsm"} {
		data, _ := os.ReadFile(file)
		add(file, string(data))
	}
	for _, name := range sysctls {
		data, _ := os.ReadFile(filepath.Join(p.sysctlDir, name))
		add(name, string(data))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// fileIdentity identifies a file with its content: no process can change the content without
// a new change time. It is "" if there is no such file.
func fileIdentity(path string) string {
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil {
		return ""
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Sprint(st.Dev, st.Ino)
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim)
}

// has reports whether an earlier process tested a level on the same host.
func (p *proofStore) has(l *level, digest string) bool {
	return slices.Contains(p.read(digest).Levels, l.name)
}

// read reads the proofs of earlier processes. They are empty where the file is damaged,
// or about something else than digest, or could have been written by another user.
func (p *proofStore) read(digest string) proofs {
	empty := proofs{Host: digest}
	if p.dir == "" {
		return empty
	}
	f, err := guestbin.OpenOwned(filepath.Join(p.dir, proofsName))
	if err != nil {
		return empty
	}
	defer f.Close()
	const most = 4 << 10
	data, err := io.ReadAll(io.LimitReader(f, most))
	var read proofs
	if err != nil || driver.DecodeStrict(data, &read) != nil || read.Host != digest {
		return empty
	}
	return read
}

// record records that a level passed its test. A failure costs the next process a test.
func (p *proofStore) record(l *level, digest string) {
	if p.dir == "" {
		return
	}
	now := p.read(digest)
	if slices.Contains(now.Levels, l.name) {
		return
	}
	now.Levels = append(now.Levels, l.name)
	data, err := json.Marshal(now)
	if err == nil {
		err = os.MkdirAll(p.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(p.dir, proofsName), append(data, '\n'), atomicfile.Options{})
	}
	if err != nil {
		p.log.Debug("sandbox: record that a level of isolation works", "level", l.name, "error", err)
	}
}

// forget makes the next processes test every level again.
func (p *proofStore) forget() {
	if p.dir == "" {
		return
	}
	if err := os.Remove(filepath.Join(p.dir, proofsName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.log.Warn("sandbox: forget which levels of isolation work", "error", err)
	}
}
