package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// fakeSSH puts a program ssh on PATH that stands for a hostile machine: a shell script, which has
// the command in $command.
func fakeSSH(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nfor command; do :; done\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestHostileMachines: what a machine answers ends with a clear error, within the time of a step.
//
//croft:slow
func TestHostileMachines(t *testing.T) {
	const guestVerbs = `*" daemon "*|*" connect "*|*" end "*|*" remove "*) `
	for name, tt := range map[string]struct{ script, want string }{
		"endless output":      {`exec yes`, "must print nothing"},
		"a long banner":       {`head -c 1000000 /dev/zero | tr '\0' x; exec sh -c "$command"`, "must print nothing"},
		"endless errors":      {`exec yes >&2`, "does not answer"},
		"silence":             {`exec sleep 1000`, "does not answer"},
		"a silent guest":      {`case "$command" in ` + guestVerbs + `exec sleep 1000;; *) exec sh -c "$command";; esac`, "does not answer"},
		"a huge report":       {`case "$command" in ` + guestVerbs + `printf '\377\377\377\377'; exec cat /dev/zero;; *) exec sh -c "$command";; esac`, "bytes"},
		"words of a guest":    {`case "$command" in ` + guestVerbs + `echo "-bash: ulimit: no"; exec sleep 1000;; *) exec sh -c "$command";; esac`, ""},
		"a guest that writes": {`case "$command" in ` + guestVerbs + `exec yes;; *) exec sh -c "$command";; esac`, ""},
		"a strange directory": {`echo croft-machine; echo '/tmp/$(touch x)'; echo Linux x86_64`, "directory"},
		"a strange system":    {`echo croft-machine; echo /tmp; echo Plan9 68020`, "Linux"},
		"a full disk":         {`case "$command" in *"cat >"*) echo "cat: write error: No space left on device" >&2; exit 4;; *sha256sum*) exit 127;; *) exec sh -c "$command";; esac`, "No space left"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, t.TempDir(), func(c *Config) {
				if strings.Contains(tt.want, "does not answer") {
					c.Timeout = 3 * time.Second
				}
			})
			fakeSSH(t, tt.script)
			began := time.Now()
			_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
			took := time.Since(began)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 3000 {
				t.Errorf("got an error of %d bytes, %.400v; want %q", len(fmt.Sprint(err)), err, tt.want)
			}
			if took > DefaultTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestSSHHasNoSecretOfCroft: the configuration of ssh may send variables to the machine.
func TestSSHHasNoSecretOfCroft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	t.Setenv("CROFT_TOKEN", "the-token")
	t.Setenv("CROFT_SECRET_KEY", "the-secret")
	t.Setenv("OTHER", "other")
	p := newProvider(t, t.TempDir())
	fakeSSH(t, "env > "+file+"; exit 255")
	p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
	env, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(env), "the-token") || strings.Contains(string(env), "the-secret") || !strings.Contains(string(env), "OTHER=other") {
		t.Errorf("ssh has the variables of Croft, or not the others (%v)", err)
	}
}

// TestTwoHostsOnOneMachine: the sweep of one does not remove what the other has in the same
// directory.
func TestTwoHostsOnOneMachine(t *testing.T) {
	dir, machine := t.TempDir(), filepath.Join(t.TempDir(), "machine")
	at := func(name string) *Provider {
		return newProvider(t, dir, func(c *Config) { c.Root, c.Dir = filepath.Join(dir, name), machine })
	}
	a, b := at("a"), at("b")
	first, second := open(t, a), open(t, b)
	write(t, first, "kept", "first")
	write(t, second, "kept", "second")
	if err := b.Sweep(t.Context(), nil); err != nil && fault.Of(err) != fault.WrongState {
		t.Error(err)
	}
	if got := read(t, first, "kept"); got != "first" {
		t.Errorf("the file holds %q", got)
	}
	if err := at("new").Sweep(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if got := read(t, first, "kept"); got != "first" {
		t.Errorf("the file holds %q", got)
	}
}
