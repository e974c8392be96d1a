package trpcagent

import (
	"context"
	"fmt"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// diskRoom returns how many more bytes may be staged below the soft limit after adding some,
// or ResourceExhausted. Without a limit it is 0.
func (p *openWorkspace) diskRoom(ctx context.Context, adding int64) (int64, error) {
	if p.softDisk == 0 {
		return 0, nil
	}
	used, err := p.usedBytes(ctx)
	if err != nil {
		return 0, fmt.Errorf("trpcagent: measure the workspace: %w", err)
	}
	room := p.softDisk - used - adding
	if room < 0 || room == 0 && adding == 0 {
		return 0, fmt.Errorf("trpcagent: stage: %w: the files have %d bytes, and %d more would exceed MaxDiskBytes, %d; remove files first",
			fault.ResourceExhausted, used, adding, p.softDisk)
	}
	return room, nil
}

// diskNote says, after a run, that the workspace is beyond its soft limit; else it is "". The
// run itself is not refused, because only a program can remove files.
func (p *openWorkspace) diskNote(ctx context.Context) string {
	if p.softDisk == 0 {
		return ""
	}
	used, err := p.usedBytes(ctx)
	if err != nil || used <= p.softDisk { // the next staging has the error
		return ""
	}
	const format = "\n[the files have %d bytes, more than MaxDiskBytes, %d: nothing can be staged until some are removed]\n"
	return fmt.Sprintf(format, used, p.softDisk)
}

// usedBytes adds the sizes of the files of a workspace, but for metadata.json.
func (p *openWorkspace) usedBytes(ctx context.Context) (int64, error) {
	var sum int64
	opts := driver.ListOptions{Depth: -1, Limit: driver.MaxListLimit}
	for {
		page, err := p.ws.List(ctx, ".", &opts)
		if err != nil {
			return 0, err
		}
		for _, info := range page.Entries {
			if info.Type == driver.TypeFile && info.Path != codeexecutor.MetaFileName {
				sum += info.Size
			}
		}
		if opts.After = page.Next; opts.After == "" {
			return sum, nil
		}
	}
}
