package envd

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A location is a path of a request.
type location struct {
	abs     string // as processes see it, cleaned
	name    string // in the workspace; "" outside
	outside bool   // not below the root of the workspace
}

// home returns the root of the workspace as processes see it.
func (c *sandboxCall) home() string {
	if root := c.Workspace.Traits().Root; root != "" {
		return path.Clean(root)
	}
	return "/home/user" // a workspace without a shell has no paths of its own
}

// locate resolves a path: "" is the working directory of the sandbox, and others are
// relative to the home.
func (c *sandboxCall) locate(p string) (location, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return location{}, fmt.Errorf("path %.200q: %w: a path has no NUL byte", p, fault.InvalidArgument)
	}
	const most = 4096 // PATH_MAX
	if len(p) >= most {
		return location{}, fmt.Errorf("path of %d bytes: %w: at most %d are allowed", len(p), fault.InvalidArgument, most-1)
	}
	home := c.home()
	switch {
	case p == "":
		p = c.Workdir
	case p == "~" || strings.HasPrefix(p, "~/"):
		p = p[1:]
		p = "." + p
	}
	if !path.IsAbs(p) {
		p = path.Join(home, p)
	}
	l := location{abs: path.Clean(p)}
	rest, below := strings.CutPrefix(l.abs, home)
	switch {
	case l.abs == home:
		l.name = "."
	case home == "/":
		l.name = l.abs[1:]
	case below && rest[0] == '/':
		l.name = rest[1:]
	default:
		l.outside = true
	}
	return l, nil
}

// An entry describes a file or directory.
type entry struct {
	driver.Info
	abs          string
	owner, group string
	outside      bool            // the file system of the sandbox has it, not the workspace
	follow       driver.FileType // of a symlink: what it leads to, TypeOther if that is missing
	followMode   fs.FileMode
	metadata     map[string]string
}

// stat describes a path. If it is a symlink and follow is set, stat describes what the
// symlink leads to.
func (c *sandboxCall) stat(ctx context.Context, l location, follow bool) (entry, error) {
	if l.outside {
		return c.statInside(ctx, l.abs, follow)
	}
	info, err := c.Workspace.Stat(ctx, l.name, &workspace.StatOptions{NoFollow: !follow})
	if leavesWorkspace(err) {
		return c.statInside(ctx, l.abs, follow)
	}
	return entry{Info: info, abs: l.abs}, err
}

// leavesWorkspace reports whether a symlink leads out of the workspace, into the file
// system of the sandbox.
func leavesWorkspace(err error) bool { return fault.Of(err) == fault.SandboxViolation }

// entryOf describes a path completely.
func (c *sandboxCall) entryOf(ctx context.Context, l location) (entry, error) {
	e, err := c.stat(ctx, l, false)
	if err != nil {
		return e, err
	}
	list := []entry{e}
	err = c.complete(ctx, list)
	return list[0], err
}

// complete adds owners, targets of symlinks and metadata to entries.
func (c *sandboxCall) complete(ctx context.Context, list []entry) error {
	for i := range list {
		e := &list[i]
		if e.Type == driver.TypeSymlink && e.follow == "" {
			e.follow = driver.TypeOther
			if l, err := c.locate(e.abs); err == nil {
				if to, err := c.stat(ctx, l, true); err == nil {
					e.follow, e.followMode = to.Type, to.Mode
				}
			}
		}
		if e.outside {
			continue
		}
		user, err := c.identity(ctx)
		if err != nil {
			return err
		}
		e.owner, e.group = user.name, user.group
	}
	return c.addMetadata(ctx, list)
}

// list lists a directory to a depth. Paths of the result begin with that of the request,
// also where a symlink leads elsewhere.
func (c *sandboxCall) list(ctx context.Context, l location, depth int) ([]entry, error) {
	dir, err := c.stat(ctx, l, true)
	switch {
	case err != nil:
		return nil, err
	case dir.Type != driver.TypeDir:
		return nil, fmt.Errorf("%s: %w: it is not a directory", l.abs, fault.InvalidArgument)
	case dir.outside:
		return c.listInside(ctx, l.abs, depth)
	}
	name, err := c.resolve(ctx, l)
	if err != nil {
		return nil, err
	}
	var list []entry
	for opts := (&workspace.ListOptions{Depth: depth}); ; {
		page, err := c.Workspace.List(ctx, name, opts)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Entries {
			list = append(list, entry{Info: info, abs: path.Join(l.abs, relative(name, info.Path))})
		}
		if len(list) > maxEntries {
			return nil, tooManyEntries(l.abs)
		}
		if opts.After = page.Next; page.Next == "" {
			break
		}
	}
	return list, c.complete(ctx, list)
}

// maxEntries bounds a listing.
const maxEntries = 200_000

func tooManyEntries(abs string) error {
	return fmt.Errorf("%s: %w: it has more than %d entries; list with a smaller depth", abs, fault.ResourceExhausted, maxEntries)
}

