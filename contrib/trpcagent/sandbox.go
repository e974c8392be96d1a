package trpcagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/sandbox"
)

// NewSandbox returns an executor whose workspaces are sandboxes of this host. The workspaces
// are in a temporary directory, which Close removes; with Options.Persist they are in the
// user's cache directory.
//
//	exec, err := trpcagent.NewSandbox()
//	exec, err := trpcagent.NewSandbox(func(o *trpcagent.Options) { o.WorkDir = "." })
func NewSandbox(options ...func(*Options)) (*Executor, error) {
	var opts Options
	for _, set := range options {
		set(&opts)
	}
	root, err := makeRoot(opts.Persist)
	if err != nil {
		return nil, fmt.Errorf("trpcagent: directory of the workspaces: %w: %w", fault.Of(err), err)
	}
	remove := func() error {
		if opts.Persist {
			return nil
		}
		return os.RemoveAll(root)
	}
	e, err := newSandboxIn(root, opts)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	e.onEnd = remove
	return e, nil
}

// makeRoot creates the directory of the workspaces.
func makeRoot(persist bool) (string, error) {
	if !persist {
		return os.MkdirTemp("", "croft-trpcagent-")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "croft", "trpcagent")
	return root, os.MkdirAll(root, 0o700)
}

func newSandboxIn(root string, opts Options) (*Executor, error) {
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(root, "workspaces"), Lease: time.Minute, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	if opts.Persist && opts.State == nil {
		if opts.State, err = stage.NewDirState(filepath.Join(root, "state")); err != nil {
			return nil, err
		}
	}
	return New(context.Background(), p, &opts) //nolint:forbidigo // one line to adopt has no context
}
