package verify

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var (
	// unresolved matches what programs print that do not use the proxy of the workspace;
	// the group is the host.
	unresolved = lazyregexp.New(`getaddrinfo (?:ENOTFOUND|EAI_AGAIN) ([\w.-]+)|[Cc]ould not resolve host:? ([\w.-]+)|dial tcp: lookup ([\w.-]+)|Failed to resolve '([\w.-]+)'|Temporary failure in name resolution|Name or service not known|[Nn]etwork is unreachable`)

	goVersion   = lazyregexp.New(`requires go >= ([\w.]+) \(running go ([\w.]+)`)
	goOffline   = lazyregexp.New(`module lookup disabled by GOPROXY=off|could not import \S+ \(.*(?:no required module|cannot find|missing)`)
	rustVersion = lazyregexp.New(`toolchain '([\w.-]+)' is not installed`)
)

// maxHints bounds the hosts that are named.
const maxHints = 5

// Hints returns what a failed command lacked for want of network or of a toolchain, and the
// flag of croft by which the operator allows it. output is what the command printed.
func Hints(ws *workspace.Workspace, refused []driver.Refusal, output string) []string {
	var out []string
	add := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, r := range refused[:min(len(refused), maxHints)] {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		add("network: %s was refused: %s; the operator can allow %s in the network policy", r.Host, r.Reason, host)
	}
	if ws.Traits().Network != driver.NetworkOpen && len(refused) == 0 {
		for _, m := range unresolved.FindAllStringSubmatch(output, maxHints) {
			if host := strings.Join(m[1:], ""); host != "" {
				add("network: %s can't be reached; the operator can allow it in the network policy", host)
			}
		}
		if len(out) == 0 && unresolved.MatchString(output) {
			add("network: a host can't be reached; the operator can allow it in the network policy")
		}
	}
	if m := goVersion.FindStringSubmatch(output); m != nil {
		add("toolchain: the project needs Go %s, the workspace has %s; go downloads it where the operator allows proxy.golang.org and sum.golang.org and sets GOTOOLCHAIN=auto", m[1], m[2])
	}
	if goOffline.MatchString(output) {
		add("modules are missing; go mod download gets them where the operator allows proxy.golang.org and sum.golang.org")
	}
	if m := rustVersion.FindStringSubmatch(output); m != nil {
		add("toolchain: Rust %s is not installed; rustup downloads it where the operator allows static.rust-lang.org", m[1])
	}
	return out
}

// MissingHint says how a program that is not on PATH gets into a workspace; "" if commands
// see the programs of the host.
func MissingHint(ws *workspace.Workspace, program string) string {
	switch ws.Traits().Isolation {
	case "", driver.IsolationNone:
		return ""
	case driver.IsolationContainer:
		return "; use an image that has it"
	}
	kept := "the toolchains of the user"
	if name := toolchains[path.Base(program)]; name != "" {
		kept = "the toolchain " + name
	}
	return "; a sandbox has the programs below /usr and /opt of the host, and not those of home directories. " +
		"If the user has it there, the operator can show " + kept +
		"; else install it there, or use an image that has it with the provider docker"
}

// toolchains are the names of toolchains, for programs that one toolchain alone has.
var toolchains = map[string]string{
	"go": "go", "gofmt": "go", "gopls": "go",
	"cargo": "rust", "rustc": "rust", "rustfmt": "rust", "rustup": "rust", "rust-analyzer": "rust",
	"uv": "uv", "uvx": "uv",
}
