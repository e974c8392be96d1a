// Command example runs an agent of trpc-agent-go in a sandbox of Croft. Its model
// is scripted, so that it needs no network: it runs a command, reads the answer and
// says what it saw.
//
//	go run ./example
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"trpc.group/trpc-go/trpc-agent-go/agent/llmagent"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"

	"github.com/croft-run/croft/contrib/trpcagent"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// run runs the agent.
func run(ctx context.Context, out io.Writer) (err error) {
	exec, err := trpcagent.NewSandbox()
	if err != nil {
		return err
	}
	defer func() {
		if cerr := exec.Close(ctx); err == nil {
			err = cerr
		}
	}()
	agent := llmagent.New("coder", llmagent.WithModel(&scripted{}), llmagent.WithCodeExecutor(exec))
	events, err := runner.NewRunner("example", agent).Run(ctx, "user", "session", model.NewUserMessage("How many primes are below 100?"))
	if err != nil {
		return err
	}
	for e := range events {
		if e.Response == nil || len(e.Choices) == 0 {
			continue
		}
		m := e.Choices[0].Message
		for _, c := range m.ToolCalls {
			fmt.Fprintf(out, "calls %s\n", c.Function.Name)
		}
		if m.Role == model.RoleAssistant && m.Content != "" && e.Done && !e.IsPartial {
			fmt.Fprintln(out, m.Content)
		}
	}
	return nil
}

// scripted is a model that runs one command and then says what that wrote.
type scripted struct{}

const command = `python3 -c 'print(sum(all(n % d for d in range(2, n)) for n in range(2, 100)))'`

func (*scripted) Info() model.Info { return model.Info{Name: "scripted"} }

func (*scripted) GenerateContent(_ context.Context, req *model.Request) (<-chan *model.Response, error) {
	answer := model.NewAssistantMessage("")
	last := req.Messages[len(req.Messages)-1]
	if last.Role == model.RoleTool {
		var res struct {
			Output string `json:"output"`
		}
		if err := json.Unmarshal([]byte(last.Content), &res); err != nil {
			return nil, err
		}
		answer.Content = "There are " + res.Output
	} else {
		args, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			return nil, err
		}
		answer.ToolCalls = []model.ToolCall{{Type: "function", ID: "1", Function: model.FunctionDefinitionParam{Name: "workspace_exec", Arguments: args}}}
	}
	ch := make(chan *model.Response, 1)
	ch <- &model.Response{Choices: []model.Choice{{Message: answer}}, Done: true}
	close(ch)
	return ch, nil
}
