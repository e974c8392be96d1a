package eval

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// File is a suite that was loaded from a file.
func File(s *suite.Suite) Suite { return fileSuite{s} }

type fileSuite struct{ *suite.Suite }

func (f fileSuite) Path() string                { return f.Suite.Path }
func (f fileSuite) Cases() []suite.Case         { return f.Suite.Cases }
func (f fileSuite) Workspace() *suite.Workspace { return f.Suite.Workspace }

// Notices are notes about the file for the user.
func (f fileSuite) Notices() []string { return f.Suite.Notices }

// Cases is a suite that is written in Go.
type Cases struct {
	Name string           // names the suite, such as an absolute path; "" is "suite"
	Dir  *suite.Workspace // where agents work; nil: the configuration's
	List []Case
}

// A Case is a case of a suite that is written in Go.
type Case struct {
	suite.Case

	// Assert judges a session; the error is why it fails. nil accepts any session.
	Assert func(ctx context.Context, r *session.Report, env suite.AssertEnv) error
}

// Path returns the name.
func (c *Cases) Path() string {
	if c.Name == "" {
		return "suite"
	}
	return c.Name
}

// Cases lists the cases.
func (c *Cases) Cases() []suite.Case {
	var list []suite.Case
	for _, x := range c.List {
		list = append(list, x.Case)
	}
	return list
}

// Workspace says where agents work.
func (c *Cases) Workspace() *suite.Workspace { return c.Dir }

// Assert judges a session.
func (c *Cases) Assert(ctx context.Context, caseID string, report json.RawMessage, env suite.AssertEnv) (*suite.Outcome, error) {
	for _, x := range c.List {
		if x.ID != caseID {
			continue
		}
		if x.Assert == nil {
			return &suite.Outcome{Passed: true}, nil
		}
		var r session.Report
		if err := json.Unmarshal(report, &r); err != nil {
			return nil, fmt.Errorf("eval: assert %s: %w: %w", caseID, fault.InvalidArgument, err)
		}
		if err := x.Assert(ctx, &r, env); err != nil {
			return &suite.Outcome{Origin: suite.OriginAssertion, Error: &suite.ErrorInfo{Name: "AssertionError", Message: err.Error()}}, nil
		}
		return &suite.Outcome{Passed: true}, nil
	}
	return nil, fmt.Errorf("eval: assert %s: %w: there is no such case", caseID, fault.NotFound)
}

// Classify returns no class.
func (c *Cases) Classify(context.Context, string, json.RawMessage, suite.EnvInfo) (*suite.FailureClass, error) {
	return nil, nil // no class
}
