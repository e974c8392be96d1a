package snapshot

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTakeLeavesOutPrivateKeys: a private key under any name is left out, also after a take
// that had it, and source code with one is not.
func TestTakeLeavesOutPrivateKeys(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----\n" //nolint:gosec // no key
	dir := plant(t, map[string]string{"keys/mine": pem, "sa.json": `{"private_key": "-----BEGIN PRIVATE KEY-----\nMII\n"}`, "key_test.go": "package x\n\nconst key = `" + pem + "`\n", "a": "a"})
	s := Open(Dir(t.TempDir()), &Options{CacheDir: t.TempDir()})
	for range 2 {
		m := take(t, s, dir, &TakeOptions{NoCredentials: true, Cache: "x"})
		if diff := cmp.Diff([]string{"keys/mine", "sa.json"}, slices.Sorted(slices.Values(m.LeftOut))); diff != "" || m.Files != 2 {
			t.Errorf("%d files; left out (-want +got):\n%s", m.Files, diff)
		}
	}
	if m := take(t, s, dir, nil); m.Files != 4 {
		t.Errorf("%d files with credentials, want 4", m.Files)
	}
}
