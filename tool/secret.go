package tool

import (
	"context"
	"regexp"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

type secretInput struct {
	Name string `json:"name" jsonschema:"name of the secret, in any case"`
}

type secretOutput struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (o secretOutput) Text() string { return o.Value }

func secretTool() *Tool {
	return New(Spec{
		Name: "secret", Family: Secrets, ReadOnly: true, Idempotent: true, Unscrubbed: true,
		Description: "Get a secret that the operator has configured for this workspace. Every call is audited. The value is hidden wherever else it shows up.",
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
	whose := c.Env.asWhom(c.Name, c.Workspace.ID())
	v, err := c.Env.Secrets.Get(ctx, whose, in.Name)
	if fault.Of(err) == fault.NotFound {
		names, nerr := c.Env.Secrets.Names(ctx, whose)
		if nerr != nil {
			return secretOutput{}, nerr
		}
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
		Description: "List the names of the secrets that this workspace may ask for.",
	}, secretsAvailable)
}

func secretsAvailable(ctx context.Context, c *Call, _ struct{}) (secretsOutput, error) {
	if c.Env.Secrets == nil {
		return secretsOutput{}, Errorf(fault.NotFound, "secrets not configured")
	}
	names, err := c.Env.Secrets.Names(ctx, c.Env.asWhom(c.Name, c.Workspace.ID()))
	if names == nil {
		names = []string{}
	}
	return secretsOutput{Names: names}, err
}
