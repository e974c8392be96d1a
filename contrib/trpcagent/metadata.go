package trpcagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// createMetadata creates metadata.json. In a workspace that has one, it is replaced if it is
// no JSON.
func (p *openWorkspace) createMetadata(ctx context.Context) error {
	data, err := json.MarshalIndent(codeexecutor.NewWorkspaceMetadata(), "", "  ")
	if err == nil {
		_, err = p.ws.WriteFile(ctx, codeexecutor.MetaFileName, data, &driver.WriteOptions{Mode: 0o600, CreateOnly: true})
	}
	if errors.Is(err, fault.AlreadyExists) {
		return p.changeMetadata(ctx, func(*codeexecutor.WorkspaceMetadata) {})
	}
	if err != nil {
		return fmt.Errorf("trpcagent: create %s: %w", codeexecutor.MetaFileName, err)
	}
	return nil
}

// changeMetadata changes metadata.json, which trpc-agent-go's tools read and write, under
// their lock. A file that is no JSON is replaced, as they do.
func (p *openWorkspace) changeMetadata(ctx context.Context, change func(*codeexecutor.WorkspaceMetadata)) error {
	err := codeexecutor.WithWorkspaceMetadataLock(ctx, p.handle.Path, func(ctx context.Context) error {
		m := codeexecutor.NewWorkspaceMetadata()
		data, err := p.ws.ReadFile(ctx, codeexecutor.MetaFileName)
		switch {
		case errors.Is(err, fault.NotFound):
		case err != nil:
			return err
		case json.Unmarshal(data, &m) != nil:
			m = codeexecutor.NewWorkspaceMetadata()
		}
		m.UpdatedAt = time.Now()
		m.LastAccess = m.UpdatedAt
		change(&m)
		if n := len(m.Inputs) - stage.DefaultHistory; n > 0 {
			m.Inputs = m.Inputs[n:]
		}
		if n := len(m.Outputs) - stage.DefaultHistory; n > 0 {
			m.Outputs = m.Outputs[n:]
		}
		if data, err = json.MarshalIndent(m, "", "  "); err != nil {
			return err
		}
		_, err = p.ws.WriteFile(ctx, codeexecutor.MetaFileName, data, &driver.WriteOptions{Mode: 0o600})
		return err
	})
	if err != nil {
		return fmt.Errorf("trpcagent: record in %s: %w", codeexecutor.MetaFileName, err)
	}
	return nil
}
