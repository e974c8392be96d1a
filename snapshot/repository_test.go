package snapshot

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestApplyLeavesOtherRepositoriesAlone: what a workload writes to the repository of another
// version control than Git is left out, and so is a whole new one. Where it is wanted, its
// files are never merged by lines.
func TestApplyLeavesOtherRepositoriesAlone(t *testing.T) {
	base := map[string]string{"a": "1\n", ".hg/hgrc": "", ".hg/dirstate": "1\n2\n3\n4\n5\n"}
	theirs := map[string]string{
		"a": "2\n", ".hg/hgrc": "[hooks]\npre-status = evil\n", ".hg/dirstate": "one\n2\n3\n4\n5\n", "sub/.hg/hgrc": "evil", "sub/.hg/store/x": "x",
		"b/.jj/repo/config.toml": "evil", "c/.sl/config": "evil", "d/.pijul/config": "evil", "e/_FOSSIL_": "evil", ".HG/x": "evil",
	}
	ours := map[string]string{"a": "1\n", ".hg/hgrc": "", ".hg/dirstate": "1\n2\n3\n4\nfive\n"}
	res, got := applied(t, base, theirs, ours, nil)
	want := map[string]string{"a": "2\n", ".hg/hgrc": "", ".hg/dirstate": "1\n2\n3\n4\nfive\n", "sub/": "", "b/": "", "c/": "", "d/": "", "e/": ""}
	for name, content := range got {
		if want[name] != content {
			t.Errorf("%s is %q, want %q", name, content, want[name])
		}
	}
	var names []string
	for _, l := range res.LeftOut {
		if l.Reason == LeftOutAutorun {
			names = append(names, l.Paths...)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{".HG", ".hg", ".hg/hgrc", "b/.jj", "b/.jj/repo/config.toml", "c/.sl", "c/.sl/config", "d/.pijul", "d/.pijul/config", "e/_FOSSIL_", "sub/.hg", "sub/.hg/hgrc"}, names); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}

	delete(theirs, ".HG/x")
	res, got = applied(t, base, theirs, ours, &ApplyOptions{MergeOptions: MergeOptions{Autorun: true}})
	if len(res.Conflicts) != 1 || res.Conflicts[0].Path != ".hg/dirstate" || got[".hg/dirstate"] != ours[".hg/dirstate"] {
		t.Errorf("conflicts %+v, .hg/dirstate is %q", res.Conflicts, got[".hg/dirstate"])
	}
}
