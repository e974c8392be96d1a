package snapshot

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Base names the lower layers of a tree, in a form that the provider resolves.
type Base struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// kindDirs is the kind of a base that consists of directories of this host.
const kindDirs = "dir"

// DirsBase is the base of stacked directories of this host, topmost first: all but
// the last are overlayfs upper layers. Without directories it is the zero Base.
func DirsBase(dirs []string) Base {
	switch len(dirs) {
	case 0:
		return Base{}
	case 1:
		return Base{Kind: kindDirs, Name: dirs[0]}
	}
	list, _ := json.Marshal(dirs)
	return Base{Kind: kindDirs, Name: string(list)}
}

// Dirs returns the directories of a base that DirsBase made, topmost first.
func (b Base) Dirs() ([]string, error) {
	if b == (Base{}) {
		return nil, nil
	}
	dirs := []string{b.Name}
	if b.Kind == kindDirs && len(b.Name) > 0 && b.Name[0] == '[' {
		dirs = nil
		if err := json.Unmarshal([]byte(b.Name), &dirs); err != nil {
			dirs = nil
		}
	}
	if b.Kind != kindDirs || len(dirs) == 0 || slices.ContainsFunc(dirs, func(d string) bool { return !filepath.IsAbs(d) }) {
		return nil, fmt.Errorf("snapshot: snapshot with base %s %q: %w: a base must be directories of this host", b.Kind, b.Name, fault.Unsupported)
	}
	return dirs, nil
}

// Tree returns the merged view of a base's directories.
func (b Base) Tree() (Tree, error) {
	dirs, err := b.Dirs()
	if err != nil {
		return nil, err
	}
	t := Empty
	for i, dir := range slices.Backward(dirs) {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("snapshot: layer %s of the snapshot's base: %w: %w", dir, fault.Of(err), err)
		}
		if i == len(dirs)-1 {
			t = HostDir(dir, nil)
			continue
		}
		t = Layer(t, HostDir(dir, &HostOptions{Upper: true}))
	}
	return t, nil
}
