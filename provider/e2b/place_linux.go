package e2b

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/shellword"
	"github.com/croft-run/croft/workspace/driver"
)

// A location says where the sandbox of a workspace is. It is the content of sandbox.json.
type location struct {
	Server    string `json:"server"`
	Sandboxes string `json:"sandboxes,omitempty"`
	Key       string `json:"key"` // name of the secret
	Template  string `json:"template"`
	Timeout   int    `json:"timeout"`
	Internet  bool   `json:"internet,omitempty"`
	ID        string `json:"id"`             // of the workspace
	DataDir   string `json:"root,omitempty"` // name of the data directory when the workspace was opened; see rootName
}

const locationName = "sandbox.json" // in the directory of a workspace on this host

func (l *location) write(dir string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.Internal, err)
	}
	return atomicfile.Write(filepath.Join(dir, locationName), data, atomicfile.Options{Durable: true})
}

func readLocation(dir string) (*location, error) {
	data, err := os.ReadFile(filepath.Join(dir, locationName))
	if err != nil {
		return nil, err
	}
	l := new(location)
	if err := driver.DecodeStrict(data, l); err != nil || !driver.ValidID(l.ID) {
		return nil, fmt.Errorf("%s of the workspace is not valid: %w", locationName, fault.Failed)
	}
	return l, nil
}

// A place is the sandbox of a workspace.
type place struct {
	p *Provider
	*location
	server *server

	mu   sync.Mutex
	box  *envd  // nil until it was connected to
	home string // directory of Croft in the sandbox
}

var _ remote.Machine = (*place)(nil)

// Name returns the server.
func (l *place) Name() string { return l.Server }

// dirName is the directory of Croft in the home of a sandbox.
const dirName = ".croft"

// Root returns the directory of the files; "" before the first connection.
func (l *place) Root() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.home == "" {
		return ""
	}
	return l.home + "/ws/" + guestproto.MachineFiles
}

// Version returns the version of the guest's program. Sandboxes have the architecture of
// this host, or install fails.
func (l *place) Version() (string, error) {
	bin, err := l.p.guestProgram()
	if err != nil {
		return "", err
	}
	return bin.Version, nil
}

