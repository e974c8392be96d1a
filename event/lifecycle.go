package event

import (
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// Names of fields of lifecycle events.
const (
	FieldWorkspace = "workspace" // duplicated here for readers of these kinds
	FieldSession   = "session"

	// Fields of WorkspaceProfile.
	FieldEcosystem      = "ecosystem"
	FieldPackageManager = "package_manager"
	FieldInstallCommand = "install_command"
	FieldLintCommand    = "lint_command"
	FieldFormatCommand  = "format_command"
	FieldTestCommand    = "test_command"

	// Fields of WorkspaceSandbox.
	FieldSandboxRoot = "sandbox_root"
)

// MaxText bounds a path, command or message in a SandboxViolation, in bytes.
const MaxText = 240

// Profile is a detected project. An empty command is null in the event.
type Profile struct {
	Ecosystem      string
	PackageManager string
	Install        string
	Lint           string
	Format         string
	Test           string
}

// NewWorkspaceProfile returns the event of a detected project. All fields of the kind are
// present, null if empty.
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

// NewWorkspaceSandbox returns the event of a sandbox that was set up. root is the
// workspace's directory as its processes see it.
func NewWorkspaceSandbox(workspace, session, root string) Event {
	return Event{Kind: WorkspaceSandbox, Workspace: workspace, Session: session, Fields: map[string]any{
		FieldWorkspace:   workspace,
		FieldSandboxRoot: root,
	}}
}

// A Violation is an attempt to leave the sandbox, by Path or Command; either may be empty.
type Violation struct {
	Tool    string // the operation or tool that was asked for
	Path    string
	Command string
	Err     error // source of code, kind and message
}

// NewSandboxViolation returns the event of an attempt to leave the sandbox. A stream
// truncates its texts to MaxText bytes.
func NewSandboxViolation(workspace, session string, v Violation) Event {
	wire := fault.Encode(v.Err)
	fields := map[string]any{
		FieldWorkspace: workspace,
		FieldCode:      wire.Code,
		FieldKind:      wire.Kind,
		FieldMessage:   wire.Message,
	}
	for name, text := range map[string]string{
		FieldSession: session, FieldTool: v.Tool, FieldPath: v.Path, FieldCommand: v.Command,
	} {
		if text != "" {
			fields[name] = text
		}
	}
	return Event{Kind: SandboxViolation, Workspace: workspace, Session: session, Fields: fields}
}

// Cut returns s as valid UTF-8 of at most MaxText bytes, with "..." at the end of a
// truncated text.
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
