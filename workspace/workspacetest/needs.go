package workspacetest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"

	"github.com/croft-run/croft/workspace/driver"
)

// allNeeds requires all of several needs.
func allNeeds(needs ...func(*Env) (string, bool)) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		for _, need := range needs {
			if reason, ok := need(e); !ok {
				return reason, false
			}
		}
		return "", true
	}
}

func needFS(e *Env) (string, bool) {
	return "module fs is absent", e.sample.FS != nil
}

func needShell(e *Env) (string, bool) {
	return "module shell is absent", e.sample.Shell != nil
}

func needSnapshots(e *Env) (string, bool) {
	return "module snapshot is absent", e.sample.Life.Snapshot != nil
}

func needRollback(e *Env) (string, bool) {
	return "function Life.Snapshot.Rollback is absent", e.sample.Life.Snapshot != nil && e.sample.Life.Snapshot.Rollback != nil
}

func needSeal(e *Env) (string, bool) {
	return "function Life.Snapshot.Seal is absent", e.sample.Life.Snapshot != nil && e.sample.Life.Snapshot.Seal != nil
}

// needFunc needs a function field of FS that package workspace can't replace.
func needFunc(name string) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		if e.sample.FS == nil {
			return needFS(e)
		}
		set := !reflect.ValueOf(e.sample.FS).Elem().FieldByName(name).IsNil()
		return fmt.Sprintf("function fs.%s is absent", name), set
	}
}

func needUpdate(e *Env) (string, bool) {
	return "function Life.Update is absent", e.sample.Life.Update != nil
}

func needPersistence(e *Env) (string, bool) {
	return fmt.Sprintf("Traits.Durability is %q: nothing outlives the process", e.Traits.Durability), e.Traits.Persists()
}

func needReadOnly(e *Env) (string, bool) {
	return "Traits.ReadOnly is not enforced", e.Traits.ReadOnly.Enforced()
}

func needDiskLimit(e *Env) (string, bool) {
	return "Traits.Limits.Disk is not enforced", e.Traits.Limits[driver.ResourceDisk].Enforced()
}

func needInPlace(e *Env) (string, bool) {
	return "Traits.InPlace is not claimed", e.Traits.InPlace
}

func needNotInPlace(e *Env) (string, bool) {
	return "Traits.InPlace is claimed", !e.Traits.InPlace
}

func needLeftovers(e *Env) (string, bool) {
	return "Harness.Leftovers is nil: what is left can't be seen", e.Leftovers != nil
}

// needKill needs a process that can be killed.
func needKill(*Env) (string, bool) {
	return "host has no SIGKILL", runtime.GOOS != "windows"
}

// needNames needs a host that distinguishes the given names in one directory. A
// provider that stores its files elsewhere may not need it; the suite does not know.
func needNames(facility string, names ...string) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		dir, err := os.MkdirTemp(e.Dir, "names")
		if err != nil {
			return "host: no temporary directory", false
		}
		defer os.RemoveAll(dir)
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				return "host file system lacks " + facility, false
			}
		}
		entries, err := os.ReadDir(dir)
		return "host file system lacks " + facility, err == nil && len(entries) == len(names)
	}
}

// otherPolicy returns a changed policy that any provider with these traits accepts.
func otherPolicy(e *Env) driver.Policy {
	if e.Traits.ReadOnly.Enforced() {
		return driver.Policy{ReadOnly: true}
	}
	return driver.Policy{Env: map[string]string{"CHANGED": "yes"}}
}
