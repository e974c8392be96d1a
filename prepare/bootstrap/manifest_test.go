package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func TestManifest(t *testing.T) {
	want := manifest{"a": {look: [lookSize]byte{1, 2}}, "dir/b\n\xff": {theirs: true}, "dir": {}}
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(manifestEntry{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzManifest(f *testing.F) {
	text, err := manifest{"a": {}, "b/c": {theirs: true}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := decodeManifest(text); err != nil && fault.Of(err) != fault.Failed {
			t.Fatal(err)
		}
	})
}
