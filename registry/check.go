package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	maxSpec       = 256 << 10
	maxLabels     = 64
	maxLabelValue = 255
	labelForm     = `[A-Za-z0-9][A-Za-z0-9._/-]{0,62}`
)

var labelKey = lazyregexp.New(`^` + labelForm + `$`)

// checkSpec checks the registry's own part of a spec; the provider checks the rest
// when it opens the workspace.
func (r *Registry) checkSpec(spec workspace.Spec) error {
	if !driver.ValidID(spec.ID) {
		return fmt.Errorf("workspace id %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	if r.opts.HasSecret(spec.Name) || r.opts.HasSecret(spec.Session.ID) || r.opts.HasSecret(spec.Session.User) {
		return fmt.Errorf("workspace: %w: its name or session has the text of a secret, which would be stored and listed", fault.InvalidArgument)
	}
	if spec.Name != "" && !driver.ValidWorkspaceName(spec.Name) {
		return fault.Advise(fmt.Errorf("workspace name %.80q: %w", spec.Name, fault.InvalidArgument),
			"a name is [a-z0-9][a-z0-9-]{0,62}, and not the form of an id")
	}
	if _, err := r.mux.Provider(spec.Kind); err != nil {
		return err
	}
	if spec.From.Template != "" && spec.From.Snapshot != "" {
		return fmt.Errorf("source: %w: a workspace starts from a template or from a snapshot, not from both", fault.InvalidArgument)
	}
	if err := checkPolicy(spec.Policy); err != nil {
		return err
	}
	if err := checkSize("the spec", spec); err != nil {
		return err
	}
	return r.checkLabels(spec.Labels)
}

func checkPolicy(p workspace.Policy) error {
	if p.Idle < 0 {
		return fmt.Errorf("idle %v: %w: must not be negative", p.Idle, fault.InvalidArgument)
	}
	return checkSize("the policy", p)
}

// checkSize bounds what is stored of a workspace: lists read all of it.
func checkSize(what string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", what, fault.InvalidArgument, err)
	}
	if len(data) > maxSpec {
		return fmt.Errorf("%s has %d bytes as JSON: %w: at most %d are allowed; write large values to files", what, len(data), fault.InvalidArgument, maxSpec)
	}
	return nil
}

func (r *Registry) checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("%d labels: %w: at most %d are allowed", len(labels), fault.InvalidArgument, maxLabels)
	}
	for key, value := range labels {
		if r.opts.HasSecret(key) {
			return fmt.Errorf("labels: %w: a key has the text of a secret, which would be stored and listed", fault.InvalidArgument)
		}
		if r.opts.HasSecret(value) {
			return fmt.Errorf("label %s: %w: the value has the text of a secret, which would be stored and listed", key, fault.InvalidArgument)
		}
		if !labelKey.MatchString(key) {
			return fmt.Errorf("label %q: %w: a key is %s", key, fault.InvalidArgument, labelForm)
		}
		if len(value) > maxLabelValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
			return fmt.Errorf("label %s: %w: a value is at most %d bytes of text without control characters", key, fault.InvalidArgument, maxLabelValue)
		}
	}
	return nil
}
