package snapshot

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Base names the layer below a tree, in the words of the provider that
// understands it.
type Base struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// kindDirs is the kind of a base of directories of this host.
const kindDirs = "dir"

// DirsBase is the base of directories of this host that lie over each other, the
// topmost first: all but the last are upper layers of overlays. Of none it is the
// zero Base.
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

// Dirs returns the directories of a base that DirsBase made, the topmost first.
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
		return nil, fmt.Errorf("snapshot: a snapshot over %s %q: %w: only directories of this host are known", b.Kind, b.Name, fault.Unsupported)
	}
	return dirs, nil
}

// Tree returns what the directories of a base show together.
func (b Base) Tree() (Tree, error) {
	dirs, err := b.Dirs()
	if err != nil {
		return nil, err
	}
	t := Empty
	for i, dir := range slices.Backward(dirs) {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("snapshot: the layer %s that a snapshot lies over: %w: %w", dir, fault.Of(err), err)
		}
		if i == len(dirs)-1 {
			t = HostDir(dir, nil)
			continue
		}
		t = Layer(t, HostDir(dir, &HostOptions{Upper: true}))
	}
	return t, nil
}
