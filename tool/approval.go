package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

// ErrPending is returned by Request.Ask if the answer arrives with a later attempt of the
// same call. The present call fails with it, and no decision is recorded.
var ErrPending = Errorf(fault.Unavailable, "the user is asked for approval")

// A Decision says whether a call runs, is refused, or needs the user's approval.
type Decision string

// Decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // the client asks the user for approval
	Deny  Decision = "deny"
)

// A Rule decides on calls of a tool. In both patterns * matches any text.
type Rule struct {
	Tool     string // pattern of the tool's name
	Subject  string // pattern of the call's path, command, url or name; "" matches any
	Decision Decision
}

// String returns the rule in the syntax of ParseRule.
func (r Rule) String() string {
	if r.Subject == "" {
		return string(r.Decision) + ":" + r.Tool
	}
	return fmt.Sprintf("%s:%s(%s)", r.Decision, r.Tool, r.Subject)
}

// ParseRule parses "ask:Bash(git push*)" or "deny:Write".
func ParseRule(s string) (Rule, error) {
	word, rest, ok := strings.Cut(s, ":")
	r := Rule{Tool: rest, Decision: Decision(word)}
	if name, subject, found := strings.Cut(rest, "("); found && strings.HasSuffix(subject, ")") {
		r.Tool, r.Subject = name, strings.TrimSuffix(subject, ")")
	}
	if !ok || r.Tool == "" || strings.ContainsAny(r.Tool, "() \t") || r.Decision != Allow && r.Decision != Ask && r.Decision != Deny {
		return Rule{}, fmt.Errorf("tool: rule %q: %w: write allow:TOOL, ask:TOOL or deny:TOOL, with a pattern as in ask:Bash(git push*)", s, fault.InvalidArgument)
	}
	return r, nil
}

// Approval decides which calls may run. The first matching rule decides, else Otherwise. A
// nil Approval allows everything.
type Approval struct {
	Rules     []Rule
	Otherwise Decision // "" is Allow
}

// decide returns the decision and the rule it comes from.
func (a *Approval) decide(tool, subject string) (Decision, string) {
	if a == nil {
		return Allow, ""
	}
	for _, r := range a.Rules {
		if matchWildcard(r.Tool, tool) && (r.Subject == "" || matchWildcard(r.Subject, subject)) {
			return r.Decision, r.String()
		}
	}
	if a.Otherwise == "" {
		return Allow, ""
	}
	return a.Otherwise, "otherwise " + string(a.Otherwise)
}

// hasSubjectRule reports whether a rule for the tool has a subject pattern, so that the
// subject of a call must be computed.
func (a *Approval) hasSubjectRule(tool string) bool {
	return slices.ContainsFunc(a.Rules, func(r Rule) bool { return r.Subject != "" && matchWildcard(r.Tool, tool) })
}

// strictestDecision returns the strictest decision over all targets of a call, as written
// and with symlinks resolved, and the target that it is for.
func (a *Approval) strictestDecision(tool string, about []ruleTarget) (Decision, string, ruleTarget) {
	order := map[Decision]int{Allow: 0, Ask: 1, Deny: 2}
	what := about[0]
	d, rule := a.decide(tool, what.text)
	for _, m := range about {
		for _, text := range m.spellings() {
			if od, orule := a.decide(tool, text); order[od] > order[d] {
				d, rule, what = od, orule, m
			}
		}
	}
	return d, rule, what
}

// checkCall returns nil if the call may run. Each decision made by a rule emits an event.
func (a *Approval) checkCall(ctx context.Context, c *Call, req Request, t *Tool, about []ruleTarget) error {
	d, rule, what := a.strictestDecision(t.Name, about)
	if rule == "" {
		return nil
	}
	verdict, reason, err := event.VerdictAllow, "", error(nil)
	switch {
	case d == Deny:
		err = Errorf(fault.PermissionDenied, "%s is not allowed here (rule %s)", t.Name, rule)
	case d == Ask && req.Ask == nil:
		err = Errorf(fault.PermissionDenied, "%s needs the user's approval (rule %s), and this client can't ask for it", t.Name, rule)
	case d == Ask:
		reason = "asked"
		yes, aerr := req.Ask(ctx, fmt.Sprintf("Allow %s in workspace %s? %s", t.Name, c.Name, what))
		if errors.Is(aerr, ErrPending) {
			return aerr
		}
		if aerr != nil {
			err = fmt.Errorf("tool: ask for approval of %s: %w", t.Name, aerr)
		} else if !yes {
			err = Errorf(fault.PermissionDenied, "the user did not allow %s (rule %s)", t.Name, rule)
		}
	}
	if err != nil {
		verdict = event.VerdictDeny
	}
	fields := map[string]any{event.FieldTool: t.Name, event.FieldVerdict: verdict, event.FieldRule: rule, event.FieldCommand: event.Cut(c.scrub.String(what.String()))}
	if reason != "" {
		fields[event.FieldReason] = reason
	}
	c.Env.Events.Emit(event.Event{Kind: event.ToolApproval, Workspace: c.Workspace.ID(), Session: req.Session, Fields: fields})
	return err
}

// relativeToRoot returns a path as rules write it: clean, and relative to root if it is
// below root.
func relativeToRoot(s, root string) string {
	s = path.Clean(s)
	if below, ok := strings.CutPrefix(s, root+"/"); ok && root != "" {
		return below
	}
	return s
}

// matchWildcard matches text against a pattern in which * matches any text.
func matchWildcard(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], next
	}
}
