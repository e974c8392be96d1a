package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/croft-run/croft/fault"
)

// SchemaVersion is the current version of refs. Version 1 had no revision.
const SchemaVersion = 2

// A Ref is all that Resolve needs. It holds the identity and the options of
// construction; never a secret, a live handle, or what can be derived. Programs that
// embed Croft may store refs; network APIs take ids.
type Ref struct {
	Provider      string          `json:"providerId"`
	Payload       json.RawMessage `json:"ref"` // format of the provider, an object
	Capabilities  Capabilities    `json:"capabilities"`
	SchemaVersion int             `json:"schemaVersion,omitempty"` // 0 is missing
	Revision      int64           `json:"revision,omitempty"`      // grows with every change of policy
}

// NewRef returns a ref of the current schema version for the given payload,
// which must marshal to a JSON object.
func NewRef(provider string, payload any, caps Capabilities, revision int64) (Ref, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return Ref{}, fmt.Errorf("%s: encode ref: %w: %w", provider, fault.Internal, err)
	}
	return Ref{Provider: provider, Payload: data, Capabilities: caps, SchemaVersion: SchemaVersion, Revision: revision}, nil
}

// UnmarshalJSON decodes strictly: no unknown, repeated or differently spelled
// key, no trailing data, and a schema version that is positive where present.
func (r *Ref) UnmarshalJSON(data []byte) error {
	type plain Ref // without this method
	var p struct {
		plain
		Version *int `json:"schemaVersion"` // shadows the embedded one, to tell 0 from missing
	}
	if err := DecodeStrict(data, &p); err != nil {
		return fmt.Errorf("workspace ref: %w", err)
	}
	if p.Version != nil {
		if *p.Version < 1 {
			return fmt.Errorf("workspace ref: schema version %d: %w: versions start at 1", *p.Version, fault.InvalidArgument)
		}
		p.SchemaVersion = *p.Version
	}
	if p.Provider == "" {
		return fmt.Errorf("workspace ref: %w: providerId is missing", fault.InvalidArgument)
	}
	if trimmed := bytes.TrimSpace(p.Payload); len(trimmed) == 0 || trimmed[0] != '{' {
		return fmt.Errorf("workspace ref: %w: ref must be an object", fault.InvalidArgument)
	}
	if p.Revision < 0 {
		return fmt.Errorf("workspace ref: %w: revision is negative", fault.InvalidArgument)
	}
	*r = Ref(p.plain)
	return nil
}

// CheckVersion checks the version window: with N the current version it accepts a ref
// whose version is missing, N-1 or N. Any other version is a permanent error that
// names the version and the supported ones. An explicit lower version is logged as a
// migration. A nil logger is silent.
func CheckVersion(ref Ref, current int, log *slog.Logger) error {
	v := ref.SchemaVersion
	if v != 0 && v != current && (v != current-1 || v < 1) {
		return fmt.Errorf("%s: workspace ref has schema version %d: %w: supported are %d, %d and missing",
			ref.Provider, v, fault.Failed, current-1, current)
	}
	if v != 0 && v < current && log != nil {
		log.Info(fmt.Sprintf("workspace ref: migrating ref from v%d to v%d", v, current), "provider", ref.Provider)
	}
	return nil
}

// DecodeRef is the first step of Resolve: it refuses a ref of another provider and a
// version outside the window of SchemaVersion, and decodes the payload strictly into
// payload. Every failure is permanent. No error repeats the content of the ref,
// because the ref comes from storage that other programs may write.
func DecodeRef(ref Ref, provider string, payload any, log *slog.Logger) error {
	if ref.Provider != provider {
		return fmt.Errorf("%s: the ref belongs to another provider: %w", provider, fault.Failed)
	}
	if err := CheckVersion(ref, SchemaVersion, log); err != nil {
		return err
	}
	if err := DecodeStrict(ref.Payload, payload); err != nil {
		return fmt.Errorf("%s: the payload of the ref is not valid: %w", provider, fault.Failed)
	}
	return nil
}

// A RefID is the payload of a ref that names nothing but the workspace.
type RefID struct {
	ID string `json:"id"`
}

// DecodeRefID is DecodeRef for a RefID, which it checks.
func DecodeRefID(ref Ref, provider string, log *slog.Logger) (id string, err error) {
	var payload RefID
	if err := DecodeRef(ref, provider, &payload, log); err != nil {
		return "", err
	}
	if !ValidID(payload.ID) {
		return "", fmt.Errorf("%s: the payload of the ref is not valid: %w", provider, fault.Failed)
	}
	return payload.ID, nil
}

// CheckCapabilities refuses a ref that lists no capability, or one that is not in has, the
// capabilities that the provider can build now.
func CheckCapabilities(ref Ref, has Capabilities) error {
	known := NewCapabilities(CapFS, CapShell, CapCode, CapScript, CapSnapshot)
	switch missing := has.Missing(ref.Capabilities); {
	case len(ref.Capabilities.Names()) == 0 || len(known.Missing(NewCapabilities(missing...))) > 0:
		return fmt.Errorf("%s: the capabilities of the ref are not valid: %w", ref.Provider, fault.Failed)
	case len(missing) > 0:
		return fmt.Errorf("%s: the workspace was opened with the capabilities %v: %w: this provider has %v now", ref.Provider, missing, fault.Failed, has.Names())
	}
	return nil
}

// CheckOpen refuses a spec that is not of the given kind, that has no valid id, or that wants more than
// the capabilities has.
func CheckOpen(spec Spec, kind string, has Capabilities) error {
	if spec.Kind != kind {
		return fmt.Errorf("%s: open: kind %q: %w: this provider is %q", kind, spec.Kind, fault.InvalidArgument, kind)
	}
	if !ValidID(spec.ID) {
		return fmt.Errorf("%s: open: id %q: %w: an id is %d of [a-z0-9]", kind, spec.ID, fault.InvalidArgument, IDLength)
	}
	if missing := has.Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("%s: open: capabilities %v: %w: there are only %v", kind, missing, fault.Failed, has.Names())
	}
	return nil
}

// CheckRevision refuses a ref that a newer revision has replaced, so that a revoked
// permission can't return with an old ref. It also refuses a ref that is newer than
// the workspace: then the workspace has lost a change of its policy.
func CheckRevision(ref Ref, newest int64) error {
	if ref.Revision < newest {
		return fault.WithCause(fmt.Errorf("%s: the ref has revision %d, but %d has replaced it: %w",
			ref.Provider, ref.Revision, newest, fault.Failed), fault.CauseStale)
	}
	if ref.Revision > newest {
		return fmt.Errorf("%s: the ref is newer than the workspace, which has lost a change of policy: %w", ref.Provider, fault.Failed)
	}
	return nil
}

// DecodeConfig decodes Spec.Config strictly into config, which holds the
// defaults. Unlike a ref, a config is the caller's own, so the error says what
// is wrong and what is allowed.
func DecodeConfig(spec Spec, config any) error {
	if len(bytes.TrimSpace(spec.Config)) == 0 {
		return nil
	}
	if err := DecodeStrict(spec.Config, config); err != nil {
		return fmt.Errorf("%s: config: %w", spec.Kind, err)
	}
	return nil
}
