package sandbox

import (
	"io/fs"
	"strings"
	"testing"
)

// TestNamespaceRemedy: for each cause that refuses user namespaces the error has the
// command that allows them. The files of /proc are those of such a host.
func TestNamespaceRemedy(t *testing.T) {
	const clone, most, apparmor, status = "/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/self/status"
	for _, test := range []struct {
		name  string
		root  bool
		files map[string]string
		want  string // "" is no remedy
	}{
		{"ubuntu", false, map[string]string{most: "62000\n", apparmor: "1\n"}, "croft doctor --apparmor | sudo tee /etc/apparmor.d/croft"},
		{"ubuntu, every program", false, map[string]string{apparmor: "1\n"}, "every program, run: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"ubuntu, root", true, map[string]string{most: "62000\n", apparmor: "1\n"}, ""},
		{"debian", false, map[string]string{clone: "0\n"}, "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"none at all", true, map[string]string{most: "0\n"}, "sysctl -w user.max_user_namespaces=15000"},
		{"container", true, map[string]string{most: "62000\n", status: "Name:\tcroft\nSeccomp:\t2\nSeccomp_filters:\t1\n"}, "--security-opt seccomp=unconfined"},
		{"nothing known", false, map[string]string{most: "62000\n", status: "Name:\tcroft\nSeccomp:\t0\n"}, ""},
	} {
		h := hostState{test.root, func(path string) ([]byte, error) {
			if text, ok := test.files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}}
		if got := h.namespaceRemedy(); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: the remedy is %q, want %q in it", test.name, got, test.want)
		}
	}
}
