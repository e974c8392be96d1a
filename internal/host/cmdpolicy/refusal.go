package cmdpolicy

import (
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
)

// The texts of refusals. They are fixed: prompts, tests and log filters rely on
// them. TextDenied, TextNotAllowed, TextVariable and TextMissingVariable are followed by the
// name in quotes.
const (
	TextEmpty           = "Command cannot be empty"
	TextNUL             = "command contains a NUL byte"
	TextControl         = "command contains a control character"
	TextDenied          = "command rejected: command uses denylisted token"
	TextNotAllowed      = "command rejected: program is not on the allowlist"
	TextUnknown         = "command rejected: program is known only at run time"
	TextUnparsed        = "command rejected: script cannot be parsed"
	TextNested          = "command rejected: scripts are nested too deeply"
	TextScript          = "command rejected: scripts are not allowed; pass a program and its arguments"
	TextMetacharacter   = "command rejected: argument contains a shell metacharacter"
	TextGlob            = "command rejected: argument contains a glob"
	TextArgvTooLong     = "command rejected: arguments are too long"
	TextScriptTooLong   = "command rejected: script is too long"
	TextEnvTooLong      = "command rejected: environment is too long"
	TextVariable        = "command rejected: variable is not allowed"
	TextMissingVariable = "command rejected: clean environment lacks a variable that a policy sets"
	TextResolvesOutside = "Sandbox violation: path resolves outside workspace sandbox"
	TextOutside         = "Sandbox violation: path is outside workspace sandbox"
	TextUnresolvable    = "Sandbox violation: cannot resolve path within workspace sandbox"
	TextHome            = "Sandbox violation: command references home path outside workspace sandbox"
)

// A Rule is the rule that refused a command.
type Rule string

// Rules.
const (
	RuleWellFormed Rule = "well-formed" // empty, NUL, control characters, scripts that can't be parsed
	RuleLimits     Rule = "limits"
	RuleCommands   Rule = "commands"
	RuleArgv       Rule = "argv"
	RulePaths      Rule = "paths"
	RuleEnv        Rule = "env"
)

// A Refusal is the reason why a command may not run. Its code is fault.SandboxViolation for
// paths outside and denied programs, fault.PermissionDenied for commands that other options
// could allow, and fault.InvalidArgument for commands that no options allow.
type Refusal struct {
	Rule    Rule
	Code    fault.Code
	Text    string // one of the constants, with the name it is about
	Subject string // the argument, path, program or position that it is about; may be empty
}

// Error returns the text with its subject.
func (r *Refusal) Error() string {
	if r.Subject == "" {
		return "cmdpolicy: " + r.Text
	}
	return fmt.Sprintf("cmdpolicy: %s: %s", quoteSubject(r.Subject), r.Text)
}

// Unwrap returns the code, with a hint.
func (r *Refusal) Unwrap() error {
	if name, ok := strings.CutPrefix(r.Text, TextDenied); ok {
		return fault.WithHint(r.Code, fault.HintDenied, strings.Trim(name, ` "`))
	}
	return r.Code
}

func newRefusal(rule Rule, code fault.Code, text, subject string) *Refusal {
	return &Refusal{Rule: rule, Code: code, Text: text, Subject: subject}
}

func withName(text, name string) string { return fmt.Sprintf("%s %q", text, name) }

// quoteSubject quotes and shortens text of the caller for an error.
func quoteSubject(s string) string {
	const most = 120
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
