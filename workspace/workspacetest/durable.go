package workspacetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

var durabilityChecks = []Check{
	{"Durability/acknowledged-writes-survive-SIGKILL", all(needPersistence, needKill, needFS), durableKill},
}

// roundsEnv says how many processes durableKill kills.
const roundsEnv = "CROFT_WORKSPACETEST_ROUNDS"

func rounds(t testing.TB) int {
	s := os.Getenv(roundsEnv)
	if s == "" {
		return 10
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a positive number", roundsEnv, s)
	}
	return n
}

// body is the content of a file in its generation; it tells what it should be.
func body(name string, gen int) []byte {
	size := 16 << (gen * 7 % 15) // 16 bytes to 256 KiB
	head := fmt.Sprintf("%s %d\n", name, gen)
	return append([]byte(head), pattern(byte(gen), size)...)
}

const slots = 6 // names that writeForever writes again and again

// writeForever writes files until it is killed, and tells of each write that
// was acknowledged.
func writeForever(ctx context.Context, d *driver.Workspace, seed int64) error {
	answer{Ref: &d.Ref}.send()
	for gen := int(seed)*1_000_000 + 1; ; gen++ { // generations grow over all rounds
		name := fmt.Sprintf("dir-%d/file-%d", seed%3, gen%slots)
		if _, err := d.FS.Write(ctx, name, bytes.NewReader(body(name, gen)), &driver.WriteOptions{Parents: true}); err != nil {
			return err
		}
		answer{Name: name, Gen: gen}.send()
	}
}

// durableKill kills a process that writes, at a random moment, again and again
// over one workspace. Every write that was acknowledged must be there, whole, or
// replaced by a whole one of a later generation; and nothing else may be there.
func durableKill(t testing.TB, e *Env) {
	spec := e.spec()
	var ref *driver.Ref
	for round := range rounds(t) {
		seed := int64(round)
		c := e.start(t, job{Verb: "write", Spec: spec, Ref: ref, Seed: seed})
		hello, ok := c.next(t)
		if !ok || hello.Ref == nil {
			c.kill()
			t.Fatalf("round %d: the child gave no ref: %v\n%s%s", round, hello.fail(), c.noise.String(), c.stderr.String())
		}
		ref = hello.Ref
		acked := map[string]int{}
		for range 1 + rand.IntN(40) {
			a, ok := c.next(t)
			if !ok || a.Name == "" {
				c.kill()
				t.Fatalf("round %d: the child ended by itself: %v\n%s%s", round, a.fail(), c.noise.String(), c.stderr.String())
			}
			acked[a.Name] = a.Gen
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // to die at any point of a write
		c.cmd.Process.Kill()                                          // Wait tells
		for {
			a, ok := c.next(t) // acknowledged before the kill, read after it
			if !ok {
				break
			}
			acked[a.Name] = a.Gen
		}
		c.kill()
		e.restart(t)
		verify(t, e.resolve(t, spec, *ref), round, acked)
		if t.Failed() {
			return
		}
	}
	p := e.resolve(t, spec, *ref)
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

func verify(t testing.TB, p *place, round int, acked map[string]int) {
	t.Helper()
	for _, info := range p.tree(t) {
		if info.Type == driver.TypeDir {
			continue
		}
		data, err := p.ReadFile(t.Context(), info.Path)
		if err != nil {
			t.Errorf("round %d: read %q: %v", round, info.Path, err)
			continue
		}
		var name string
		var gen int
		if _, err := fmt.Fscanf(bytes.NewReader(data), "%s %d\n", &name, &gen); err != nil || name != info.Path {
			t.Errorf("round %d: %q is none of the files that were written: %s", round, info.Path, clip(string(data)))
			continue
		}
		if !bytes.Equal(data, body(name, gen)) {
			t.Errorf("round %d: %q is torn: generation %d has %d bytes, want %d", round, name, gen, len(data), len(body(name, gen)))
		}
		if last, ok := acked[name]; ok {
			delete(acked, name)
			if gen < last {
				t.Errorf("round %d: %q holds generation %d, but %d was acknowledged", round, name, gen, last)
			}
		}
	}
	for name, gen := range acked {
		t.Errorf("round %d: %q, generation %d, was acknowledged and is not there", round, name, gen)
	}
}
