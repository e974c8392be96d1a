package work

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
)

// startOnHost sets what a work without the sandbox starts with. Nothing is written to the
// home of the user.
func (s *Start) startOnHost(u User) error {
	s.Argv = s.Words
	if s.Agent != nil {
		program, err := s.Agent.lookProgram(u)
		if err != nil {
			return err
		}
		s.Argv = []string{program}
		if s.NoAsk {
			s.Argv = append(s.Argv, s.Agent.NoAsk...)
		}
		s.Argv = append(s.Argv, s.Words...)
	}
	s.setHostOptions(u)
	rules, err := cmdpolicy.New(&cmdpolicy.Options{Control: true, Env: cmdpolicy.Env{Deny: cmdpolicy.DefaultEnvDeny(), Except: s.host.AllowEnv}})
	if err != nil {
		return err
	}
	// They are variables of the command, and not of the workspace, because those are stored.
	s.AgentEnv = map[string]string{}
	for _, entry := range u.Environ {
		name, text, ok := strings.Cut(entry, "=")
		if ok && name != "" && rules.AllowsVar(name, text) && !slices.Contains(ownVariables, name) && !strings.HasPrefix(name, "CROFT_") {
			s.AgentEnv[name] = text
		}
	}
	s.Notes = append(s.Notes, s.hostNote())
	if s.Agent != nil && s.NoAsk {
		for name, text := range s.Agent.NoAskEnv {
			s.AgentEnv[name] = text
		}
	}
	return nil
}

// ownVariables are those that a command in another directory has of its own.
var ownVariables = []string{"PWD", "OLDPWD", "SHLVL", "_", "TMPDIR"}

// hostKeys returns patterns of the agent's variables that hold secrets.
func (s *Start) hostKeys(u User) []string {
	if s.Agent == nil {
		return nil
	}
	keys := slices.Clone(s.Agent.Keys)
	if s.Agent.moreKeys != nil {
		keys = Add(keys, s.Agent.moreKeys(u)...)
	}
	for _, prefix := range s.Agent.Prefixes {
		keys = Add(keys, prefix+"*")
	}
	return slices.DeleteFunc(keys, func(name string) bool { return name == "" })
}

// setHostOptions lets the command policy pass the program and the variables of the agent, and
// the isolation its own files.
func (s *Start) setHostOptions(u User) {
	s.host = local.Options{AllowEnv: s.hostKeys(u)}
	if len(s.Argv) > 0 && filepath.IsAbs(s.Argv[0]) {
		s.host.Allow = []string{filepath.Clean(s.Argv[0])}
	}
	if s.Agent != nil && s.Isolation.Rank() > 0 {
		for _, name := range s.Agent.Own {
			s.host.Writable = append(s.host.Writable, u.userFile(name))
		}
	}
}

// hostSpec completes the spec of a work without the sandbox.
func (s *Start) hostSpec(spec workspace.Spec) (_ workspace.Spec, err error) {
	spec.Kind = local.Kind
	spec.From.Template, spec.From.Credentials = s.Project.Dir, s.Credentials
	spec.Policy.Network.Open = true
	spec.Policy.Env = map[string]string{}
	spec.Config, err = json.Marshal(s.host)
	return spec, err
}

// hostNote says what a work without the sandbox does not prevent.
func (s *Start) hostNote() string {
	const login = "the login and the keys are those of your account, without a placeholder"
	if s.Isolation.Rank() == 0 {
		return "no isolation: what runs can read, change and send everything that you can; only the project is a copy. The network is open, and " + login
	}
	return "isolation " + string(s.Isolation) + ": what runs writes to the copy" + s.ownText() + " only, and can't read credential files such as ~/.ssh. " +
		"It can read your other files, the network is open, and " + login
}

// ownText names the paths of the home that the agent writes to.
func (s *Start) ownText() string {
	if s.Agent == nil {
		return ""
	}
	return " and ~/" + strings.Join(s.Agent.Own, ", ~/")
}
