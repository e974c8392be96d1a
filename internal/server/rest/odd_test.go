package rest_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// oddProvider opens workspaces in which nothing goes well.
type oddProvider struct {
	stat   error // of every Stat
	panics bool  // in Open and Probe
}

func (p *oddProvider) Kind() string                          { return "odd" }
func (p *oddProvider) Features() driver.Features             { return driver.Features{} }
func (p *oddProvider) Close() error                          { return nil }
func (p *oddProvider) Sweep(context.Context, []string) error { return nil }
func (p *oddProvider) Resolve(_ context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.build(ref)
}

func (p *oddProvider) Probe(context.Context) (driver.Traits, error) {
	if p.panics {
		panic("odd")
	}
	return driver.Traits{}, nil
}

func (p *oddProvider) Open(_ context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if p.panics {
		panic("odd")
	}
	ref, err := driver.NewRef("odd", map[string]string{"id": spec.ID}, driver.NewCapabilities(driver.CapFS), 1)
	if err != nil {
		return nil, err
	}
	return p.build(ref)
}

func (p *oddProvider) build(ref driver.Ref) (*driver.Workspace, error) {
	end := func(context.Context) error { return nil }
	return &driver.Workspace{Ref: ref, Life: driver.Life{Close: end, Destroy: end}, FS: &driver.FS{Files: oddFiles{p: p}}}, nil
}

type oddFiles struct {
	driver.Files
	p *oddProvider
}

func (f oddFiles) Stat(context.Context, string, *driver.StatOptions) (driver.Info, error) {
	return driver.Info{}, f.p.stat
}

// Read yields a part and then fails.
func (f oddFiles) Read(context.Context, string, *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	body := io.MultiReader(strings.NewReader(strings.Repeat("part ", 1000)), failing{})
	return io.NopCloser(body), driver.Info{Path: "a", Type: driver.TypeFile, Size: 1 << 20}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is on fire") }
