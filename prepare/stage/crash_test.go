package stage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
)

// crashEnv makes the test binary stage and die; its value is a crashPlan.
const crashEnv = "CROFT_STAGE_CRASH"

// A crashPlan says where to work, and after how many changes of the state or the
// workspace to die.
type crashPlan struct {
	Root, State, Source string
	Ref                 workspace.Ref
	ID                  string
	After               int
}

// dyingState dies in the middle of the saves that are left to it.
type dyingState struct {
	stage.State
	left int
}

func (s *dyingState) Save(ctx context.Context, id string, m *stage.Metadata) error {
	if s.left == 0 {
		os.Exit(9)
	}
	err := s.State.Save(ctx, id, m)
	if s.left == 1 {
		os.Exit(9)
	}
	s.left -= 2
	return err
}

func crash() {
	ctx := context.Background()
	if err := func() error {
		var p crashPlan
		if err := json.Unmarshal([]byte(os.Getenv(crashEnv)), &p); err != nil {
			return err
		}
		prov, err := local.New(&local.Config{Root: p.Root})
		if err != nil {
			return err
		}
		ws, err := workspace.NewMux(prov).Resolve(ctx, p.ID, p.Ref, nil, nil)
		if err != nil {
			return err
		}
		state, err := stage.NewDirState(p.State)
		if err != nil {
			return err
		}
		st, err := stage.New(ws, &stage.Options{State: &dyingState{state, p.After}, HostRoots: []string{p.Source}})
		if err != nil {
			return err
		}
		_, err = st.StageInputs(ctx, []stage.Input{{From: "host://" + p.Source, To: "one"}, {From: "host://" + p.Source, To: "two"}})
		return err
	}(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A process is killed at each record that it writes. After the next use of the
// workspace there are either the old files or the new ones.
func TestKilledAtAnyPoint(t *testing.T) {
	for after := range 8 {
		t.Run(strconv.Itoa(after), func(t *testing.T) { killedAfter(t, after) })
	}
}

func killedAfter(t *testing.T, after int) {
	ctx := t.Context()
	root, state, src := filepath.Join(t.TempDir(), "ws"), t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(src, "file"), []byte("new"), 0o600))
	prov, err := local.New(&local.Config{Root: root})
	must(t, err)
	ws, err := workspace.NewMux(prov).Open(ctx, workspace.Spec{Kind: local.Kind, ID: workspace.NewID()}, nil)
	must(t, err)
	defer ws.Destroy(context.WithoutCancel(ctx))
	for _, name := range []string{"one/file", "two/file"} {
		_, err := ws.WriteFile(ctx, name, []byte("old"), &workspace.WriteOptions{Parents: true})
		must(t, err)
	}
	plan, err := json.Marshal(crashPlan{Root: root, State: state, Source: src, Ref: ws.Ref(), ID: ws.ID(), After: after})
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), crashEnv+"="+string(plan))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 9) {
		t.Fatalf("the child: %v: %s", err, out)
	}
	kept, err := stage.NewDirState(state)
	must(t, err)
	st, err := stage.New(ws, &stage.Options{State: kept})
	must(t, err)
	h, err := st.Begin(ctx) // puts right
	must(t, err)
	recorded := len(h.Inputs)
	h.End()
	want := "old"
	if recorded > 0 {
		want = "new"
	}
	for _, name := range []string{"one/file", "two/file"} {
		data, err := ws.ReadFile(ctx, name)
		if err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; want %q, as %d inputs are recorded", name, data, err, want, recorded)
		}
	}
	page, err := ws.List(ctx, ".", &workspace.ListOptions{Depth: -1})
	must(t, err)
	left := slices.DeleteFunc(page.Entries, func(i workspace.Info) bool { return !strings.Contains(i.Path, ".croft-") })
	if diff := cmp.Diff([]workspace.Info{}, left); diff != "" {
		t.Errorf("something stayed aside (-want +got):\n%s", diff)
	}
}
