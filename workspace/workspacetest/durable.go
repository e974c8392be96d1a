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
	{"Durability/acknowledged-writes-survive-SIGKILL", allNeeds(needPersistence, needKill, needFS), durableKill},
}

// roundsEnv sets how many processes durableKill kills.
const roundsEnv = "CROFT_WORKSPACETEST_ROUNDS"

func killRounds(t testing.TB) int {
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

// fileContent returns the content of a file in its generation; the content identifies
// itself.
func fileContent(name string, gen int) []byte {
	size := 16 << (gen * 7 % 15) // 16 bytes to 256 KiB
	head := fmt.Sprintf("%s %d\n", name, gen)
	return append([]byte(head), patternBytes(byte(gen), size)...)
}

const slots = 6 // names that writeForever rewrites

// writeForever writes files until it is killed, and reports each acknowledged write.
func writeForever(ctx context.Context, d *driver.Workspace, seed int64) error {
	childAnswer{Ref: &d.Ref}.sendLine()
	for gen := int(seed)*1_000_000 + 1; ; gen++ { // generations grow over all rounds
		name := fmt.Sprintf("dir-%d/file-%d", seed%3, gen%slots)
		if _, err := d.FS.Write(ctx, name, bytes.NewReader(fileContent(name, gen)), &driver.WriteOptions{Parents: true}); err != nil {
			return err
		}
		childAnswer{Name: name, Gen: gen}.sendLine()
	}
}

// durableKill kills a process that writes, at a random moment, repeatedly over one
// workspace. Every acknowledged write must be complete, or replaced by a complete one
// of a later generation; and no other file may exist.
func durableKill(t testing.TB, e *Env) {
	spec := e.spec()
	var ref *driver.Ref
	for round := range killRounds(t) {
		seed := int64(round)
		c := e.startChild(t, childJob{Verb: "write", Spec: spec, Ref: ref, Seed: seed})
		hello, ok := c.nextAnswer(t)
		if !ok || hello.Ref == nil {
			c.kill()
			t.Fatalf("round %d: the child gave no ref: %v\n%s%s", round, hello.asError(), c.noise.String(), c.stderr.String())
		}
		ref = hello.Ref
		acked := map[string]int{}
		for range 1 + rand.IntN(40) {
			a, ok := c.nextAnswer(t)
			if !ok || a.Name == "" {
				c.kill()
				t.Fatalf("round %d: the child ended by itself: %v\n%s%s", round, a.asError(), c.noise.String(), c.stderr.String())
			}
			acked[a.Name] = a.Gen
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // to die at any point of a write
		c.cmd.Process.Kill()                                          // Wait reports it
		for {
			a, ok := c.nextAnswer(t) // acknowledged before the kill, read after it
			if !ok {
				break
			}
			acked[a.Name] = a.Gen
		}
		c.kill()
		e.restartProvider(t)
		verifyFiles(t, e.resolve(t, spec, *ref), round, acked)
		if t.Failed() {
			return
		}
	}
	p := e.resolve(t, spec, *ref)
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

func verifyFiles(t testing.TB, p *testWorkspace, round int, acked map[string]int) {
	t.Helper()
	for _, info := range p.listTree(t) {
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
		if !bytes.Equal(data, fileContent(name, gen)) {
			t.Errorf("round %d: %q is torn: generation %d has %d bytes, want %d", round, name, gen, len(data), len(fileContent(name, gen)))
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
