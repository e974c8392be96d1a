package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// Bounds of the memory of an idle guest.
const (
	anonMost     = 6 << 20
	residentMost = 12 << 20
)

// benchMemory measures the memory of idle guests that have run commands. The reference is
// the promised bound, so that the ratio is the used part of it.
func benchMemory(ctx context.Context, b *bench) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	p, err := sandboxProviderAt(ctx, b, dir)
	if err != nil {
		return err
	}
	var anon, resident []int64
	for range 5 {
		id := driver.NewID()
		ws, err := p.Open(ctx, driver.Spec{ID: id, Kind: sandbox.Kind})
		if err != nil {
			return err
		}
		b.addCleanup(func() { ws.Life.Destroy(context.WithoutCancel(ctx)) }) // the directory goes with the family
		for range 20 {
			if err := runTrue(ctx, ws); err != nil {
				return err
			}
		}
		time.Sleep(200 * time.Millisecond) // until it is idle
		a, r, err := guestMemory(filepath.Join(dir, "ws", id))
		if err != nil {
			return err
		}
		anon, resident = append(anon, a), append(resident, r)
	}
	for _, row := range []Row{
		{Name: "idle guest, RssAnon", OursNS: medianBytes(anon), RefNS: anonMost},
		{Name: "idle guest, resident", OursNS: medianBytes(resident), RefNS: residentMost},
	} {
		row.Family, row.Ref, row.N, row.Unit, row.Most = b.family, "what we promise", len(anon), bytesUnit, row.RefNS
		row.Ratio = float64(row.OursNS) / float64(row.RefNS)
		b.addRow(row)
	}
	return nil
}

func medianBytes(list []int64) int64 {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// guestMemory returns the anonymous and the resident memory of the guest of the workspace
// in dir.
func guestMemory(dir string) (anon, resident int64, err error) {
	data, err := os.ReadFile(filepath.Join(dir, wsdir.StateName(sandbox.Kind)))
	if err != nil {
		return 0, 0, err
	}
	var state struct {
		Sections struct{ Guest struct{ PID int } }
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return 0, 0, err
	}
	return processMemory(strconv.Itoa(state.Sections.Guest.PID))
}

// processMemory is guestMemory for a process by its id.
func processMemory(pid string) (anon, resident int64, err error) {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // 0 for other lines
		switch name {
		case "RssAnon":
			anon = kib << 10
		case "VmRSS":
			resident = kib << 10
		}
	}
	if anon == 0 || resident == 0 {
		return 0, 0, fmt.Errorf("the status of process %s tells nothing of its memory: %q", pid, status)
	}
	return anon, resident, nil
}
