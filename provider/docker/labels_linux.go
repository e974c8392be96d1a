package docker

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

const namePrefix = "croft-"

// containerName returns the name of the container and of the volume of a workspace.
func containerName(id string) string { return namePrefix + id }

// rootIDName is the file in the root with the root's id. It is flocked while it is read and
// written.
const rootIDName = ".rootID-" + Kind

// rootID returns the id of the root of this provider. It is created with the first
// container.
func (p *Provider) rootID(ctx context.Context) (string, error) {
	if err := os.MkdirAll(p.cfg.Root, 0o700); err != nil {
		return "", err
	}
	path := p.store.Path(rootIDName)
	lock, err := flockfile.Lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	data, err := os.ReadFile(path)
	if err != nil || driver.ValidID(string(data)) {
		return string(data), err
	}
	id := driver.NewID() // the file is new, or incomplete after a crash
	return id, os.WriteFile(path, []byte(id), 0o600)
}

// objectLabels returns the labels of a container or volume.
func (p *Provider) objectLabels(ctx context.Context, id, key string) (map[string]string, error) {
	rootID, err := p.rootID(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker: name the data directory: %w: %w", fault.Of(err), err)
	}
	return map[string]string{
		LabelWorkspace: id, LabelRootID: rootID, LabelRoot: p.cfg.Root, LabelHost: hostID(), LabelKey: key,
	}, nil
}

// hostID identifies this host, because several hosts may share an engine.
func hostID() string {
	if data, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(data))) > 0 {
		return strings.TrimSpace(string(data))
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
