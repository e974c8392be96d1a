package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func testStore(t *testing.T) (*Store, string) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "shared", "db_pass"), "from file\n", 0o600)
	write(t, filepath.Join(dir, "shared", "API-Key"), "key\r\n", 0o400)
	write(t, filepath.Join(dir, "own", "token"), "own token", 0o644)
	s, err := New(&Options{
		Environ: []string{"CROFT_SECRET_DB_PASS=from=env", "CROFT_SECRET_TOKEN=shared token", "CROFT_SECRET_EMPTY=",
			"CROFT_SECRET_BAD NAME=x", "OTHER=1", "W1_EXTRA=extra"},
		Shared: Set{Dir: filepath.Join(dir, "shared")},
		Workspace: func(id string) (Set, bool) {
			switch id {
			case "w1":
				return Set{Prefix: "W1_", Dir: filepath.Join(dir, "own")}, true
			case "overlap":
				return Set{Prefix: "CROFT_SECRET_W_"}, true
			}
			return Set{}, false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func TestGet(t *testing.T) {
	s, _ := testStore(t)
	tests := []struct{ workspace, name, want, source string }{
		{"", "db_pass", "from=env", SourceEnv}, // the environment wins over a file
		{"", "Db_Pass", "from=env", SourceEnv},
		{"", "api-key", "key", SourceFile},
		{"w2", "token", "shared token", SourceEnv},
		{"w1", "token", "own token", SourceFile}, // its own wins over the shared one
		{"w1", "extra", "extra", SourceEnv},
		{"w1", "API-KEY", "key", SourceFile}, // shared is the fallback
	}
	for _, tt := range tests {
		v, err := s.Get(t.Context(), tt.workspace, tt.name)
		if err != nil || v.Reveal() != tt.want || v.Source() != tt.source || v.Name() != strings.ToLower(tt.name) {
			t.Errorf("Get(%q, %q) = %q from %q, %v; want %q from %q", tt.workspace, tt.name, v.Reveal(), v.Source(), err, tt.want, tt.source)
		}
	}
}

func TestGetErrors(t *testing.T) {
	s, _ := testStore(t)
	none, err := New(&Options{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		store           *Store
		workspace, name string
		want            string
		code            fault.Code
	}{
		{s, "", "", "name is required", fault.InvalidArgument},
		{s, "", "a/b", `invalid secret name: "a/b"`, fault.InvalidArgument},
		{s, "", "..", `invalid secret name: ".."`, fault.InvalidArgument},
		{s, "", "Nope", "unknown secret: nope (available: api-key, db_pass, token)", fault.NotFound},
		{s, "", "extra", "unknown secret: extra (available: api-key, db_pass, token)", fault.NotFound}, // of w1 alone
		{none, "", "nope", "secrets not configured", fault.Unsupported},
		{s, "overlap", "x", "secret: find secrets of workspace overlap: invalid argument: its prefix CROFT_SECRET_W_ and the shared prefix CROFT_SECRET_ overlap", fault.InvalidArgument},
	}
	for _, tt := range tests {
		_, err := tt.store.Get(t.Context(), tt.workspace, tt.name)
		if err == nil || err.Error() != tt.want || fault.Of(err) != tt.code {
			t.Errorf("Get(%q, %q) = %v (%s), want %q (%s)", tt.workspace, tt.name, err, fault.Of(err), tt.want, tt.code)
		}
	}
}

func TestNames(t *testing.T) {
	s, _ := testStore(t)
	for workspace, want := range map[string][]string{
		"":   {"api-key", "db_pass", "token"},
		"w1": {"api-key", "db_pass", "extra", "token"},
	} {
		got, err := s.Names(t.Context(), workspace)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Names(%q): %v\n%s", workspace, err, diff)
		}
	}
	values, err := s.All(t.Context(), "w1")
	if err != nil || len(values) != 4 || values[3].Reveal() != "own token" {
		t.Errorf("All = %v, %v", values, err)
	}
}

func TestFilesThatAreNotTrusted(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "x"), "outside", 0o600)
	write(t, filepath.Join(dir, "writable"), "v", 0o666)
	write(t, filepath.Join(dir, "huge"), strings.Repeat("v", maxSize+1), 0o600)
	write(t, filepath.Join(dir, "..data", "good"), "linked", 0o644)
	for name, target := range map[string]string{"leaves": filepath.Join(outside, "x"), "loop": "loop", "good": "..data/good", "folder": "..data"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(&Options{Environ: []string{}, Shared: Set{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fault.Code{
		"writable": fault.PermissionDenied,
		"huge":     fault.ResourceExhausted,
		"leaves":   fault.PermissionDenied,
		"loop":     fault.InvalidArgument,
		"fifo":     fault.PermissionDenied,
		"folder":   fault.PermissionDenied,
	} {
		v, err := s.Get(t.Context(), "", name)
		if fault.Of(err) != want {
			t.Errorf("Get(%s) = %q, %v; want %s", name, v.Reveal(), err, want)
		}
	}
	if v, err := s.Get(t.Context(), "", "good"); err != nil || v.Reveal() != "linked" {
		t.Errorf("a link within the directory: %q, %v", v.Reveal(), err)
	}
	write(t, filepath.Join(dir, "GOOD"), "twice", 0o600)
	if _, err := s.Get(t.Context(), "", "good"); fault.Of(err) != fault.Conflict {
		t.Errorf("two files of one name: %v, want conflict", err)
	}
	if _, err := New(&Options{Shared: Set{Dir: filepath.Join(dir, "absent")}}); fault.Of(err) != fault.NotFound {
		t.Errorf("New with an absent directory: %v", err)
	}
}

func TestValueNeverPrints(t *testing.T) {
	v := NewValue("token", "hunter2hunter2")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v, "in", struct{ V Value }{v})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v, "ptr", &v)
	j, err := json.Marshal(map[string]any{"v": v, "p": &v})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(j) + fmt.Sprintf("%v %+v %#v %s %q %x %d", v, v, v, v, v, v, v) +
		fmt.Sprintf("%v %+v %#v", struct{ V Value }{v}, []Value{v}, &v) + fmt.Sprint(errors.New(v.String()))
	if strings.Contains(all, "hunter2") || strings.Contains(all, fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("the value shows: %s", all)
	}
	if !strings.Contains(all, "[REDACTED:token]") {
		t.Errorf("the mark does not show: %s", all)
	}
}
