package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// manyArguments has an argument of every kind that tools take.
type manyArguments struct {
	Text   string                      `json:"text"`
	Number int                         `json:"number,omitempty"`
	Real   float64                     `json:"real,omitempty"`
	Yes    *bool                       `json:"yes,omitempty"`
	List   []string                    `json:"list,omitempty"`
	Env    map[string]string           `json:"env,omitempty"`
	Edits  []struct{ Old, New string } `json:"edits,omitempty"`
}

// strictly reads arguments with encoding/json alone. Of a key that is there twice the
// last counts, and null is an argument that is left out.
func strictly(args []byte) (manyArguments, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(args, &given); err != nil {
		return manyArguments{}, err
	}
	maps.DeleteFunc(given, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	once, err := json.Marshal(given)
	if err != nil {
		return manyArguments{}, err
	}
	var in struct {
		manyArguments
		Workspace string `json:"workspace"`
	}
	dec := json.NewDecoder(bytes.NewReader(once))
	dec.DisallowUnknownFields()
	err = dec.Decode(&in)
	return in.manyArguments, err
}

// FuzzArguments holds the decoder of arguments to this: what it takes, a strict
// decoder takes as well and with the same values; what it refuses is the caller's
// mistake, and said so.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{"text":"a","number":1,"real":1.5,"yes":true,"list":["a"],"env":{"A":"b"},"edits":[{"Old":"a","New":"b"}]}`,
		`{"text":1}`, `{"text":null}`, `[]`, `null`, ``, `{"text":"a","no":1}`, `{"text":"a","workspace":"w"}`, `{"text":"a","number":1e400}`,
		`{"text":"a","workspace":7}`, `{"text":"a","edits":[{"old":1}]}`, `{"text":"\ud800"}`, `{"TEXT":"a"}`,
		`{"text":"a","real":-0.5e3,"yes":false,"list":[],"env":{}}`, `{"text":"a","edits":[{"OLD":"x","Other":1}]}`, `{"text":"a","env":{"A":"1"},"env":{"B":"2"}}`,
	} {
		f.Add([]byte(s))
	}
	var got manyArguments
	probe := tool.New(tool.Spec{Name: "probe"}, func(_ context.Context, _ *tool.Call, in manyArguments) (tool.Message, error) {
		got = in
		return tool.Message{Message: "ran"}, nil
	})
	ws, err := workspace.NewMux(new(memory.Provider)).Open(f.Context(), workspace.Spec{Kind: "memory", ID: workspace.NewID()}, nil)
	if err != nil {
		f.Fatal(err)
	}
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		f.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: []*tool.Tool{probe}, Workspaces: set})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		got = manyArguments{}
		_, err := env.Run(t.Context(), tool.Request{Tool: "probe", Args: args})
		switch fault.Of(err) {
		case "":
			want, err := strictly(args)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%q: a strict decoder says %v (-strict +tool):\n%s", args, err, diff)
			}
		case fault.InvalidArgument, fault.NotFound: // the latter of a workspace that is not there
		default:
			t.Errorf("%q: %v", args, err)
		}
	})
}
