package envd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Files of the sandbox outside the workspace are reached by commands inside the sandbox.

const (
	insideTime   = 30 * time.Second // bounds a command that moves no content
	insideOutput = 48 << 20
)

// inside runs a script of sh with arguments and returns its output.
func (c *sandboxCall) inside(ctx context.Context, script string, args ...string) ([]byte, error) {
	res, err := c.runInside(ctx, driver.Command{Timeout: insideTime, MaxOutput: insideOutput}, script, args)
	if err == nil && res.StdoutDropped > 0 {
		err = fmt.Errorf("%w: the answer is too large", fault.ResourceExhausted)
	}
	return res.Stdout, err
}

func (c *sandboxCall) runInside(ctx context.Context, cmd driver.Command, script string, args []string) (driver.Result, error) {
	cmd.Argv = append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	cmd.Env = map[string]string{"LC_ALL": "C"}
	res, err := c.Workspace.Run(ctx, cmd)
	if err == nil && !res.Succeeded() {
		err = insideError(res)
	}
	return res, err
}

// insideErrors are texts of strerror in the C locale, with what to do.
var insideErrors = []struct {
	text   string
	code   fault.Code
	advice string
}{
	{"No such file or directory", fault.NotFound, ""},
	{"Permission denied", fault.PermissionDenied, ""},
	{"Operation not permitted", fault.PermissionDenied, ""},
	{"Read-only file system", fault.PermissionDenied, "; write below the home directory or /tmp"},
	{"No space left on device", fault.ResourceExhausted, noSpaceAdvice},
	{"Disk quota exceeded", fault.ResourceExhausted, noSpaceAdvice},
}

// noSpaceAdvice says what to do about a full disk.
const noSpaceAdvice = "; remove files of the sandbox, or ask the operator for a higher limit of disk or more space"

// adviseSpace adds noSpaceAdvice to an error of a full disk.
func adviseSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w%s", err, noSpaceAdvice)
	}
	return err
}

// insideError returns why a command inside failed.
func insideError(res driver.Result) error {
	text := strings.TrimSpace(string(res.Stderr))
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	switch res.Cause {
	case driver.CauseTimeout:
		return fmt.Errorf("%w: a command inside the sandbox took too long", fault.DeadlineExceeded)
	case driver.CauseLost, driver.CauseDestroyed, driver.CauseOOM, driver.CausePIDs:
		return fmt.Errorf("%w: a command inside the sandbox was ended (%s)", fault.Unavailable, res.Cause)
	case driver.CauseDisk:
		return fmt.Errorf("%w: %s%s", fault.ResourceExhausted, text, noSpaceAdvice)
	}
	for _, e := range insideErrors {
		if strings.Contains(text, e.text) {
			return fmt.Errorf("%w: %s%s", e.code, text, e.advice)
		}
	}
	if text == "" {
		text = fmt.Sprintf("a command inside the sandbox ended with status %d", res.ExitCode)
	}
	return fmt.Errorf("%w: %s", fault.InvalidArgument, text)
}

// findFormat is the format of find for parseEntries.
const findFormat = `%y\0%Y\0%s\0%m\0%u\0%g\0%T@\0%l\0%P\0`

const findFields = 9

func (c *sandboxCall) statInside(ctx context.Context, abs string, follow bool) (entry, error) {
	flag := "-P"
	if follow {
		flag = "-L"
	}
	// find -L describes a broken symlink itself.
	out, err := c.inside(ctx, `[ -e "$2" ] || [ "$1" = -P ] || { echo "$2: No such file or directory" >&2; exit 1; }
exec find "$1" "$2" -maxdepth 0 -printf '`+findFormat+`'`, flag, abs)
	if err != nil {
		return entry{}, err
	}
	list, err := parseEntries(abs, out)
	if err != nil || len(list) != 1 {
		return entry{}, errors.Join(fmt.Errorf("%s: %w: find gave an unexpected answer", abs, fault.Failed), err)
	}
	return list[0], nil
}

