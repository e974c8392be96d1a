package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/workspace/driver"
)

// A machine is a host that ssh reaches, and the directory of Croft on it.
type machine struct {
	Host string `json:"host"`
	Dir  string `json:"dir"`  // absolute
	Arch string `json:"arch"` // GOARCH
}

// A location is the place of a workspace on a machine. It is the content of machine.json.
type location struct {
	machine
	ID string `json:"id"`
}

const locationName = "machine.json" // in the directory of a workspace on this host

func (l *location) write(dir string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.Internal, err)
	}
	return atomicfile.Write(filepath.Join(dir, locationName), data, atomicfile.Options{Durable: true})
}

// readLocation reads machine.json of a workspace directory of this host.
func readLocation(dir string) (*location, error) {
	data, err := os.ReadFile(filepath.Join(dir, locationName))
	if err != nil {
		return nil, err
	}
	l := new(location)
	if err := driver.DecodeStrict(data, l); err != nil || !driver.ValidID(l.ID) || !validHost.MatchString(l.Host) || !validDir.MatchString(l.Dir) {
		return nil, fmt.Errorf("%s of the workspace is not valid: %w", locationName, fault.Failed)
	}
	return l, nil
}

// A program is a croft-guest to upload.
type program struct {
	*guestbin.Binary
	digest string
}

// remoteName is its path below the directory of a machine.
func (p *program) remoteName() string { return "bin/" + guestbin.Name + "-" + p.digest }

