package event

import (
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// Names of fields of lifecycle events.
const (
	FieldWorkspace = "workspace" // in the fields too, because that is where readers of these kinds look for it
	FieldSession   = "session"

	// Of a project that was recognised.
	FieldEcosystem      = "ecosystem"
	FieldPackageManager = "package_manager"
	FieldInstallCommand = "install_command"
	FieldLintCommand    = "lint_command"
	FieldFormatCommand  = "format_command"
	FieldTestCommand    = "test_command"

	// Of a fence that was put up.
	FieldSandboxRoot = "sandbox_root"
)

// MaxText is the most bytes of a path, command or message in an event made by
// the constructors of this package.
const MaxText = 240

// Profile is what was recognised about a project. An empty command is one that
// the project does not have; it is null in the event.
type Profile struct {
	Ecosystem      string
	PackageManager string
	Install        string
	Lint           string
	Format         string
	Test           string
}

// NewWorkspaceProfile tells that a project was recognised in a workspace. All
// fields of the kind are there, null where the profile has nothing.
func NewWorkspaceProfile(workspace, session string, p Profile) Event {
	return Event{Kind: WorkspaceProfile, Workspace: workspace, Session: session, Fields: map[string]any{
		FieldEcosystem:      orNull(p.Ecosystem),
		FieldPackageManager: orNull(p.PackageManager),
		FieldInstallCommand: orNull(p.Install),
		FieldLintCommand:    orNull(p.Lint),
		FieldFormatCommand:  orNull(p.Format),
		FieldTestCommand:    orNull(p.Test),
	}}
}

// NewWorkspaceSandbox tells that the fence of a workspace was put up around
// root, its directory as the workspace itself sees it.
func NewWorkspaceSandbox(workspace, session, root string) Event {
	return Event{Kind: WorkspaceSandbox, Workspace: workspace, Session: session, Fields: map[string]any{
		FieldWorkspace:   workspace,
		FieldSandboxRoot: root,
	}}
}

// A Violation is an attempt to leave the fence. Path and Command say with what;
// either may be empty.
type Violation struct {
	Tool    string // the operation or tool that was asked for
	Path    string
	Command string
	Err     error // the refusal; code, kind and message are taken from it
}

// NewSandboxViolation tells of an attempt to leave the fence of a workspace.
// Texts beyond MaxText bytes are cut.
func NewSandboxViolation(workspace, session string, v Violation) Event {
	wire := fault.Encode(v.Err)
	fields := map[string]any{
		FieldWorkspace: workspace,
		FieldCode:      wire.Code,
		FieldKind:      wire.Kind,
		FieldMessage:   Cut(wire.Message),
	}
	for name, text := range map[string]string{
		FieldSession: session, FieldTool: v.Tool, FieldPath: v.Path, FieldCommand: v.Command,
	} {
		if text != "" {
			fields[name] = Cut(text)
		}
	}
	return Event{Kind: SandboxViolation, Workspace: workspace, Session: session, Fields: fields}
}

// Cut returns s as valid UTF-8 of at most MaxText bytes, with "..." at the end
// of a text that was longer.
func Cut(s string) string {
	const dots = "..."
	if len(s) > MaxText {
		end := MaxText - len(dots)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + dots
	}
	if s = strings.ToValidUTF8(s, "?"); len(s) > MaxText {
		return s[:MaxText]
	}
	return s
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
