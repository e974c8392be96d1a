package cmdpolicy

import (
	"errors"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func mustNew(t testing.TB, o *Options) *Checker {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refusal checks a command and returns why it was refused, nil where it was not.
func refusal(t testing.TB, g *Checker, cmd driver.Command) *Refusal {
	t.Helper()
	_, err := g.Check(t.Context(), cmd)
	if err == nil {
		return nil
	}
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("Check(%q) = %v, which is no Refusal", summary(cmd), err)
	}
	if fault.Of(err) != r.Code {
		t.Errorf("Check(%q) has code %s, its refusal %s", summary(cmd), fault.Of(err), r.Code)
	}
	return r
}

func TestDenyScripts(t *testing.T) {
	g := mustNew(t, Sandbox())
	denied := map[string][]string{
		"sudo": {
			"sudo id", "  sudo id", "\\sudo id", "'sudo' id", `"sudo" id`, `su"do" id`, `s\udo id`, "$'\\x73udo' id", "su\\\ndo id",
			"/usr/bin/sudo id", "./sudo id", "SUDO id", "sudo.exe id", "/usr/bin/../bin/sudo id", "/usr/bin/sud? id", "{sudo,id}", "/usr/bin/s*do id",
			"true; sudo id", "true && sudo id", "true || sudo id", "true | sudo id", "sleep 1 & sudo id", "true |& sudo id",
			"(sudo id)", "{ sudo id; }", "echo $(sudo id)", "echo `sudo id`", "echo \"a $(sudo id) b\"", "true\nsudo id", "cat <(sudo id)", "! sudo id",
			"if sudo id; then :; fi", "if :; then sudo id; fi", "if :; then :; else sudo id; fi", "if :; then :; elif sudo id; then :; fi",
			"while sudo id; do :; done", "while :; do sudo id; done", "until sudo id; do :; done", "for x in a; do sudo id; done",
			"for ((i=0;i<1;i++)); do sudo id; done", "case x in x) sudo id;; esac", "select x in a; do sudo id; done",
			"A=1 sudo id", "A=1 B=2 sudo id", "A=$(sudo id)", "export A=$(sudo id)", "f() { sudo id; }; f", "function f { sudo id; }", "f() ( sudo id )",
			"> out sudo id", "2>&1 sudo id", "cat <<EOF\n$(sudo id)\nEOF", "cat <<< $(sudo id)", "cat < <(sudo id)", "[[ -n $(sudo id) ]]", "echo ${x:-$(sudo id)}",
			"echo $(( $(sudo id) + 1 ))", "a[$(sudo id)]=1", "coproc sudo id", "time sudo id", "time -p sudo id",
			"env sudo id", "env -i A=1 sudo id", "env -u X -- sudo id", "env -C sub sudo id", "env -S 'sudo id'", "env -S'sudo id'", "env -iS 'A=1 sudo id'",
			"env --split-string='sudo id'", "env --split-string 'sudo id'", "env -S 'env -S \"sudo id\"'", "/usr/bin/env sudo id", "env -u X sudo id", "env --unset X sudo id",
			"nice sudo id", "nice -n 5 sudo id", "nice -10 sudo id", "nohup sudo id &", "timeout 5 sudo id", "timeout -s KILL -k 1 5s sudo id", "timeout --signal KILL 5 sudo id",
			"timeout --signal=KILL 5 sudo id", "timeout -sKILL 5 sudo id", "setsid -f sudo id", "stdbuf -oL sudo id", "stdbuf -o L sudo id", "exec sudo id", "exec -a x sudo id", "command sudo id", "command -p sudo id",
			"xargs sudo", "echo a | xargs -n 1 sudo id", "xargs -0 -I {} sudo {}", "xargs -I{} sh -c 'sudo {}'", "xargs --max-args 1 sudo",
			"find . -exec sudo id \\;", "find . -name x -execdir sudo id {} +", "find . -exec true \\; -ok sudo {} ';'", "find . -exec sh -c 'sudo id' \\;", "fd x -x sudo",
			"watch sudo id", "watch -n 1 'sudo id'", "watch -x sudo id", "parallel sudo ::: a", "parallel 'sudo {}' ::: a",
			"sh -c 'sudo id'", "bash -c \"sudo id\"", "bash -lc 'sudo id'", "bash -ec 'sudo id'", "bash -c -- 'sudo id'", "bash -o pipefail -c 'sudo id'", "bash -euo pipefail -c 'sudo id'",
			"bash --norc -c 'sudo id'", "bash --rcfile x -c 'sudo id'", "sh -c \"sh -c 'sudo id'\"", "bash -c 'exec \"$@\"' _ sudo id", "sh -c '$0 id' sudo", "zsh -c 'sudo id'", "/bin/sh -c 'sudo id'",
			"bash <<EOF\nsudo id\nEOF", "bash <<< 'sudo id'", "bash -s <<'EOF'\nsudo id\nEOF",
			"busybox sudo id", "busybox sh -c 'sudo id'", "toybox nice sudo id", "eval sudo id", "eval 'sudo id'", "eval \"sudo $x\"", "eval $x \"; sudo id\"", "bash -c \"cd $d && sudo $x\"", "bash <<EOF\ncd $d; sudo $x\nEOF", "trap 'sudo id' EXIT", "alias x='sudo id'",
			"flock f sudo id", "flock f -c 'sudo id'", "script -c 'sudo id' f", "ionice -c 3 sudo id", "taskset -c 0 sudo id", "unshare -r sudo id", "strace -o f sudo id",
			"/lib64/ld-linux-x86-64.so.2 /usr/bin/sudo id", "env nice nohup timeout 5 setsid sudo id", "timeout $T sudo id",
			"sudo${IFS}id", "sudo$IFS-n id", "env${IFS}sudo${IFS}id", "sudo${IFS:0:1}id", "bash -c 'sudo${IFS}id'", "/usr/bin/sudo${IFS}id", "{sudo,x}${IFS}id",
			"env bash <<EOF\nsudo id\nEOF", "nice -n 5 sh -s <<< 'sudo id'", "env -i A=1 timeout 5 bash <<< 'sudo id'", "source /dev/stdin <<< 'sudo id'", ". /dev/fd/0 <<EOF\nsudo id\nEOF",
			"bash /dev/stdin <<< 'sudo id'", "env -S bash <<< 'sudo id'", "busybox sh <<< 'sudo id'",
			"choom -n 5 sudo id", "eatmydata sudo id", "xvfb-run -s '-x' sudo id", "ssh-agent sudo id", "sg users -c 'sudo id'", "valgrind --tool=none sudo id", "systemd-inhibit --what=idle sudo id",
			"sudo id\n)", // a shell runs the first line before it sees the second
		},
		"su": {"su", "su - root", "su\tx", "su;", "bash -c su"}, "shutdown": {"shutdown now"}, "reboot": {"reboot", "/sbin/reboot -f"}, "halt": {"halt"},
		"poweroff": {"poweroff"}, "chroot": {"chroot / sh"}, "mount": {"mount -t tmpfs x y", "busybox mount"}, "umount": {"umount x"},
		"mkfs": {"mkfs /dev/sda"}, "mkfs.ext4": {"mkfs.ext4 /dev/sda", "/sbin/mkfs.ext4 x"},
	}
	for name, scripts := range denied {
		for _, s := range scripts {
			r := refusal(t, g, driver.Command{Script: s})
			if r == nil {
				t.Errorf("%q passes, want it refused for %s", s, name)
				continue
			}
			if want := TextDenied + ` "` + name + `"`; r.Code != fault.SandboxViolation || r.Rule != RuleCommands || !strings.HasPrefix(r.Text, TextDenied) {
				t.Errorf("%q is refused with %s %q, want %q", s, r.Code, r.Text, want)
			}
		}
	}
}

func TestDenyLetsArgumentsPass(t *testing.T) {
	g := mustNew(t, Sandbox())
	for _, s := range []string{
		"grep -rn mount .", "echo su", `echo "please reboot now"`, "echo sudo; echo su | cat", "git commit -m 'sudo id'", "git log --grep=mount",
		"cat <<EOF\nsudo id\nmount x\nEOF", "cat <<'EOF'\n$(sudo id)\nEOF", "cat > x.sh <<EOF\nsudo id\nEOF", "echo '$(sudo id)'", "# sudo id", "echo a # ; sudo id",
		"sudo=1", "su=x; echo $su", "ls mount umount", "make mount", "npm run reboot", "command -v sudo", "command -V mount", "type sudo", "which sudo", "man mount",
		"for x in sudo su mount; do echo $x; done", "case $x in sudo) echo;; esac", "[ sudo = su ]", "[[ $x == sudo ]]", "echo \\; sudo", "echo '; sudo id'", "echo \"a && sudo b\"",
		"find . -name sudo", "find . -name mount -exec cat {} \\;", "xargs echo sudo", "env A=sudo echo", "sh -c 'echo sudo' mount", "bash script.sh sudo", "timeout 5 echo sudo",
		"a=(sudo su mount)", "export X=sudo", "cat sudo.txt", "./mount.sh", "suspend", "sudoku", "mountpoint .", "mkfsx", "echo {sudo,su}", "x=${y:-sudo}", "sed 's/sudo/su/' f",
		"printf '%s\\n' sudo", "trap - EXIT", "trap '' TERM", "echo $((mount + su))", "grep -e sudo f", "test -x /usr/bin/sudo", "docker run mount", "time ls", "exec 3< f", "f() { echo su; }",
		"echo${IFS}sudo", "echo a${IFS}sudo", "grep$IFS-r${IFS}mount .", "\"su${IFS}\" x", "IFS=: read a b", "cat /dev/stdin <<< 'sudo id'", "env cat <<< 'sudo id'", "bash x.sh <<< 'sudo id'",
		"source ./env.sh <<< 'sudo id'", "valgrind ./sudoku", "sg users -c 'echo sudo'",
		"watch -n 1 ls", "parallel echo ::: sudo mount", "sh -c 'grep \"$@\" f' _ mount", "((x = mount))", "dd if=a of=b",
	} {
		if r := refusal(t, g, driver.Command{Script: s}); r != nil {
			t.Errorf("%q is refused: %v", s, r)
		}
	}
}

func TestDenyArgv(t *testing.T) {
	g := mustNew(t, Sandbox())
	for _, tt := range []struct {
		argv []string
		want bool
	}{
		{[]string{"sudo", "id"}, true},
		{[]string{"/usr/bin/sudo"}, true},
		{[]string{" sudo "}, true},
		{[]string{"env", "A=b", "sudo"}, true},
		{[]string{"bash", "-c", "sudo id"}, true},
		{[]string{"find", ".", "-exec", "sudo", ";"}, true},
		{[]string{"busybox", "mount"}, true},
		{[]string{"echo", "sudo"}, false},
		{[]string{"echo", ";", "sudo"}, false},
		{[]string{"echo", "$(sudo id)"}, false},
		{[]string{"grep", "-rn", "mount", "."}, false},
		{[]string{"s?do", "x"}, false}, // no shell, no glob
		{[]string{"bash", "-c", "echo sudo"}, false},
	} {
		if r := refusal(t, g, driver.Command{Argv: tt.argv}); (r != nil) != tt.want {
			t.Errorf("%q: refused with %v, want refused = %v", tt.argv, r, tt.want)
		}
	}
}

// TestDenyDoesNotKnowVariables keeps what the package says it can't stop true.
func TestDenyDoesNotKnowVariables(t *testing.T) {
	g := mustNew(t, Sandbox())
	for _, s := range []string{"x=sudo; $x id", "bash script.sh", "echo 'sudo id' | sh", "python3 -c 'import os; os.system(\"sudo id\")'", "PATH=. git"} {
		if r := refusal(t, g, driver.Command{Script: s}); r != nil {
			t.Errorf("%q is refused: %v; take it off the list of what a guard can't stop", s, r)
		}
	}
}

func TestAllow(t *testing.T) {
	g := mustNew(t, &Options{Commands: Commands{Allow: []string{"git", "go", "env", "bash", "/opt/tool/bin/*"}, Deny: []string{"go"}}})
	tests := []struct {
		cmd  driver.Command
		text string
	}{
		{driver.Command{Script: "git status && cd sub; echo hi; [ -f x ] && git log"}, ""},
		{driver.Command{Script: "f() { git status; }; f"}, ""},
		{driver.Command{Argv: []string{"/opt/tool/bin/x"}}, ""},
		{driver.Command{Argv: []string{"env", "git"}}, ""},
		{driver.Command{Argv: []string{"bash", "-c", "git log"}}, ""},
		{driver.Command{Argv: []string{"go", "test"}}, TextDenied + ` "go"`},
		{driver.Command{Argv: []string{"ls"}}, TextNotAllowed + ` "ls"`},
		{driver.Command{Argv: []string{"./git"}}, TextNotAllowed + ` "./git"`},
		{driver.Command{Argv: []string{"env", "ls"}}, TextNotAllowed + ` "ls"`},
		{driver.Command{Argv: []string{"bash", "-c", "ls"}}, TextNotAllowed + ` "ls"`},
		{driver.Command{Script: "git log | less"}, TextNotAllowed + ` "less"`},
		{driver.Command{Script: "$x"}, TextUnknown},
		{driver.Command{Script: "g*t log"}, TextUnknown},
		{driver.Command{Script: "git log; ("}, TextUnparsed},
		{driver.Command{Argv: []string{"cd", "x"}}, TextNotAllowed + ` "cd"`},
	}
	for _, tt := range tests {
		r := refusal(t, g, tt.cmd)
		got := ""
		if r != nil {
			got = r.Text
		}
		if got != tt.text {
			t.Errorf("%q: refused with %q, want %q", summary(tt.cmd), got, tt.text)
		}
	}
}

func TestUnparsed(t *testing.T) {
	strict := mustNew(t, &Options{Commands: Commands{Deny: DefaultDeny()}})
	lenient := mustNew(t, Sandbox())
	for _, s := range []string{"if", "echo 'a", "echo )", "a && ", "<<EOF\n$("} {
		if r := refusal(t, strict, driver.Command{Script: s}); r == nil || r.Text != TextUnparsed || r.Code != fault.InvalidArgument {
			t.Errorf("%q: refused with %v, want %q", s, r, TextUnparsed)
		}
		if r := refusal(t, lenient, driver.Command{Script: s}); r != nil {
			t.Errorf("%q is refused in a sandbox: %v", s, r)
		}
	}
}

// TestHugeScripts has scripts whose shape could cost a parser its stack, or time.
func TestHugeScripts(t *testing.T) {
	const most = MaxScript / 8
	g := mustNew(t, withoutPaths())
	fill := func(s, tail string) string { return strings.Repeat(s, (most-len(tail))/len(s)) + tail }
	for _, s := range []string{
		fill("(", ""), fill("$(", ""), fill("{ ", ""), fill("if ", ""), fill("! ", "a"), fill("a|", "a"), fill("a&&", "a"), fill("a;", "a"), fill("`", ""),
		fill("$((", ""), "echo $((" + fill("-", "1))        "), fill("sh -c 'sh -c ", ""), fill("env ", "a"), fill("eval ", "a"), fill("find -exec ", "a"),
		fill("sh -c '$0' ", "a"), fill("{a,b}", ""), fill("if a;then b;el", "fi"), fill("${x:-", ""), fill("\"$(", ""), fill("time ", "a"), fill("a=", ""),
	} {
		s = s[:min(len(s), MaxScript)]
		if _, err := g.Check(t.Context(), driver.Command{Script: s}); err != nil && fault.Of(err) == fault.Internal {
			t.Errorf("%.20q: %v", s, err)
		}
		if _, err := g.Check(t.Context(), driver.Command{Argv: strings.Fields(s)}); err != nil && fault.Of(err) == fault.Internal {
			t.Errorf("%.20q as argv: %v", s, err)
		}
	}
	if r := refusal(t, mustNew(t, &Options{Commands: Commands{Deny: DefaultDeny()}}), driver.Command{Argv: []string{"sh", "-c", strings.Repeat("a", MaxScript+1)}}); r == nil || r.Text != TextScriptTooLong {
		t.Errorf("a nested script beyond the cap: %v", r)
	}
}

// withoutPaths are Local's rules without those that need files.
func withoutPaths() *Options {
	o := Local()
	o.Paths = Paths{}
	return o
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"sudo id", "env -S 'a b' c", "sh -c 'x \"$@\"' _ y", "find . -exec a \\; -exec b +", "cat <<EOF\n$(a)\nEOF", "{a,b}{c,d}", "a=~/x b", "trap x y", "alias a=b", "flock f -c x", "env -S"} {
		f.Add(s)
	}
	g, err := New(withoutPaths())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, err1 := g.Check(t.Context(), driver.Command{Script: s})
		if err1 != nil {
			if again := refusal(t, g, driver.Command{Script: s}); again == nil || again.Error() != err1.Error() {
				t.Fatalf("%q: first %v, then %v", s, err1, again)
			}
			return
		}
		second, err2 := g.Check(t.Context(), first)
		if err2 != nil || second.Script != s {
			t.Fatalf("%q passes once, then %v with %q", s, err2, second.Script)
		}
		if r := refusal(t, g, driver.Command{Script: s + "\nsudo id\n"}); r == nil && !strings.Contains(s, "<<") && !strings.HasSuffix(s, "\\") {
			t.Fatalf("sudo passes after %q", s)
		}
		var found analysis
		found.addArgv(append([]string{"env"}, strings.Fields(s)...))
	})
}