// program returns the guest for an architecture.
func (p *Provider) program(arch string) (*program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.programs[arch]; known != nil {
		return known, nil
	}
	bin, err := guestbin.FindFor(arch, p.cfg.Guest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(bin.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	p.programs[arch] = &program{Binary: bin, digest: hex.EncodeToString(sum.Sum(nil))}
	return p.programs[arch], nil
}

// maxConnecting bounds the connections to one host that are being made: an sshd refuses more
// than ten by default (MaxStartups).
const maxConnecting = 8

// connectSlot waits until a connection to a host may be made.
func (p *Provider) connectSlot(ctx context.Context, host string) (release func(), err error) {
	p.mu.Lock()
	places := p.connecting[host]
	if places == nil {
		places = make(chan struct{}, maxConnecting)
		p.connecting[host] = places
	}
	p.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", host, ctx.Err())
	}
}

// script is runScript within the bounds of the provider.
func (p *Provider) script(ctx context.Context, host, text string, stdin io.Reader) (out, stderr string, status int, err error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	release, err := p.connectSlot(soon, host)
	if err == nil {
		defer release()
		out, stderr, status, err = runScript(soon, host, text, stdin)
	}
	return out, stderr, status, p.timeoutError(ctx, host, err)
}

// timeoutError turns a time-out of the provider's own into Unavailable.
func (p *Provider) timeoutError(ctx context.Context, host string, err error) error {
	if ctx.Err() == nil && fault.Of(err) == fault.DeadlineExceeded {
		return &remote.UnreachableError{Err: fmt.Errorf("%s does not answer within %v: %w", host, p.cfg.Timeout, fault.Unavailable)}
	}
	return err
}

// locateMarker begins the output of the script of locate.
const locateMarker = "croft-machine"

// locate finds the directory and the architecture of a machine, once per process, and
// creates the directory.
func (p *Provider) locate(ctx context.Context, opts *Options) (machine, error) {
	dir, err := remoteDir(opts.Dir)
	if err != nil {
		return machine{}, err
	}
	key := machine{Host: opts.Host, Dir: dir}
	unlock, err := p.locating.Lock(ctx, key)
	if err != nil {
		return machine{}, err
	}
	defer unlock()
	p.mu.Lock()
	m, ok := p.located[key]
	p.mu.Unlock()
	if ok {
		return m, nil
	}
	out, stderr, status, err := p.script(ctx, opts.Host, "umask 077; echo "+locateMarker+"; mkdir -p "+dir+"/bin "+dir+"/ws && cd "+dir+" && { [ -O . ] && [ -O bin ] && [ -O ws ] || exit "+strconv.Itoa(statusForeign)+"; } && pwd -P && uname -sm", nil)
	if err != nil {
		return machine{}, err
	}
	first, rest, _ := strings.Cut(out, "\n")
	if first != locateMarker {
		return machine{}, fmt.Errorf("%s: %w: its login shell prints %.100q before the output of a command; a shell that is not interactive must print nothing", opts.Host, fault.Failed, out)
	}
	if status == statusForeign { // who could replace the guest's program after its digest was verified
		return machine{}, fmt.Errorf("%s: the directory %s: %w: it, or bin or ws in it, belongs to another user; name one of the user of the login as the option \"dir\"", opts.Host, opts.Dir, fault.PermissionDenied)
	}
	if status != 0 {
		return machine{}, fmt.Errorf("%s: create the directory %s: %w: %s", opts.Host, opts.Dir, fault.Failed, stderr)
	}
	at, system, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	m = machine{Host: opts.Host, Dir: at, Arch: architectures[system]}
	switch {
	case m.Arch == "":
		return machine{}, fmt.Errorf("%s: the system %.60q: %w: it must be Linux on x86_64 or aarch64", opts.Host, system, fault.Unsupported)
	case !validDir.MatchString(at):
		return machine{}, fmt.Errorf("%s: the directory %.200q: %w: set the option \"dir\" to one of letters, digits and _ . / @ + = -", opts.Host, at, fault.Unsupported)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.located[key] = m
	return m, nil
}

// architectures are the outputs of uname -sm for which there is a guest.
var architectures = map[string]string{"Linux x86_64": "amd64", "Linux aarch64": "arm64"}

// verifyScript returns commands that end with statusNotFound unless the machine has the
// program. The program is touched, so that uploads of other versions don't remove it.
func verifyScript(dir string, prog *program) string {
	name := dir + "/" + prog.remoteName()
	return "case $(sha256sum < " + name + ") in " + prog.digest + "*) touch " + name + ";; *) exit " + strconv.Itoa(statusNotFound) + ";; esac; "
}

// install uploads the guest's program, unless the machine has it.
func (p *Provider) install(ctx context.Context, m machine) error {
	prog, err := p.program(m.Arch)
	if err != nil || p.isInstalled(m) {
		return err
	}
	_, _, status, err := p.script(ctx, m.Host, verifyScript(m.Dir, prog), nil)
	if err != nil {
		return err
	}
	if status != 0 {
		return p.upload(ctx, m, prog)
	}
	p.setInstalled(m, true)
	return nil
}

func (p *Provider) isInstalled(m machine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.installed[m]
}

func (p *Provider) setInstalled(m machine, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.installed[m] = yes
}

// upload writes the program to a temporary file, verifies it and renames it. It also removes
// programs and temporary files that were not used for 30 days.
func (p *Provider) upload(ctx context.Context, m machine, prog *program) error {
	unlock, err := p.locating.Lock(ctx, m)
	if err != nil {
		return err
	}
	defer unlock()
	if p.isInstalled(m) {
		return nil // by another call
	}
	f, err := os.Open(prog.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	defer f.Close()
	script := "umask 077; cd " + m.Dir + " && mkdir -p bin ws || exit 3; t=bin/.upload.$$; " +
		"cat > $t && chmod 700 $t && case $(sha256sum < $t) in " + prog.digest + "*) mv -f $t " + prog.remoteName() + ";; *) false;; esac || { rm -f $t; exit 4; }; " +
		"find bin -type f -mtime +30 -exec rm -f {} +"
	_, stderr, status, err := p.script(ctx, m.Host, script, f)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: upload %s to %s: %w: the script ended with status %d: %s", m.Host, guestbin.Name, m.Dir, fault.Failed, status, stderr)
	}
	if err == nil {
		p.setInstalled(m, true)
		p.log.Info("ssh: the guest was uploaded", "host", m.Host, "dir", m.Dir, "digest", prog.digest)
	}
	return err
}
