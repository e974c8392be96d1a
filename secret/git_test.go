package secret

import (
	"strings"
	"testing"
)

func TestStripGitConfig(t *testing.T) {
	for config, want := range map[string]string{
		"[remote \"o\"]\n\turl = https://a:b@c/d\n":                                                            "[remote \"o\"]\n\turl = https://c/d\n",
		"[http]\n\textraHeader = A: b \\\n more\n\tproxy = http://u:p@q:1\n":                                   "[http]\n\textraHeader =\n\tproxy = http://q:1\n",
		"[remote \"o\"]\n\turl = \"https://u2:q\\\"pw@h/x\" # c\n[a]\n":                                        "[remote \"o\"]\n\turl = \"https://h/x\"\n[a]\n",
		"[remote \"o\"]\n\turl = https://u:pass\\\nword@h/x\n\tk = v\n":                                        "[remote \"o\"]\n\turl = \"https://h/x\"\n\tk = v\n",
		"[remote \"o\"]\n\turl = https://u:pass\\\r\nword@h/x\r\n":                                             "[remote \"o\"]\n\turl = \"https://h/x\"\n",
		"[remote \"o\"]\n\turl = https://u:p@ss@h/x@y\n":                                                       "[remote \"o\"]\n\turl = https://h/x@y\n",
		"[url \"https://u:p\\\"w@h/\"]\n\tinsteadOf = x:\n":                                                    "[url \"https://h/\"]\n\tinsteadOf = x:\n",
		"[sendemail]\n\tsmtpPass = s # x \\\n\tsmtpUser = u\n[imap] pass = \"p\"":                              "[sendemail]\n\tsmtpPass =\n\tsmtpUser = u\n[imap] pass =",
		"[core]\n\ta = \"x # \\\" y\"\n\tb\n# https://u:p@h\n":                                                 "[core]\n\ta = \"x # \\\" y\"\n\tb\n# https://h\n",
		"[user]\n\tsigningKey = K\n[core]\n\tsshCommand = ssh -i k\n":                                          "[user]\n\tsigningKey = K\n[core]\n\tsshCommand = ssh -i k\n",
		"[foo]\n\tapiKey = a\n\tmy-api-key = b\n\tghTokenX = c\n\tsslCertPasswordProtected = true\n":           "[foo]\n\tapiKey =\n\tmy-api-key =\n\tghTokenX =\n\tsslCertPasswordProtected = true\n",
		"[http]\n\tproxyAuthHeader = x\n\tproxy = u:p@q:1\n":                                                   "[http]\n\tproxyAuthHeader =\n\tproxy = q:1\n",
		"[remote \"o\"]\n\turl = ssh://u:pw@h/x\n\tpushurl = \"git+ssh://u:p\\\"w@h/x\"\n":                     "[remote \"o\"]\n\turl = ssh://u@h/x\n\tpushurl = \"git+ssh://u@h/x\"\n",
		"[remote \"o\"]\n\turl = https://h/x?private_token=t&a=b\n\turl = ssh://git@h:22/x\n":                  "[remote \"o\"]\n\turl = https://h/x?private_token=&a=b\n\turl = ssh://git@h:22/x\n",
		"[credential]\n\thelper = \"!f() { echo username=x; echo password=pw; }; f\"\n\thelper = store\n":      "[credential]\n\thelper =\n\thelper = store\n",
		"[credential]\n\thelper = \"!f() { echo password=$T; }; f\"\n\thelper = !gh auth git-credential\n":     "[credential]\n\thelper = \"!f() { echo password=$T; }; f\"\n\thelper = !gh auth git-credential\n",
		"[core]\n\tsshCommand = sshpass -p pw ssh\n\tsshCommand = SSHPASS=pw sshpass -e ssh\n":                 "[core]\n\tsshCommand =\n\tsshCommand =\n",
		"[alias]\n\tx = !curl -H 'Authorization: Bearer b' h\n\ty = !deploy --token abc\n\tz = log --grep x\n": "[alias]\n\tx =\n\ty =\n\tz = log --grep x\n",
		"# token = a\n\t; x = https://u:p@h\n[a]\n\tb = c # password=d\n":                                      "# token =\n\t; x = https://h\n[a]\n\tb = \"c\"\n",
		"[http] EXTRAHEADER=x":                         "[http] EXTRAHEADER=",
		"[remote \"o\"]\n\turl = git@host:a@b/c.git\n": "[remote \"o\"]\n\turl = git@host:a@b/c.git\n",
	} {
		if got := string(StripGitConfig([]byte(config))); got != want {
			t.Errorf("%q becomes %q, want %q", config, got, want)
		}
	}
}

// TestGitFile: each file of a Git directory that may hold a credential has a clean form, or is
// left out, also below modules and worktrees.
func TestGitFile(t *testing.T) {
	const text = "url = https://u:t@h/x\nURL: ssh://u:t@h/x\n0 1\tclone: from https://u:t@h/x\n"
	const want = "url = https://h/x\nURL: ssh://u@h/x\n0 1\tclone: from https://h/x\n"
	for _, name := range strings.Fields(`config config.worktree config~ modules/a/b/config worktrees/w/config.worktree svn/.metadata modules/refs/config logs/HEAD logs/refs/heads/a/b logs/refs/stash
		worktrees/w/logs/HEAD modules/m/logs/refs/heads/x FETCH_HEAD worktrees/w/FETCH_HEAD modules/m/FETCH_HEAD remotes/origin branches/o modules/m/remotes/o logs/refs/heads/credentials`) {
		clean, leaveOut := GitFile(name)
		if leaveOut || clean == nil {
			t.Errorf("%s is left out (%v), or as it is", name, leaveOut)
		} else if got := string(clean([]byte(text))); got != want {
			t.Errorf("%s becomes %q, want %q", name, got, want)
		}
	}
	for _, name := range strings.Fields(`credentials git-credentials .git-credentials modules/m/credentials annex/creds/x`) {
		if _, leaveOut := GitFile(name); !leaveOut {
			t.Errorf("%s is not left out", name)
		}
	}
	for _, name := range strings.Fields(`HEAD index description packed-refs hooks/pre-commit objects/pack/pack-1.pack modules/logs/objects/ab/cd modules/branches/objects/ab/cd
		refs/heads/main refs/heads/credentials refs/remotes/o/x info/exclude COMMIT_EDITMSG`) {
		if clean, leaveOut := GitFile(name); leaveOut || clean != nil {
			t.Errorf("%s is not as it is", name)
		}
	}
}
