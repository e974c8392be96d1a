package cmdpolicy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// secretEnv are names of variables with secrets.
var secretEnv = []string{
	"*API_KEY", "*TOKEN", "*SECRET", "*PASSWORD", "*PASSWD", "*PASSPHRASE", "*PRIVATE_KEY", "*ACCESS_KEY", "*CREDENTIALS",
	"AWS_*", "ALI_*", "ALIYUN*", "ALIBABA*", "K8S*", "KUBE*", "SSH_AUTH_SOCK",
}

// loaderEnv are names of variables that make a program load or run code.
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

// DefaultEnvDeny returns the names of variables that hold secrets or make a program load
// code.
func DefaultEnvDeny() []string { return slices.Concat(secretEnv, loaderEnv) }

// checkEnv refuses variables that are not allowed, by name, and a clean environment without
// those that are fixed.
func (c *Checker) checkEnv(cmd driver.Command) error {
	var bad, missing []string
	for name := range c.opts.Env.Fixed {
		if _, ok := cmd.Env[name]; cmd.Clean && !ok {
			missing = append(missing, strconv.Quote(name))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return newRefusal(RuleEnv, fault.PermissionDenied, TextMissingVariable+" "+strings.Join(missing, ", "), "")
	}
	for name, value := range cmd.Env {
		values, fixed := c.opts.Env.Fixed[name]
		if !c.allowsVar(name) || fixed && !slices.Contains(values, value) {
			bad = append(bad, strconv.Quote(name))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return newRefusal(RuleEnv, fault.PermissionDenied, TextVariable+" "+strings.Join(bad, ", "), "")
}

// AllowsVar reports whether a command may be given a variable.
func (c *Checker) AllowsVar(name, value string) bool {
	bad := func(r rune) bool { return r == 0 || c.opts.Control && isControl(r) }
	return c.allowsVar(name) && !strings.ContainsFunc(name+value, bad)
}

func (c *Checker) allowsVar(name string) bool {
	upper := strings.ToUpper(name)
	fits := func(pattern string) bool { return matchPattern(strings.ToUpper(pattern), upper) }
	if slices.ContainsFunc(c.opts.Env.Deny, fits) && !slices.ContainsFunc(c.opts.Env.Except, fits) {
		return false
	}
	return len(c.opts.Env.Allow) == 0 || slices.ContainsFunc(c.opts.Env.Allow, fits)
}
