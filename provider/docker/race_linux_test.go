package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// racerVar makes this program one of several that use a workspace at once: it says
// which, as JSON.
const racerVar = "CROFT_TEST_RACER"

type racer struct {
	Name string
	Dir  string
	ID   string
	Far  bool
	Last bool // destroys the workspace in the end
}

// rounds is how often a racer opens the workspace.
const rounds = 3

// race opens a workspace, runs a command in it, writes a file and lets go of it,
// some times over.
func race() int {
	var r racer
	err := json.Unmarshal([]byte(os.Getenv(racerVar)), &r)
	for i := 0; i < rounds && err == nil; i++ {
		err = r.once(context.Background(), i)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (r *racer) once(ctx context.Context, round int) error {
	cfg := config(r.Dir)
	if r.Far {
		far(cfg)
	}
	p, err := New(cfg)
	if err != nil {
		return err
	}
	defer p.Close() // the process ends
	ws, err := p.Open(ctx, driver.Spec{ID: r.ID, Kind: Kind})
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s-%d", r.Name, round)
	res, err := ws.Shell.Run(ctx, driver.Command{Script: "echo " + line + " >> lines; cat /tmp/first 2>/dev/null || echo " + line + " | tee /tmp/first"})
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("the command gives %+v", res)
	}
	if _, err := ws.FS.Write(ctx, line, strings.NewReader(line), &driver.WriteOptions{CreateOnly: true}); err != nil {
		return err
	}
	if r.Last && round == rounds-1 {
		return ws.Life.Destroy(ctx)
	}
	return ws.Life.Close(ctx)
}

// TestProcessesRaceForOneWorkspace has several processes open, use and leave one
// workspace that none of them has made, while one of them is killed. There is one
// container, nothing that was acknowledged is lost, and nothing is left.
func TestProcessesRaceForOneWorkspace(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, dir string) {
		id := driver.NewID()
		const racers = 4
		var cmds []*exec.Cmd
		outs := make([]bytes.Buffer, racers)
		for i := range racers {
			r, err := json.Marshal(racer{Name: fmt.Sprint("p", i), Dir: dir, ID: id, Far: p.cfg.Host == os.Getenv(farVar)})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), racerVar+"="+string(r))
			cmd.Stdout, cmd.Stderr = &outs[i], &outs[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, cmd)
		}
		time.AfterFunc(300*time.Millisecond, func() { cmds[0].Process.Kill() })
		var want []string
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil && i > 0 {
				t.Errorf("process %d: %v: %s", i, err, outs[i].String())
			}
			for round := range rounds {
				if i > 0 {
					want = append(want, fmt.Sprintf("p%d-%d", i, round))
				}
			}
		}
		ws := open(t, p, func(s *driver.Spec) { s.ID = id })
		lines := strings.Fields(string(script(t, ws, "cat lines").Stdout))
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "p0-") })
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			t.Errorf("the commands left %v, want %v", lines, want)
		}
		if first := strings.Fields(string(script(t, ws, "cat /tmp/first").Stdout)); len(first) != 1 {
			t.Errorf("the container was first used by %v", first)
		}
		for _, name := range want {
			if _, err := ws.FS.Stat(t.Context(), name, &driver.StatOptions{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// The one that was killed may have left another, in which it filled the volume.
		list := slices.DeleteFunc(containers(t, dir), func(s State) bool { return s.Labels[LabelWorkspace] == probeID })
		if len(list) != 1 {
			t.Errorf("there are %d containers: %+v", len(list), list)
		}
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Sweep(t.Context(), nil); err != nil { // of what the one that was killed had for itself
			t.Fatal(err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
