package tool

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// MaxResource is the size of the largest file that Resource returns.
const MaxResource = 16 << 20

// Resource returns a file of a workspace or a listing of a directory, scrubbed, if the
// approval rules allow to Read it. It does not count as a Read. only is as in Request.
func (e *Env) Resource(ctx context.Context, only, name, path string) ([]byte, error) {
	ws, err := e.Scope(only).Get(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := ws.Stat(ctx, path, nil)
	if err != nil {
		return nil, PathError("read", path, err)
	}
	scrub, err := e.scrubs.scrubberFor(ctx, e, e.secretScope(name, ws.ID()))
	if err != nil {
		return nil, err
	}
	if err := e.allowResource(ctx, &Call{Env: e, Name: name, Workspace: ws, scrub: scrub}, info, path); err != nil {
		return nil, err
	}
	var data []byte
	if info.Type == driver.TypeDir {
		page, err := ws.List(ctx, path, nil)
		if err != nil {
			return nil, PathError("read", path, err)
		}
		var b strings.Builder
		for _, i := range page.Entries {
			b.WriteString(i.Path)
			if i.Type == driver.TypeDir {
				b.WriteByte('/')
			}
			b.WriteByte('\n')
		}
		data = []byte(b.String())
	} else {
		body, info, err := ws.Read(ctx, path, nil)
		if err != nil {
			return nil, PathError("read", path, err)
		}
		defer body.Close()
		if info.Size > MaxResource {
			return nil, Errorf(fault.ResourceExhausted, "read: %s has %d bytes; a resource has at most %d", path, info.Size, MaxResource)
		}
		if data, err = io.ReadAll(io.LimitReader(body, MaxResource)); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
	}
	return scrub.Bytes(data), nil
}

// allowResource checks the rules for the tools that return the same. The user can't be
// asked here.
func (e *Env) allowResource(ctx context.Context, c *Call, info workspace.Info, path string) error {
	if e.Approval == nil {
		return nil
	}
	tools := []string{"Read", "workspace_read_file"}
	if info.Type == driver.TypeDir {
		tools = []string{"list", "workspace_ls"}
	}
	for _, name := range tools {
		about := []ruleTarget{c.pathTarget(ctx, path, e.Approval.hasSubjectRule(name))}
		if err := e.Approval.checkCall(ctx, c, Request{}, &Tool{Spec: Spec{Name: name}}, about); err != nil {
			return err
		}
	}
	return nil
}
