package snapshot

import "testing"

func TestIsGitConfig(t *testing.T) {
	for path, want := range map[string]bool{
		".git/config": true, "a/.git/config.worktree": true, ".git/config.bak": true, ".git/config~": true, "bare.git/config": true, ".git/modules/m/config": true,
		"config": false, "src/config": false, ".git/HEAD": false, ".git/configure": false, "a.git/src": false,
	} {
		if got := IsGitConfig(path); got != want {
			t.Errorf("IsGitConfig(%q) is %v, want %v", path, got, want)
		}
	}
}
