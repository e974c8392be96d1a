package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
)

// explainTime bounds the answer to one question.
const explainTime = 300 * time.Second

// An Explanation is a question about a failure, and the agent's answer.
type Explanation struct {
	Question     string               `json:"question"`
	Source       suite.Location       `json:"source"`
	Answer       string               `json:"answer"`
	SessionID    string               `json:"sessionId,omitempty"`
	StartedAt    string               `json:"startedAt"`
	EndedAt      string               `json:"endedAt"`
	DurationMs   float64              `json:"durationMs"`
	RawArtifacts session.RawArtifacts `json:"rawArtifacts"`
	Error        string               `json:"error,omitempty"` // Croft's: why there is no answer
}

// Explained is explanations.json.
type Explained struct {
	SuitePath string        `json:"suitePath"`
	CaseID    string        `json:"caseId"`
	RunnerID  string        `json:"runnerId"`
	Cwd       string        `json:"cwd"`
	SessionID string        `json:"sessionId"`
	CreatedAt string        `json:"createdAt"`
	Questions []Explanation `json:"questions"`
}

// FindExplain finds the one artifact directory with recorded questions: dir itself, or
// one below it.
func FindExplain(dir string) (string, error) {
	var found []string
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("eval: explain: %w: %w", fault.Of(err), err)
	}
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == "workspaces" {
			return fs.SkipDir
		}
		if e.Name() == explainName && isSessionDir(filepath.Dir(p)) {
			found = append(found, filepath.Dir(p))
		}
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("eval: explain %s: %w: %w", dir, fault.Of(err), err)
	case len(found) == 0:
		return "", fmt.Errorf("eval: explain %s: %w: No explain questions were recorded for this failure. Add `explain.question` to relevant assertions to enable deferred explain.", dir, fault.NotFound) //nolint:staticcheck // skillgym's sentence
	case len(found) > 1:
		return "", fmt.Errorf("eval: explain %s: %w: there are %d failures below it; name one, such as %s", dir, fault.InvalidArgument, len(found), found[0])
	}
	return found[0], nil
}

// Explain resumes the session of an agent that failed, in the workspace that was kept,
// and asks it the recorded questions. The answers are stored in explanations.json. Stored
// answers are returned, unless rerun.
func Explain(ctx context.Context, dir string, cfg *suite.Config, opts *Options, rerun bool) (*Explained, error) {
	path := filepath.Join(dir, explanationsName)
	var out Explained
	if data, err := readOwnFile(path, maxRead); err == nil && !rerun {
		if err := json.Unmarshal(data, &out); err != nil {
			return nil, fmt.Errorf("eval: read %s: %w: %w", path, fault.InvalidArgument, err)
		}
		return &out, nil
	}
	f, err := readExplain(dir)
	if err != nil {
		return nil, err
	}
	if f.SessionID == "" {
		return nil, fmt.Errorf("eval: explain %s: %w: the session has no id to go on with", dir, fault.Unsupported)
	}
	out = Explained{SuitePath: f.SuitePath, CaseID: f.CaseID, RunnerID: f.RunnerID, Cwd: f.Cwd, SessionID: f.SessionID, Questions: []Explanation{}}
	asker, err := newAsker(ctx, dir, f, cfg, opts)
	if err != nil {
		return nil, err
	}
	for i, q := range f.Questions {
		out.Questions = append(out.Questions, asker.ask(ctx, i, q))
	}
	out.CreatedAt = session.Time(time.Now())
	return &out, errors.Join(ctx.Err(), asker.env.close(ctx), writeJSON(path, &out))
}

// An asker asks the agent of one session.
type asker struct {
	dir   string
	file  explainFile
	info  session.Runner
	agent agent.Agent
	env   *Env
	home  string
}

func newAsker(ctx context.Context, dir string, f explainFile, cfg *suite.Config, o *Options) (*asker, error) {
	p := &plan{Options: *o, suite: &Cases{Name: f.SuitePath}, config: cfg}
	p.Runners = []string{f.RunnerID}
	if p.Envs == nil {
		p.Envs = Host{}
	}
	if err := p.chooseRunners(); err != nil {
		return nil, err
	}
	r, v := p.runners[0], &environments{plan: p}
	if err := v.setPolicy(); err != nil {
		return nil, err
	}
	v.setReadDirs(ctx)
	if _, err := os.Stat(f.Cwd); err != nil {
		return nil, fmt.Errorf("eval: explain: %w: the workspace %s is gone", fault.NotFound, f.Cwd)
	}
	spec := v.envSpec(envRequest{artifacts: dir, read: r.read, hosts: slices.Concat(r.hosts, cfg.Croft.AllowNet, o.AllowNet)})
	spec.Dir, spec.InPlace = f.Cwd, true
	env, err := p.Envs.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &asker{dir: dir, file: f, info: r.info, agent: r.agent, env: env, home: o.UserHome}, nil
}

func (a *asker) ask(ctx context.Context, i int, q suite.Question) (x Explanation) {
	start := time.Now()
	x = Explanation{Question: q.Question, Source: q.Source, SessionID: a.file.SessionID, StartedAt: session.Time(start)}
	defer func() { x.EndedAt, x.DurationMs = session.Time(time.Now()), millis(time.Since(start)) }()
	at, err := makeEmptyDir(a.dir, filepath.Join(questionsName, fmt.Sprintf("question-%02d", i+1)))
	if err != nil {
		x.Error = err.Error()
		return x
	}
	out, err := agent.Run(ctx, a.env, a.agent, agent.Input{Runner: a.info, Prompt: q.Question, Dir: a.file.Cwd, Artifacts: at, Runtime: a.dir,
		UserHome: a.home, Resume: a.file.SessionID, Timeout: explainTime, Sandboxed: a.env.sandboxed})
	switch {
	case err != nil:
		x.Error = err.Error()
	case out.Failure != nil:
		x.Error = out.Failure.Message
	default:
		x.Answer, x.SessionID = out.Report.FinalOutput, cmp.Or(out.Report.SessionID, x.SessionID)
	}
	if out.Report != nil {
		x.RawArtifacts = out.Report.RawArtifacts
	}
	return x
}

// ExplainSuite returns the suite of a session with recorded questions.
func ExplainSuite(dir string) (string, error) {
	f, err := readExplain(dir)
	return f.SuitePath, err
}

func readExplain(dir string) (f explainFile, err error) {
	data, err := readOwnFile(filepath.Join(dir, explainName), maxRead)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return f, fmt.Errorf("eval: explain %s: %w: %w", dir, fault.Of(err), err)
	}
	return f, nil
}
