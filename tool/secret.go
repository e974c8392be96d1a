package tool

import (
	"context"
	"slices"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

var secretName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

type secretInput struct {
	Name string `json:"name" jsonschema:"name of the secret, in any case" croft:"name"`
}

type secretOutput struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (o secretOutput) Text() string { return o.Value }

func secretTool() *Tool {
	return New(Spec{
		Name: "secret", Family: Secrets, ReadOnly: true, Idempotent: true, Unscrubbed: true,
		Description: "Get a secret that the operator configured for this workspace. Every call is audited. The value is redacted in all other answers.",
	}, getSecret)
}

func getSecret(ctx context.Context, c *Call, in secretInput) (secretOutput, error) {
	switch {
	case in.Name == "":
		return secretOutput{}, Errorf(fault.InvalidArgument, "name is required")
	case c.Env.Secrets == nil:
		return secretOutput{}, Errorf(fault.NotFound, "secrets not configured")
	case !secretName.MatchString(in.Name):
		return secretOutput{}, Errorf(fault.InvalidArgument, "invalid secret name: %s", in.Name)
	}
	names, held, err := c.secretNames(ctx)
	if err != nil {
		return secretOutput{}, err
	}
	if containsFold(held, in.Name) {
		return secretOutput{}, Errorf(fault.PermissionDenied, "secret %s is withheld: Croft itself adds it to requests to the hosts it is for (available: %s)",
			strings.ToLower(in.Name), strings.Join(names, ", "))
	}
	v, err := c.Env.Secrets.Get(ctx, c.Env.secretScope(c.Name, c.Workspace.ID()), in.Name)
	if fault.Of(err) == fault.NotFound {
		return secretOutput{}, Errorf(fault.NotFound, "unknown secret: %s (available: %s)", strings.ToLower(in.Name), strings.Join(names, ", "))
	}
	if err != nil {
		return secretOutput{}, err
	}
	c.Env.Events.Emit(event.Event{Kind: event.SecretRead, Workspace: c.Workspace.ID(), Session: c.Session, Fields: map[string]any{
		event.FieldTool: c.Tool, event.FieldCredential: v.Name(), event.FieldReason: v.Source(), event.FieldBytesIn: v.Len(),
	}})
	return secretOutput{Name: strings.ToLower(v.Name()), Value: v.Reveal()}, nil
}

type secretsOutput struct {
	Names []string `json:"names"`
}

func (o secretsOutput) Text() string { return strings.Join(o.Names, "\n") }

func secretsAvailableTool() *Tool {
	return New(Spec{
		Name: "secrets_available", Family: Secrets, ReadOnly: true, Idempotent: true,
		Description: "List the names of the secrets that this workspace may read.",
	}, secretsAvailable)
}

func secretsAvailable(ctx context.Context, c *Call, _ struct{}) (secretsOutput, error) {
	if c.Env.Secrets == nil {
		return secretsOutput{}, Errorf(fault.NotFound, "secrets not configured")
	}
	names, _, err := c.secretNames(ctx)
	return secretsOutput{Names: names}, err
}

// secretNames returns the secrets that the workspace may read, and those withheld from it.
func (c *Call) secretNames(ctx context.Context) (names, held []string, err error) {
	if c.Env.Withheld != nil {
		if held, err = c.Env.Withheld(ctx, c.Workspace.ID()); err != nil {
			return []string{}, nil, err
		}
	}
	all, err := c.Env.Secrets.Names(ctx, c.Env.secretScope(c.Name, c.Workspace.ID()))
	names = slices.DeleteFunc(append([]string{}, all...), func(name string) bool { return containsFold(held, name) })
	return names, held, err
}

func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}
