package e2b

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
)

// Files of a restored data directory can't name paths outside of it.
func TestHostileFiles(t *testing.T) {
	for name, text := range map[string]string{
		"volumes.json":                        `[{"id":"../../../etc","name":"x"}]`,
		"templates/aaaaaaaaaaaaaaaaaaaa.json": `{"id":"aaaaaaaaaaaaaaaaaaaa","builds":[{"id":"../../x","status":"ready"}]}`,
		"templates/bbbbbbbbbbbbbbbbbbbb.json": `{"id":"../../x","builds":[]}`,
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "templates"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openTemplates(dir)
		if err == nil {
			_, err = openVolumes(dir, t.TempDir())
		}
		if fault.Of(err) != fault.Failed {
			t.Errorf("%s with %s: %v, want %v", name, text, err, fault.Failed)
		}
	}
}
