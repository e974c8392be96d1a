package cmdpolicy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func TestSeatbeltProfiles(t *testing.T) {
	for name, p := range map[string]Profile{
		"seatbelt-zero.sb":    {},
		"seatbelt-local.sb":   {Writable: []string{"/private/ws", "/private/tmp/x"}, Protected: []string{"/private/ws/.git/hooks"}, Hidden: []string{"/Users/me/.ssh", "/Users/me/.aws"}},
		"seatbelt-network.sb": {Writable: []string{"/private/ws"}, Network: true},
		"seatbelt-quotes.sb":  {Writable: []string{`/ws/a "b") (allow default) \`, "/ws/grüße ; x"}},
	} {
		text, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
		if depth := parens(text); depth != 0 {
			t.Errorf("%s has %d parentheses open", name, depth)
		}
	}
	for _, bad := range []string{"", "rel", "/a/../b", "/a\nb", "/a\x00", "/a/", "/a\x1b"} {
		if _, err := (&Profile{Writable: []string{bad}}).Text(); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("path %q: %v, want %s", bad, err, fault.InvalidArgument)
		}
	}
}

// parens counts the parentheses that are open at the end, outside of strings and
// comments.
func parens(text string) int {
	depth, quoted, comment := 0, false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case comment:
			comment = c != '\n'
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ';':
			comment = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
	}
	return depth
}

func TestSeatbeltWrap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile.sb")
	p := &Profile{Writable: []string{"/ws"}}
	if err := p.WriteFile(file); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFile(file); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("writing over a profile: %v, want %s", err, fault.AlreadyExists)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the profile: %v, %v", info, err)
	}
	program, args, err := (&Seatbelt{File: file}).Wrap("/bin/echo", []string{"-n", "x"}, "/ws")
	if diff := cmp.Diff([]string{"/usr/bin/sandbox-exec", "-f", file, "/bin/echo", "-n", "x"}, append([]string{program}, args...)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, s := range []*Seatbelt{{}, {File: "rel"}} {
		if _, _, err := s.Wrap("/bin/echo", nil, "/"); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, _, err := (&Seatbelt{File: file}).Wrap("-p", nil, "/"); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("an option as the program: %v", err)
	}
}