// attach finds the sandbox, resumes it and moves its end. The error is NotFound if there is
// none.
func (l *place) attach(ctx context.Context) (*envd, error) {
	l.mu.Lock()
	known := l.box
	l.mu.Unlock()
	id := ""
	if known != nil {
		id = known.id
	} else {
		boxes, err := l.server.find(ctx, l.ID, l.DataDir)
		if err != nil {
			return nil, err
		}
		if len(boxes) == 0 {
			return nil, fmt.Errorf("%s: %w: it has no sandbox of this workspace", l.Server, fault.NotFound)
		}
		id = boxes[0].ID
	}
	box, err := l.server.connect(ctx, id, l.Timeout)
	if err != nil {
		return nil, err
	}
	e, err := newEnvd(box, l.Sandboxes, l.p.transport)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	home := l.home
	l.mu.Unlock()
	if home == "" {
		if home, err = findHome(ctx, e); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.box, l.home = e, home
	return e, nil
}

// findHome returns the directory of Croft in a sandbox, and refuses one of another
// architecture.
func findHome(ctx context.Context, e *envd) (string, error) {
	out, stderr, status, err := e.run(ctx, `cd && pwd -P && uname -sm`)
	if err != nil {
		return "", err
	}
	home, system, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if status != 0 || !filepath.IsAbs(home) {
		return "", fmt.Errorf("sandbox %s: %w: its shell ended with status %d: %s", e.id, fault.Failed, status, stderr)
	}
	if want := systems[system]; want != guestArch {
		return "", fmt.Errorf("sandbox %s: the system %.60q: %w: it must be Linux on the architecture of this host, %s", e.id, system, fault.Unsupported, guestArch)
	}
	return home + "/" + dirName, nil
}

// create creates the sandbox of a new workspace, unless there is one, and its directories.
func (l *place) create(ctx context.Context) error {
	boxes, err := l.server.find(ctx, l.ID, l.DataDir)
	if err != nil {
		return err
	}
	if len(boxes) == 0 {
		_, err = l.server.create(ctx, newSandbox{
			TemplateID: l.Template, Timeout: l.Timeout, AutoPause: true, Secure: true, Internet: l.Internet, Metadata: map[string]string{workspaceKey: l.ID, rootKey: l.DataDir},
		})
		if err != nil {
			return err
		}
		driver.Step(ctx, "sandbox created")
	}
	e, err := l.attach(ctx)
	if err != nil {
		return err
	}
	dir := shellword.Quote(l.home + "/ws")
	_, stderr, status, err := e.run(ctx, "umask 077; mkdir -p "+dir+"/"+guestproto.MachineLog+" && umask 022 && mkdir -p "+dir+"/"+guestproto.MachineFiles)
	if err == nil && status != 0 {
		err = fmt.Errorf("sandbox %s: create %s: %w: %s", e.id, dir, fault.Failed, stderr)
	}
	return err
}

// rootName names a data directory, without its path.
func rootName(root string) string {
	host, _ := os.Hostname() // "" is as good
	sum := sha256.Sum256([]byte(host + "\x00" + root))
	return hex.EncodeToString(sum[:8])
}

// install uploads the guest's program, unless the sandbox has it, and returns its path.
func (l *place) install(ctx context.Context, e *envd) (string, error) {
	bin, err := l.p.guestProgram()
	if err != nil {
		return "", err
	}
	path := l.home + "/bin/" + guestbin.Name + "-" + bin.digest
	out, _, status, err := e.run(ctx, "sha256sum "+shellword.Quote(path))
	if err != nil || status == 0 && strings.HasPrefix(out, bin.digest+" ") {
		return path, err
	}
	f, err := os.Open(bin.Path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	defer f.Close()
	part := path + "." + driver.NewID()
	if err := e.upload(ctx, part, f, bin.size); err != nil {
		return "", err
	}
	_, stderr, status, err := e.run(ctx, "p="+shellword.Quote(part)+"; chmod 700 $p && case $(sha256sum < $p) in "+bin.digest+"*) mv -f $p "+shellword.Quote(path)+";; *) false;; esac || { rm -f $p; exit 4; }")
	if err == nil && status != 0 {
		err = fmt.Errorf("sandbox %s: upload %s: %w: the script ended with status %d: %s", e.id, guestbin.Name, fault.Failed, status, stderr)
	}
	return path, err
}

// Connect connects to the guest that runs in the sandbox.
func (l *place) Connect(ctx context.Context, token, version, workspace string) (*guest.Client, error) {
	e, err := l.attach(ctx)
	if err != nil {
		return nil, err
	}
	bin, err := l.p.guestProgram()
	if err != nil {
		return nil, err
	}
	return l.dial(ctx, e, l.home+"/bin/"+guestbin.Name+"-"+bin.digest, token, version, workspace)
}

func (l *place) dial(ctx context.Context, e *envd, path, token, version, workspace string) (*guest.Client, error) {
	conn, err := e.openTunnel(ctx, path, l.home+"/ws")
	if err != nil {
		return nil, err
	}
	c, err := guest.DialStdio(ctx, conn, token, version, workspace)
	if err != nil {
		conn.Close() //nolint:errcheck // it always answers nil
		return nil, err
	}
	go l.keepAwake(e, c) // ends with the connection
	return c, nil
}

// keepAwake moves the end of the sandbox while a connection is open.
func (l *place) keepAwake(e *envd, c *guest.Client) {
	const part = 3 // of the time-out
	tick := time.NewTicker(time.Duration(l.Timeout) * time.Second / part)
	defer tick.Stop()
	for {
		select {
		case <-c.Gone():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(l.p.ctx, time.Minute)
			if err := l.server.extend(ctx, e.id, l.Timeout); err != nil {
				l.p.log.Warn("e2b: the end of a sandbox can't be moved", "workspace", l.ID, "error", err)
			}
			cancel()
		}
	}
}

// Start starts a guest as a process of envd, and connects to it.
func (l *place) Start(ctx context.Context, cfg guestproto.Config, isNew bool) (*guest.Client, error) {
	if isNew {
		if err := l.create(ctx); err != nil {
			return nil, err
		}
	}
	e, err := l.attach(ctx)
	if err != nil {
		return nil, err
	}
	path, err := l.install(ctx, e)
	if err != nil {
		return nil, err
	}
	cfg.Root = l.Root()
	conn, err := e.start(ctx, path, guestproto.ServeVerb, l.home+"/ws")
	if err != nil {
		return nil, err
	}
	if err := guest.Configure(ctx, conn, cfg); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.release()
	return l.dial(ctx, e, path, cfg.Token, cfg.Version, cfg.Workspace)
}

// End ends the guest.
func (l *place) End(ctx context.Context, token string) error {
	e, err := l.attach(ctx)
	if err != nil {
		if fault.Of(err) == fault.NotFound {
			return nil
		}
		return err
	}
	path, err := l.install(ctx, e)
	if err != nil {
		return err
	}
	conn, err := e.start(ctx, path, guestproto.EndVerb, l.home+"/ws")
	if err != nil {
		return err
	}
	return guest.EndStdio(ctx, conn, token)
}

// Remove destroys the sandbox.
func (l *place) Remove(ctx context.Context, _ string) error {
	boxes, err := l.server.find(ctx, l.ID, l.DataDir)
	for _, box := range boxes {
		err = errors.Join(err, l.server.remove(ctx, box.ID))
	}
	return err
}

// A guestFile is the program croft-guest with its digest.
type guestFile struct {
	*guestbin.Binary
	digest string
	size   int64
}

func openGuest(path string) (*guestFile, error) {
	bin, err := guestbin.Find(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(bin.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	return &guestFile{bin, hex.EncodeToString(sum.Sum(nil)), size}, nil
}
