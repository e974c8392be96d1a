package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// forecast brings a tool with arguments of all kinds.
type forecast struct{}

func (forecast) Tools() []driver.Tool {
	return []driver.Tool{{
		Name: "forecast", Description: "The weather to come.", ReadOnly: true,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"days":{"type":"integer","minimum":1,"maximum":14}, "from":{"type":"integer","minimum":0}, "wind":{"type":"number","maximum":120.5},
			"unit":{"enum":["c","f"]}, "cities":{"type":"array","items":{"type":"string","maxLength":10}}, "exact":{"type":"boolean"}}}`),
		Call: func(_ context.Context, args json.RawMessage) (driver.ToolResult, error) {
			return driver.ToolResult{Text: string(args)}, nil
		},
	}}
}

// TestArgumentsOfOthersAreNamed: what is wrong in a call of a tool that a workspace
// brings is said as it is of our own.
func TestArgumentsOfOthersAreNamed(t *testing.T) {
	source := func(*workspace.Workspace) driver.ToolSource { return forecast{} }
	env := newEnv(t, tool.Config{Workspaces: newSet(t, "w"), Sources: []tool.Source{source}})
	for args, want := range map[string]string{
		`{"days":-1}`:                "days must be between 1 and 14",
		`{"days":15}`:                "days must be between 1 and 14",
		`{"days":1.5}`:               "days must be an integer, not the number 1.5",
		`{"days":"2"}`:               "days must be an integer, not a string",
		`{"from":-3}`:                "from must be at least 0",
		`{"wind":121}`:               "wind must be at most 120.5",
		`{"unit":"k"}`:               "unit must be one of c, f",
		`{"cities":"Oslo"}`:          "cities must be an array of strings, not a string",
		`{"cities":["Oslo",7]}`:      "cities[1] must be a string, not the number 7",
		`{"exact":1}`:                "exact must be a boolean, not the number 1",
		`{"day":1}`:                  `unknown argument "day"; known: cities, days, exact, from, unit, wind, workspace`,
		`{"days":1e999}`:             "forecast: json: cannot unmarshal number 1e999 into Go value of type float64",
		`{"cities":["Helsingfors"]}`: "",
	} {
		_, err := env.Run(t.Context(), tool.Request{Tool: "forecast", Args: json.RawMessage(args)})
		if fault.Of(err) != fault.InvalidArgument || want != "" && tool.ErrorText(err) != want {
			t.Errorf("%s is refused with %v, want %q", args, err, want)
		}
	}
	if got, want := ok(t, env, "forecast", `{"days":1e1,"cities":["Oslo"],"unit":"c","wind":1.5,"exact":true}`),
		`{"cities":["Oslo"],"days":10,"exact":true,"unit":"c","wind":1.5}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
