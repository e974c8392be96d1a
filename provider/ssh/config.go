package ssh

import (
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
)

// Kind is the kind of this provider.
const Kind = "ssh"

// Config says where a provider keeps the state of its workspaces, and on which machine they
// are.
type Config struct {
	// Root is the directory of the workspaces' states. It is created if it does not
	// exist, and may be shared with providers of other kinds. Required.
	Root string

	// Host and Dir are those of workspaces that name none; see options. "" means that
	// each must name a host, and DefaultDir.
	Host string
	Dir  string

	// Guest is the path of croft-guest for machines of this host's architecture; "" looks
	// for it, see package guestbin.
	Guest string

	// Lease is how long a guest lives while no process has its workspace open;
	// 0 means 15 minutes.
	Lease time.Duration

	// Timeout bounds one step with a machine, such as the upload of the guest; 0 means 2
	// minutes.
	Timeout time.Duration

	// Snapshots is the store of snapshots; nil means no snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent
}

// Defaults of Config.
const (
	DefaultDir     = "~/.cache/croft"
	DefaultLease   = 15 * time.Minute
	DefaultTimeout = 2 * time.Minute
)

// Options are Spec.Config of this provider.
type Options struct {
	// Host is the machine, as ssh is given it: HOST, USER@HOST or ssh://USER@HOST:PORT.
	Host string `json:"host,omitempty"`

	// Dir is a directory there, absolute or below the home directory.
	Dir string `json:"dir,omitempty"`

	// From is the snapshot that the workspace started from. The provider sets it: it
	// can't be configured.
	From string `json:"from,omitempty"`
}

// validHost matches what ssh accepts as a destination. A password has no place in it, and a
// name that begins with a dash, which would be an option, is none.
var validHost = regexp.MustCompile(`^(ssh://)?([A-Za-z0-9_.][A-Za-z0-9_.-]*@)?[A-Za-z0-9_\[:.][A-Za-z0-9_.:%\]-]*$`)

// validDir matches directories that need no quoting in any shell.
var validDir = regexp.MustCompile(`^[A-Za-z0-9_./@+=-]+$`)

func (o *Options) check() error {
	switch {
	case o.Host == "":
		return fault.WithHint(fmt.Errorf("no machine: %w: the option \"host\" is not set", fault.InvalidArgument), fault.HintSetting, "ssh host")
	case !validHost.MatchString(o.Host):
		return fmt.Errorf("host: %w: it must be HOST, USER@HOST or ssh://USER@HOST:PORT, without a password", fault.InvalidArgument)
	}
	_, err := remoteDir(o.Dir)
	return err
}

// remoteDir returns a directory without "~/": a login begins in the home directory.
func remoteDir(dir string) (string, error) {
	rest := strings.TrimPrefix(dir, "~/")
	clean := path.Clean(rest)
	if !validDir.MatchString(rest) || clean == "." || clean == "/" || strings.HasPrefix(clean, "-") || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("dir %.200q: %w: it must be a directory below ~/ or an absolute one, of letters, digits and _ . / @ + = -", dir, fault.InvalidArgument)
	}
	return clean, nil
}
