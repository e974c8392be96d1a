package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/workspace/driver"
)

// pooledMost bounds the time from a pooled container to its first output.
const pooledMost = int64(20 * time.Millisecond)

// benchDocker compares containers with the command docker: a command in a running
// container, and a new container.
func benchDocker(ctx context.Context, b *bench) error {
	if missing := testenv.DockerMissing(); missing != "" {
		fmt.Fprintln(b.log, "docker: no engine can be started here:", missing)
		return nil
	}
	d, err := testenv.StartDockerd(ctx)
	if err != nil {
		return err
	}
	b.addCleanup(func() { d.Stop() }) // what is left of it is in a temporary directory
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	bin, err := buildGuest(ctx, dir)
	if err != nil {
		return err
	}
	p, err := docker.New(&docker.Config{Root: filepath.Join(dir, "ws"), Host: d.Host(), Guest: bin})
	if err != nil {
		return err
	}
	b.addCleanup(func() { p.Close() })
	command := func(args ...string) side { return dockerCommand(ctx, d.Host(), args...) }
	if err := dockerExec(ctx, b, p, "true in a live container", "", command); err != nil {
		return err
	}
	if err := dockerExec(ctx, b, p, "true in one that nothing is mounted in, over its stdio", `{"files":"volume"}`, command); err != nil {
		return err
	}
	if err := dockerOpen(ctx, b, p, command); err != nil {
		return err
	}
	return dockerPool(ctx, b, p, filepath.Join(dir, "pool"), command)
}

// dockerTrue are the arguments of docker that run true in a new container.
var dockerTrue = []string{"run", "--rm", "--network", "none", docker.DefaultImage, "true"}

// dockerCommand runs a command of docker.
func dockerCommand(ctx context.Context, host string, args ...string) side {
	return repeatSide(func() error {
		out, err := exec.CommandContext(ctx, "docker", append([]string{"-H", host}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("docker %v: %w: %s", args, err, out)
		}
		return nil
	})
}

func dockerExec(ctx context.Context, b *bench, p *docker.Provider, name, config string, command func(...string) side) error {
	id := driver.NewID()
	ws, err := p.Open(ctx, driver.Spec{ID: id, Kind: docker.Kind, Config: json.RawMessage(config)})
	if err != nil {
		return err
	}
	defer ws.Life.Destroy(context.WithoutCancel(ctx)) // the engine ends with the family
	ours := repeatSide(func() error { return runTrue(ctx, ws) })
	if err := ours(1); err != nil {
		return err
	}
	return b.compareSides(ctx, name, "docker exec", 0.05, ours, command("exec", "croft-"+id, "true"))
}

func dockerOpen(ctx context.Context, b *bench, p driver.Provider, command func(...string) side) error {
	var opened []*driver.Workspace
	b.between = func() {
		for _, ws := range opened {
			ws.Life.Destroy(context.WithoutCancel(ctx)) // the engine ends with the family
		}
		opened = nil
	}
	defer func() { b.between(); b.between = nil }()
	ours := repeatSide(func() error {
		ws, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: docker.Kind})
		if err != nil {
			return err
		}
		opened = append(opened, ws)
		return runTrue(ctx, ws)
	})
	return b.compareSides(ctx, "open to first output", "docker run --rm --network none", 1.35, ours, command(dockerTrue...))
}

// dockerPool takes workspaces from a pool, as the registry does.
func dockerPool(ctx context.Context, b *bench, inner driver.Provider, dir string, command func(...string) side) error {
	p, err := pool.Wrap(ctx, inner, pool.Options{Dir: dir, Size: 2})
	if err != nil {
		return err
	}
	defer p.Close()
	shape := driver.Spec{Kind: docker.Kind}
	p.Reserve(shape) // which tells what is asked for
	var used *driver.Workspace
	full := func() error {
		if used != nil {
			used.Life.Destroy(context.WithoutCancel(ctx)) // the engine ends with the family
			used = nil
		}
		for p.Warm(shape) < 2 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	}
	if err := full(); err != nil {
		return err
	}
	b.between = func() { full() } // an end of the context shows in the next turn
	defer func() { b.between = nil }()
	ours := repeatSide(func() error {
		spec := shape
		if spec.ID = p.Reserve(shape); spec.ID == "" {
			return fmt.Errorf("the pool is empty")
		}
		ws, err := p.Open(ctx, spec)
		if err != nil {
			return err
		}
		used = ws
		return runTrue(ctx, ws)
	})
	if err := b.compareSides(ctx, "from the pool to first output", "docker run --rm --network none", 0, ours,
		command(dockerTrue...)); err != nil {
		return err
	}
	b.atMost(pooledMost)
	return nil
}
