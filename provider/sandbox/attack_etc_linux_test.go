package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// ownEtcVar tells a test that /etc is a copy of its own.
const ownEtcVar = "CROFT_TEST_OWN_ETC"

// TestAttackPasswdOnTheHost changes accounts on the host while a workspace is open: passwd
// and its like write a new file and rename it over the old one, which detaches a mount.
func TestAttackPasswdOnTheHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: an ordinary user changes no accounts")
	}
	if os.Getenv(ownEtcVar) == "" {
		etc := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", `cp -a /etc/. "$0" && mount --bind "$0" /etc && exec "$@"`, etc,
			os.Args[0], "-test.run", "^TestAttackPasswdOnTheHost$", "-test.v")
		cmd.Env = append(os.Environ(), ownEtcVar+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, row, ok := strings.Cut(line, testenv.AttackPrefix); ok {
				t.Log(testenv.AttackPrefix + strings.TrimSpace(row))
			}
		}
		return
	}
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		testenv.ReportAttack(t, "accounts of the host after passwd ran there", string(level), testenv.Prevented, "")
		ws := open(t, p)
		output(t, ws, "true") // the guest is there
		for _, name := range []string{"shadow", "gshadow", "passwd", "sudoers"} {
			path := filepath.Join("/etc", name)
			if err := os.WriteFile(path+".new", []byte("secret-of-the-host:x:0:0::/:/bin/sh\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
		if level == driver.IsolationProcess { // which shows the host's passwd
			if got := output(t, ws, "cat /etc/shadow /etc/gshadow /etc/sudoers 2>/dev/null; echo held"); got != "held" {
				t.Errorf("got %q", got)
			}
			return
		}
		if got := output(t, ws, "grep -rs secret-of-the-host /etc; ls /etc/shadow /etc/gshadow /etc/sudoers 2>/dev/null; id -un"); got != workloadName {
			t.Errorf("got %q", got)
		}
	})
}

// TestEtcIsEnough runs what needs files of /etc.
func TestEtcIsEnough(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		ws := open(t, p)
		if got := output(t, ws, `getent hosts localhost >/dev/null || echo no localhost
getent services https >/dev/null || echo no services
[ -r /etc/ssl/certs ] || [ -r /etc/pki/tls/certs ] || echo no certificates
[ -s /etc/os-release ] || echo no release
[ "$(ls -A /etc/alternatives 2>/dev/null)" ] || [ ! -e `+"/usr/bin/update-alternatives"+` ] || echo no alternatives
(echo x > /etc/new) 2>/dev/null && echo written
(echo x >> /etc/passwd) 2>/dev/null && echo written
awk 'BEGIN { exit 0 }' || echo no awk
true`); got != "" {
			t.Errorf("got %q", got)
		}
		for _, hidden := range []string{"shadow", "ssh", "sudoers", "machine-id", "systemd", "cron.d", "environment", "apt", "docker"} {
			if level == driver.IsolationProcess {
				break // a name is seen, its content is not
			}
			if got := output(t, ws, "ls -d /etc/"+hidden+" 2>/dev/null; true"); got != "" {
				t.Errorf("%s is there", got)
			}
		}
	})
}

// TestAttackKernelState reads what the kernel says of the whole host.
func TestAttackKernelState(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			testenv.ReportAttack(t, "state of the host's kernel in /proc", string(level), testenv.NotClaimed, "")
			return
		}
		testenv.ReportAttack(t, "state of the host's kernel in /proc", string(level), testenv.Prevented, "")
		if level == driver.IsolationGVisor {
			return // /proc is its own
		}
		got := output(t, open(t, p), `for f in kpagecgroup kpagecount kpageflags kallsyms kmsg modules vmallocinfo slabinfo iomem interrupts; do
[ -e /proc/$f ] && timeout 2 head -c 1 /proc/$f 2>/dev/null | grep -q . && echo $f; done; true`)
		if got != "" {
			t.Errorf("can be read: %s", got)
		}
	})
}

func TestAttackEtcUnprivileged(t *testing.T) {
	asNobody(t, "^Test(EtcIsEnough|AttackKernelState)$")
}