func (c *sandboxCall) listInside(ctx context.Context, abs string, depth int) ([]entry, error) {
	// The slash follows a symlink.
	out, err := c.inside(ctx, `find "$1/" -mindepth 1 -maxdepth "$2" -printf '`+findFormat+`' 2>/dev/null || true`, abs, strconv.Itoa(depth))
	if err != nil {
		return nil, err
	}
	list, err := parseEntries(abs, out)
	if len(list) > maxEntries {
		err = tooManyEntries(abs)
	}
	return list, err
}

// parseEntries parses the output of find. Programs inside may forge it: it is data.
func parseEntries(abs string, out []byte) ([]entry, error) {
	fields := bytes.Split(out, []byte{0})
	if len(fields)%findFields != 1 {
		return nil, fmt.Errorf("%w: find gave an unexpected answer", fault.Failed)
	}
	var list []entry
	for f := fields; len(f) >= findFields; f = f[findFields:] {
		text := func(i int) string { return string(f[i]) }
		size, err := strconv.ParseInt(text(2), 10, 64)
		mode, err2 := strconv.ParseUint(text(3), 8, 32)
		seconds, err3 := strconv.ParseFloat(text(6), 64)
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, fmt.Errorf("%w: find gave an unexpected answer: %w", fault.Failed, err)
		}
		e := entry{
			Info:  driver.Info{Type: findType(text(0)), Size: size, Mode: fs.FileMode(mode) & fs.ModePerm, Target: text(7)},
			abs:   path.Join(abs, text(8)),
			owner: text(4), group: text(5), outside: true,
		}
		e.ModTime = time.Unix(0, int64(seconds*1e9))
		if e.Type == driver.TypeSymlink {
			e.follow, e.followMode = findType(text(1)), e.Mode
		}
		list = append(list, e)
	}
	return list, nil
}

func findType(letter string) driver.FileType {
	switch letter {
	case "f":
		return driver.TypeFile
	case "d":
		return driver.TypeDir
	case "l":
		return driver.TypeSymlink
	}
	return driver.TypeOther
}

func (c *sandboxCall) makeDirInside(ctx context.Context, abs string) error {
	_, err := c.inside(ctx, `mkdir -p -- "$1"`, abs)
	return err
}

func (c *sandboxCall) moveInside(ctx context.Context, from, to string) error {
	_, err := c.inside(ctx, `mkdir -p -- "$2" && mv -T -- "$1" "$3"`, from, path.Dir(to), to)
	return err
}

func (c *sandboxCall) removeInside(ctx context.Context, abs string) error {
	_, err := c.inside(ctx, `rm -rf -- "$1"`, abs)
	return err
}

// readInside writes the content of a file to w.
func (c *sandboxCall) readInside(ctx context.Context, abs string, w io.Writer) error {
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := driver.Command{OnStdout: func(data []byte) error {
		if _, err := w.Write(data); err != nil {
			failed = err
			cancel()
		}
		return nil
	}}
	_, err := c.runInside(ctx, cmd, `exec cat -- "$1"`, []string{abs})
	if failed != nil {
		return failed
	}
	return err
}

// writeInside creates or replaces a file with the content of body.
func (c *sandboxCall) writeInside(ctx context.Context, abs string, body io.Reader) error {
	_, err := c.runInside(ctx, driver.Command{Stdin: body}, `[ ! -d "$2" ] || { echo "$2: Is a directory" >&2; exit 1; }
mkdir -p -- "$1" || exit 1
t=$(mktemp "$1/.upload-XXXXXX" 2>&1) || { echo "$2: ${t##*: }" >&2; exit 1; }
trap 'rm -f -- "$t"' EXIT
cat > "$t" && chmod 644 "$t" && mv -T -- "$t" "$2"`, []string{path.Dir(abs), abs})
	return err
}
