package snapshot

import "testing"

func TestGitFile(t *testing.T) {
	for path, want := range map[string]bool{
		".git/config": true, "a/.git/config.worktree": true, ".git/config.bak": true, ".git/config~": true, "bare.git/config": true, ".git/modules/m/config": true,
		".git/logs/HEAD": true, "a/.GIT/FETCH_HEAD": true, "b.git/logs/refs/heads/x": true,
		"config": false, "src/config": false, ".git/HEAD": false, ".git/configure": false, "a.git/src": false, "logs/HEAD": false, ".git": false,
	} {
		if clean, _ := GitFile(path); (clean != nil) != want {
			t.Errorf("GitFile(%q) cleans: %v, want %v", path, !want, want)
		}
	}
}
