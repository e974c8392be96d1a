package files

import (
	"sync"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// The pause between two scans is at least pollEvery, and pollRest times as long as a scan
// took, so that a large tree does not keep a core busy.
const (
	pollEvery = 250 * time.Millisecond
	pollRest  = 20
)

// A poller detects changes by scanning the tree repeatedly. It is for systems without
// inotify on descriptors, and for users whose inotify instances or watches are all in use.
type poller struct {
	sys   system
	name  string
	isDir bool
	deep  bool
	batch *batch
	seen  map[string]driver.Info
	stop  chan struct{}
	wg    sync.WaitGroup
}

// watchByPolling starts a poller. Changes are relative to the present state of the tree.
func (s system) watchByPolling(name string, isDir bool, o *driver.WatchOptions, b *batch) (changeSource, error) {
	p := &poller{sys: s, name: name, isDir: isDir, deep: o.Recursive, batch: b, stop: make(chan struct{})}
	p.seen = p.scanTree()
	p.wg.Go(func() {
		pause := max(pollEvery, o.Debounce)
		for timer := time.NewTimer(pause); ; {
			select {
			case <-p.stop:
				timer.Stop()
				return
			case <-timer.C:
				start := time.Now()
				p.reportChanges(p.scanTree())
				timer.Reset(max(pause, pollRest*time.Since(start)))
			}
		}
	})
	return p, nil
}

func (p *poller) close() error {
	close(p.stop)
	p.wg.Wait()
	return nil
}

// scanTree describes all watched entries. Directories that can't be read count as empty.
func (p *poller) scanTree() map[string]driver.Info {
	seen := map[string]driver.Info{}
	var visit func(name string)
	visit = func(name string) {
		infos, err := p.sys.readDir(cleanName{name: name}, false)
		if err != nil {
			return
		}
		for _, info := range infos {
			if !p.isDir && info.Path != p.name {
				continue
			}
			seen[info.Path] = info
			if p.isDir && p.deep && info.Type == driver.TypeDir {
				visit(info.Path)
			}
		}
	}
	if p.isDir {
		visit(p.name)
	} else {
		dir, _ := splitName(p.name)
		visit(dir)
	}
	return seen
}

func (p *poller) reportChanges(now map[string]driver.Info) {
	for path, info := range now {
		before, known := p.seen[path]
		switch {
		case !known || before.Type != info.Type:
			p.batch.add(path, driver.OpCreate)
		case info.Type != driver.TypeDir && (before.Size != info.Size || !before.ModTime.Equal(info.ModTime) || before.Target != info.Target):
			p.batch.add(path, driver.OpWrite)
		case before.Mode != info.Mode:
			p.batch.add(path, driver.OpChmod)
		}
	}
	for path := range p.seen {
		if _, there := now[path]; !there {
			p.batch.add(path, driver.OpRemove)
		}
	}
	p.seen = now
}
