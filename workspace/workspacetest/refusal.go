package workspacetest

import (
	"bytes"
	"context"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var refusalChecks = []Check{
	{"ReadOnly/refuses-every-change", allNeeds(needFS, needReadOnly), readOnlyRefuses},
	{"ReadOnly/opened-so-from-the-start", allNeeds(needFS, needReadOnly), readOnlyOpened},
	{"ReadOnly/can-be-read", allNeeds(needFS, needReadOnly), readOnlyReads},
	{"Cancelled/calls-end-with-Canceled-and-change-nothing", needFS, cancelledCalls},
	{"Cancelled/calls-of-the-driver-change-nothing", needFS, cancelledDriver},
	{"Errors/have-codes-of-the-closed-set", needFS, errorsCoded},
	{"Errors/leave-the-workspace-good", needFS, errorsLeaveGood},
}

// A mutation is one way to change the files of the fixture.
type mutation struct {
	what string
	has  func(*driver.FS) bool // nil is always
	call func(ctx context.Context, p *testWorkspace) error
}

// mutations change what fixture makes.
var mutations = []mutation{
	{"Write of a new file", nil, func(ctx context.Context, p *testWorkspace) error {
		_, err := p.WriteFile(ctx, "new", []byte("x"), nil)
		return err
	}},
	{"Write over a file", nil, func(ctx context.Context, p *testWorkspace) error {
		_, err := p.WriteFile(ctx, "file", []byte("x"), nil)
		return err
	}},
	{"Write in place", nil, func(ctx context.Context, p *testWorkspace) error {
		_, err := p.WriteFile(ctx, "file", []byte("x"), &workspace.WriteOptions{InPlace: true})
		return err
	}},
	{"Write with parents", nil, func(ctx context.Context, p *testWorkspace) error {
		_, err := p.WriteFile(ctx, "new/dir/file", []byte("x"), &workspace.WriteOptions{Parents: true})
		return err
	}},
	{"Edit", nil, func(ctx context.Context, p *testWorkspace) error {
		_, err := p.Edit(ctx, "file", []workspace.Edit{{Old: "content", New: "x"}}, nil)
		return err
	}},
	{"Mkdir", nil, func(ctx context.Context, p *testWorkspace) error { return p.Mkdir(ctx, "newdir", nil) }},
	{"Mkdir with parents", nil, func(ctx context.Context, p *testWorkspace) error {
		return p.Mkdir(ctx, "new/dir", &workspace.MkdirOptions{Parents: true})
	}},
	{"Remove", nil, func(ctx context.Context, p *testWorkspace) error { return p.Remove(ctx, "file", nil) }},
	{"recursive Remove", nil, func(ctx context.Context, p *testWorkspace) error {
		return p.Remove(ctx, "dir", &workspace.RemoveOptions{Recursive: true})
	}},
	{"Rename", nil, func(ctx context.Context, p *testWorkspace) error { return p.Rename(ctx, "file", "moved", nil) }},
	{"Copy", nil, func(ctx context.Context, p *testWorkspace) error { return p.Copy(ctx, "file", "copy", nil) }},
	{"recursive Copy", nil, func(ctx context.Context, p *testWorkspace) error {
		return p.Copy(ctx, "dir", "copydir", &workspace.CopyOptions{Recursive: true})
	}},
	{"Chmod", func(fs *driver.FS) bool { return fs.Chmod != nil }, func(ctx context.Context, p *testWorkspace) error {
		return p.Chmod(ctx, "file", 0o600)
	}},
	{"Symlink", func(fs *driver.FS) bool { return fs.Symlink != nil }, func(ctx context.Context, p *testWorkspace) error {
		return p.Symlink(ctx, "file", "link")
	}},
}

func writeFixture(t testing.TB, p *testWorkspace) {
	t.Helper()
	p.write(t, "file", "content")
	p.write(t, "dir/inner", "inner")
}

// treeDigest is the digest of the whole workspace.
func (p *testWorkspace) treeDigest(t testing.TB) string {
	t.Helper()
	sum, err := p.Digest(t.Context(), ".")
	if err != nil {
		t.Fatalf("Digest: %v", err)
	}
	return sum
}

// allRefused tries every mutation; each must be refused with the code and without
// effect.
func allRefused(ctx context.Context, t testing.TB, p *testWorkspace, code fault.Code) {
	t.Helper()
	before := p.treeDigest(t)
	for _, m := range mutations {
		if m.has != nil && !m.has(p.d.FS) {
			continue
		}
		wantCode(t, m.what, m.call(ctx, p), code)
		if after := p.treeDigest(t); after != before {
			t.Errorf("%s was refused and changed the workspace nevertheless", m.what)
			before = after
		}
	}
}

// readOnly opens a workspace, fills it, and makes it read-only.
func (e *Env) readOnly(t testing.TB) *testWorkspace {
	t.Helper()
	p := e.open(t)
	writeFixture(t, p)
	spec := p.spec
	spec.Policy.ReadOnly = true
	return e.openSpec(t, spec)
}

func readOnlyRefuses(t testing.TB, e *Env) {
	p := e.readOnly(t)
	allRefused(t.Context(), t, p, fault.PermissionDenied)
	allRefused(t.Context(), t, e.resolve(t, p.spec, p.Ref()), fault.PermissionDenied)
}

func readOnlyOpened(t testing.TB, e *Env) {
	p := e.open(t, func(s *driver.Spec) { s.Policy.ReadOnly = true })
	_, err := p.WriteFile(t.Context(), "file", []byte("x"), nil)
	wantCode(t, "Write", err, fault.PermissionDenied)
	wantCode(t, "Mkdir", p.Mkdir(t.Context(), "dir", nil), fault.PermissionDenied)
	p.wantNames(t, ".")
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy of a read-only workspace")
}

func readOnlyReads(t testing.TB, e *Env) {
	p := e.readOnly(t)
	p.wantContent(t, "file", "content")
	p.wantNames(t, ".", "dir", "file")
	p.wantGrep(t, "inner", workspace.GrepOptions{}, "dir/inner:1:1:inner")
	_, err := p.Stat(t.Context(), "file", &workspace.StatOptions{Digest: true})
	wantNil(t, "Stat", err)
	p.treeDigest(t)
}

func cancelledCalls(t testing.TB, e *Env) {
	p := e.open(t)
	writeFixture(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	allRefused(ctx, t, p, fault.Canceled)
	_, err := p.ReadFile(ctx, "file")
	wantCode(t, "Read", err, fault.Canceled)
	_, err = p.List(ctx, ".", nil)
	wantCode(t, "List", err, fault.Canceled)
	_, err = p.Glob(ctx, "**", nil)
	wantCode(t, "Glob", err, fault.Canceled)
	_, err = p.Digest(ctx, ".")
	wantCode(t, "Digest", err, fault.Canceled)
	p.wantUsable(t)
}

// cancelledDriver calls the driver directly, because package workspace would not call
// it.
func cancelledDriver(t testing.TB, e *Env) {
	p := e.open(t)
	writeFixture(t, p)
	before := p.treeDigest(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fs := p.d.FS
	calls := map[string]func() error{
		"Write": func() error {
			_, err := fs.Write(ctx, "new", bytes.NewReader(patternBytes(1, 1<<20)), &driver.WriteOptions{})
			return err
		},
		"Mkdir":  func() error { return fs.Mkdir(ctx, "new", &driver.MkdirOptions{}) },
		"Remove": func() error { return fs.Remove(ctx, "dir", &driver.RemoveOptions{Recursive: true}) },
	}
	if fs.Rename != nil {
		calls["Rename"] = func() error { return fs.Rename(ctx, "file", "moved", &driver.RenameOptions{}) }
	}
	if fs.Copy != nil {
		calls["Copy"] = func() error { return fs.Copy(ctx, "dir", "copy", &driver.CopyOptions{Recursive: true}) }
	}
	for what, call := range calls {
		wantCode(t, "the driver's "+what, call(), fault.Canceled)
		if after := p.treeDigest(t); after != before {
			t.Errorf("the driver's %s with a cancelled context changed the workspace", what)
			before = after
		}
	}
}

// badCalls makes calls that are wrong in every way.
func badCalls(ctx context.Context, p *testWorkspace) map[string]error {
	errs := map[string]error{}
	names := []string{"missing", "missing/x", "file/x", "file/x/y", "dir", ".", "..", "\x00", "/abs", ""}
	for _, name := range names {
		_, err := p.ReadFile(ctx, name)
		errs["Read of "+quote(name)] = err
		_, err = p.Stat(ctx, name+"/nothing", nil)
		errs["Stat below "+quote(name)] = err
		_, err = p.ReadDir(ctx, name+"/nothing")
		errs["ReadDir below "+quote(name)] = err
		_, err = p.WriteFile(ctx, name+"/no/such", []byte("x"), nil)
		errs["Write below "+quote(name)] = err
		errs["Remove below "+quote(name)] = p.Remove(ctx, name+"/nothing", nil)
		errs["Rename from below "+quote(name)] = p.Rename(ctx, name+"/nothing", "to", nil)
		errs["Rename to below "+quote(name)] = p.Rename(ctx, "file", name+"/no/such", nil)
		errs["Copy to below "+quote(name)] = p.Copy(ctx, "file", name+"/no/such", nil)
		errs["Mkdir below "+quote(name)] = p.Mkdir(ctx, name+"/no/such", nil)
		if p.d.FS.Chmod != nil {
			errs["Chmod below "+quote(name)] = p.Chmod(ctx, name+"/nothing", 0o600)
		}
		if p.d.FS.Symlink != nil {
			errs["Symlink below "+quote(name)] = p.Symlink(ctx, "x", name+"/no/such")
		}
	}
	return errs
}

func errorsCoded(t testing.TB, e *Env) {
	p := e.open(t)
	writeFixture(t, p)
	for what, err := range badCalls(t.Context(), p) {
		switch code := fault.Of(err); code {
		case fault.InvalidArgument, fault.NotFound, fault.AlreadyExists, fault.SandboxViolation:
		case "":
			t.Errorf("%s succeeds", what)
		default:
			t.Errorf("%s: got %q (%v), want a code that says what the caller did wrong", what, code, err)
		}
	}
}

func errorsLeaveGood(t testing.TB, e *Env) {
	p := e.open(t)
	writeFixture(t, p)
	before := p.treeDigest(t)
	badCalls(t.Context(), p)
	if after := p.treeDigest(t); after != before {
		t.Errorf("calls that failed changed the workspace: %q", pathsOf(p.listTree(t)))
	}
	p.wantUsable(t)
}
