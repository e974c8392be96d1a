// Command agent-loop is the loop of a coding agent whose tools work in a sandbox: the model
// asks for tools, the program runs them, until the model answers.
//
//	go run .
//
// The model here is a script, so that the program runs without a key. For a real one,
// implement Model with the API of your provider: send the messages and the tools, and
// return the tool calls of the answer.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// A Message is one entry of the conversation.
type Message struct {
	Role string // user, assistant or tool
	Text string
}

// A ToolCall is what a model asks for.
type ToolCall struct {
	Name string
	Args json.RawMessage
}

// A Model continues a conversation: with tool calls, or with a final text.
type Model interface {
	Next(ctx context.Context, conversation []Message, tools []*tool.Tool) (calls []ToolCall, text string, err error)
}

const maxSteps = 20

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	root, err := os.MkdirTemp("", "agent-loop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	provider, err := sandbox.New(&sandbox.Config{Root: root})
	if err != nil {
		return err
	}
	ws, err := workspace.NewMux(provider).Open(ctx, workspace.Spec{Kind: "sandbox", ID: workspace.NewID()}, nil)
	if err != nil {
		return err
	}
	defer ws.Destroy(ctx)

	set := new(tool.Set)
	if err := set.Add("main", ws); err != nil {
		return err
	}
	env, err := tool.NewEnv(tool.Config{Tools: tool.Coding(), Workspaces: set})
	if err != nil {
		return err
	}
	defer env.Close(ctx)

	answer, err := solve(ctx, env, new(scriptedModel), "Write fizzbuzz up to 5 in Python, and run it.")
	if err != nil {
		return err
	}
	fmt.Println("answer:", answer)
	return nil
}

// solve runs the loop. An error of a tool is for the model, which may try something else.
func solve(ctx context.Context, env *tool.Env, model Model, task string) (string, error) {
	tools, err := env.Available(ctx, "")
	if err != nil {
		return "", err
	}
	conversation := []Message{{"user", task}}
	for range maxSteps {
		calls, text, err := model.Next(ctx, conversation, tools)
		if err != nil {
			return "", err
		}
		if len(calls) == 0 {
			return text, nil
		}
		for _, call := range calls {
			fmt.Printf("tool: %s %s\n", call.Name, call.Args)
			result, err := env.Run(ctx, tool.Request{Tool: call.Name, Args: call.Args})
			text := result.Text
			if err != nil {
				text = "error: " + err.Error()
			}
			conversation = append(conversation, Message{"tool", text})
		}
	}
	return "", fmt.Errorf("no answer after %d steps", maxSteps)
}

// A scriptedModel writes a file, runs it, and answers with what it printed.
type scriptedModel struct{ step int }

func (m *scriptedModel) Next(_ context.Context, conversation []Message, _ []*tool.Tool) ([]ToolCall, string, error) {
	m.step++
	switch m.step {
	case 1:
		return []ToolCall{{"Write", json.RawMessage(`{"file_path": "fizz.py", "content": "for i in range(1, 6):\n    print('fizz' * (i % 3 == 0) + 'buzz' * (i % 5 == 0) or i)\n"}`)}}, "", nil
	case 2:
		return []ToolCall{{"Bash", json.RawMessage(`{"command": "python3 fizz.py", "description": "run it"}`)}}, "", nil
	default:
		return nil, conversation[len(conversation)-1].Text, nil
	}
}
