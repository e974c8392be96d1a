package cmdpolicy

import (
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// secretEnv are names of what should not come near an agent.
var secretEnv = []string{
	"*API_KEY", "*TOKEN", "*SECRET", "*PASSWORD", "*PASSWD", "*PASSPHRASE", "*PRIVATE_KEY", "*ACCESS_KEY", "*CREDENTIALS",
	"AWS_*", "ALI_*", "ALIYUN*", "ALIBABA*", "K8S*", "KUBE*", "SSH_AUTH_SOCK",
}

// loaderEnv are names by which a variable becomes code in a program that was not
// asked to run it.
var loaderEnv = []string{
	"LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_*", "BASH_LOADABLES_PATH", "PROMPT_COMMAND", "PS4", "IFS", "ZDOTDIR",
	"NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "PYTHONBREAKPOINT",
	"PERL5OPT", "PERL5DB", "PERL5LIB", "PERLLIB", "RUBYOPT", "RUBYLIB", "LUA_INIT*", "PHPRC", "PHP_INI_SCAN_DIR",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "LESSOPEN", "LESSCLOSE", "MANPAGER",
	"GIT_ASKPASS", "GIT_CONFIG*", "GIT_DIR", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_INDEX_FILE",
	"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PAGER", "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_TEMPLATE_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR",
}

// DefaultEnvDeny returns the names of variables that hold secrets or that make a
// program load code.
func DefaultEnvDeny() []string { return slices.Concat(secretEnv, loaderEnv) }

// filter returns the variables that pass; the map that it is given stays as it is.
func (g *Guard) filter(env map[string]string) (map[string]string, error) {
	if len(env) == 0 || len(g.opts.Env.Allow) == 0 && len(g.opts.Env.Deny) == 0 {
		return env, nil
	}
	var bad []string
	out := make(map[string]string, len(env))
	for name, value := range env {
		if g.passes(name) {
			out[name] = value
		} else {
			bad = append(bad, name)
		}
	}
	if g.opts.Env.Refuse && len(bad) > 0 {
		return nil, refuse(RuleEnv, fault.PermissionDenied, named(TextVariable, slices.Min(bad)), "")
	}
	return out, nil
}

// passes judges a name.
func (g *Guard) passes(name string) bool {
	upper := strings.ToUpper(name)
	fits := func(pattern string) bool { return match(strings.ToUpper(pattern), upper) }
	if slices.ContainsFunc(g.opts.Env.Deny, fits) {
		return false
	}
	return len(g.opts.Env.Allow) == 0 || slices.ContainsFunc(g.opts.Env.Allow, fits)
}
