package files

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TempPrefix starts the names of temporary files, and StagePrefix those of directories in
// which other packages stage a change; an id follows. Names with an element of these exact
// forms are refused, and such entries are not listed (see IsTemp).
const (
	TempPrefix  = ".croft-tmp-"
	StagePrefix = TempPrefix + "stage-"
)

// tempDigits is the number of base 36 digits in the name of a temporary file.
const tempDigits = 13

func tempName() string {
	digits := strconv.FormatUint(rand.Uint64(), 36)
	return TempPrefix + strings.Repeat("0", tempDigits-len(digits)) + digits
}

// IsTemp reports whether an element of a name has the exact form of a temporary name. A
// name that only begins with TempPrefix is an ordinary name.
func IsTemp(elem string) bool {
	rest, ok := strings.CutPrefix(elem, TempPrefix)
	if !ok {
		return false
	}
	if id, ok := strings.CutPrefix(elem, StagePrefix); ok {
		return driver.ValidID(id)
	}
	if len(rest) != tempDigits {
		return false
	}
	for _, c := range []byte(rest) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return rest[0] <= '3' // the largest uint64 in base 36 begins with 3
}

const (
	maxElem = 255  // bytes of an element, as Linux and macOS have it
	maxName = 4095 // bytes of a name, PATH_MAX without the NUL
)

// A cleanName is "." or a path without empty, "." and ".." elements.
type cleanName struct {
	name      string
	mustBeDir bool // the name had a trailing slash
}

// splitName returns the directory and the last element of a clean name.
func splitName(name string) (dir, base string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return ".", name
}

// joinName is the inverse of splitName.
func joinName(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}

// parseName checks and cleans a name. It accesses no file.
func parseName(name string) (cleanName, error) {
	switch {
	case name == "":
		return cleanName{}, fmt.Errorf("%w: the name is empty; \".\" is the root", fault.InvalidArgument)
	case len(name) > maxName:
		return cleanName{}, fmt.Errorf("%w: the name has %d bytes; at most %d are allowed", fault.InvalidArgument, len(name), maxName)
	case strings.IndexByte(name, 0) >= 0:
		return cleanName{}, fmt.Errorf("%w: the name has a NUL byte", fault.InvalidArgument)
	case name[0] == '/':
		return cleanName{}, fmt.Errorf("%w: the name is absolute; names are relative to the root", fault.SandboxViolation)
	}
	t := cleanName{name: name, mustBeDir: strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") || strings.HasSuffix(name, "/..")}
	if !isClean(name) {
		t.name = path.Clean(name)
	}
	if t.name == ".." || strings.HasPrefix(t.name, "../") {
		return cleanName{}, fmt.Errorf("%w: the name climbs out of the root", fault.SandboxViolation)
	}
	return t, checkElems(t.name)
}

// isClean reports whether path.Clean would change nothing. It may return false for a clean
// name.
func isClean(name string) bool {
	return name == "." || name[0] != '.' && !strings.Contains(name, "/.") && !strings.Contains(name, "//") && name[len(name)-1] != '/'
}

func checkElems(name string) error {
	for rest := name; rest != ""; {
		elem := rest
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			elem, rest = rest[:i], rest[i+1:]
		} else {
			rest = ""
		}
		if len(elem) > maxElem {
			return fmt.Errorf("%w: an element of the name has %d bytes; at most %d are allowed", fault.InvalidArgument, len(elem), maxElem)
		}
		if IsTemp(elem) {
			return fmt.Errorf("%w: %s is reserved, as the name of a temporary file", fault.InvalidArgument, elem)
		}
	}
	return nil
}

// quoteName quotes and shortens a name for an error.
func quoteName(name string) string {
	const most = 120
	if len(name) > most {
		name = name[:most] + "..."
	}
	return fmt.Sprintf("%q", name)
}
