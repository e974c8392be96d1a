package eval

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/judge"
)

// newJudge returns the function that asks a model for the assertions of a session, nil if
// no judge is configured. A nil client is the default client.
func (r *sessionRunner) newJudge(env *assertEnv, client *http.Client) JudgeFunc {
	cfg := r.plan.config.Croft.Judge
	if cfg == nil {
		return nil
	}
	return func(ctx context.Context, q suite.Judge) (suite.Judgement, error) {
		c := judge.Config{Style: judge.Style(cfg.API), BaseURL: cfg.URL, Model: cfg.Model, Client: client}
		if q.Model != "" {
			c.Model = q.Model
		}
		if cfg.KeyEnv != "" {
			if c.Key = os.Getenv(cfg.KeyEnv); c.Key == "" && r.plan.Replay == "" {
				return suite.Judgement{}, fmt.Errorf("eval: judge: %w: croft.judge names the variable %s, which is not set", fault.Unauthenticated, cfg.KeyEnv)
			}
		}
		j, err := judge.New(c)
		if err != nil {
			return suite.Judgement{}, err
		}
		subjects, err := env.judgeSubjects(ctx, q)
		if err != nil {
			return suite.Judgement{}, err
		}
		v, err := j.Ask(ctx, judge.Question{Criterion: q.Rubric, Subjects: subjects})
		if err != nil {
			return suite.Judgement{}, err
		}
		return suite.Judgement{Rubric: q.Rubric, Score: v.Score, Pass: v.Pass, Reason: v.Reason, Model: c.Model}, nil
	}
}

// judgeSubjects lists the texts that a judge is given.
func (e *assertEnv) judgeSubjects(ctx context.Context, q suite.Judge) ([]judge.Subject, error) {
	list := []judge.Subject{{Name: "the agent's task", Text: e.report.Prompt}}
	if q.Subject != "" {
		list = append(list, judge.Subject{Name: "what is judged", Text: q.Subject})
	} else {
		list = append(list, judge.Subject{Name: "the agent's final output", Text: e.report.FinalOutput})
	}
	for _, name := range q.Files {
		data, err := e.ReadFile(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, judge.Subject{Name: "the file " + name, Text: string(data)})
	}
	if q.Diff {
		text, err := e.Diff(ctx, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, judge.Subject{Name: "what the agent changed", Text: text})
	}
	return list, nil
}