// relative returns a path of the workspace relative to dir, which contains it.
func relative(dir, p string) string {
	if dir == "." {
		return p
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
}

// resolve returns the name in the workspace of a directory without a symlink at its end,
// which listings do not follow.
func (c *sandboxCall) resolve(ctx context.Context, l location) (string, error) {
	const most = 40 // as the kernel allows
	for range most {
		info, err := c.Workspace.Stat(ctx, l.name, &workspace.StatOptions{NoFollow: true})
		if err != nil || info.Type != driver.TypeSymlink {
			return l.name, err
		}
		target := info.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(l.abs), target)
		}
		if l, err = c.locate(target); err != nil {
			return "", err
		}
		if l.outside {
			return "", fmt.Errorf("%s: %w: a symlink leads out of the workspace and back", l.abs, fault.InvalidArgument)
		}
	}
	return "", fmt.Errorf("%s: %w: too many symlinks", l.abs, fault.InvalidArgument)
}

// makeDir creates a directory and its parents.
func (c *sandboxCall) makeDir(ctx context.Context, l location) error {
	e, err := c.stat(ctx, l, true)
	switch {
	case err == nil && e.Type == driver.TypeDir:
		return fmt.Errorf("%s: %w", l.abs, fault.AlreadyExists)
	case err == nil:
		return fmt.Errorf("%s: %w: it exists and is not a directory", l.abs, fault.InvalidArgument)
	case fault.Of(err) != fault.NotFound:
		return err
	}
	if !l.outside {
		if err = c.Workspace.Mkdir(ctx, l.name, &workspace.MkdirOptions{Parents: true}); !leavesWorkspace(err) {
			return notParent(err)
		}
	}
	return c.makeDirInside(ctx, l.abs)
}

// notParent turns the conflict of a parent that is a file into a bad argument.
func notParent(err error) error {
	if fault.Of(err) == fault.WrongState || fault.Of(err) == fault.AlreadyExists {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	return err
}

// move renames a file or directory, and makes the parents of the destination.
func (c *sandboxCall) move(ctx context.Context, from, to location) error {
	if !from.outside && !to.outside {
		err := c.Workspace.Rename(ctx, from.name, to.name, &workspace.RenameOptions{Parents: true})
		if !leavesWorkspace(err) {
			return notParent(err)
		}
	}
	return c.moveInside(ctx, from.abs, to.abs)
}

// remove removes a file, or a directory with its tree. A missing path is no error.
func (c *sandboxCall) remove(ctx context.Context, l location) error {
	if !l.outside {
		err := c.Workspace.Remove(ctx, l.name, &workspace.RemoveOptions{Recursive: true})
		if fault.Of(err) == fault.NotFound {
			return nil
		}
		if !leavesWorkspace(err) {
			return err
		}
	}
	return c.removeInside(ctx, l.abs)
}

// An identity is the user of the sandbox's commands.
type identity struct {
	name, group string
	users       map[string]bool // names in the sandbox's /etc/passwd
}

// identity returns the user of the sandbox's commands. It is found once by a command.
func (c *sandboxCall) identity(ctx context.Context) (*identity, error) {
	c.box.mu.Lock()
	known := c.box.user
	c.box.mu.Unlock()
	if known != nil {
		return known, nil
	}
	const most = 1 << 20 // an image has its own shell and /etc/passwd, and the result is kept
	res, err := c.runInside(ctx, driver.Command{Timeout: insideTime, MaxOutput: most},
		`id -un 2>/dev/null || id -u; id -gn 2>/dev/null || id -g; cat /etc/passwd 2>/dev/null || true`, nil)
	if fault.Of(err) == fault.Unsupported { // a workspace without a shell
		return &identity{name: "user", group: "user"}, nil
	}
	if err != nil {
		return nil, err
	}
	if res.StdoutDropped > 0 {
		return nil, fmt.Errorf("%w: the sandbox's /etc/passwd is larger than %d bytes", fault.ResourceExhausted, most)
	}
	lines := strings.Split(string(res.Stdout), "\n")
	const header = 2
	if len(lines) < header {
		return nil, fmt.Errorf("%w: the sandbox has no program id", fault.Failed)
	}
	known = &identity{name: lines[0], group: lines[1], users: map[string]bool{}}
	for _, line := range lines[header:] {
		name, _, _ := strings.Cut(line, ":")
		known.users[name] = name != ""
	}
	c.box.mu.Lock()
	c.box.user = known
	c.box.mu.Unlock()
	return known, nil
}

// checkUser checks the user of a Connect request, which HTTP Basic names.
func (c *sandboxCall) checkUser(ctx context.Context) error {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return nil
	}
	name, _, _ := (&http.Request{Header: info.RequestHeader()}).BasicAuth()
	return c.checkUserName(ctx, name)
}

// checkUserName refuses a user that the sandbox does not have. Commands and files are those
// of the workload's user, whatever its name.
func (c *sandboxCall) checkUserName(ctx context.Context, name string) error {
	if name == "" || name == "user" || name == "root" {
		return nil
	}
	id, err := c.identity(ctx)
	if err == nil && !id.users[name] {
		err = fmt.Errorf("user %.100q: %w: the sandbox has no such user", name, fault.Unauthenticated)
	}
	return err
}
