package guest

import (
	"maps"
	"strings"

	"github.com/croft-run/croft/internal/host/process"
)

// What processes in a container see of their user.
const (
	ContainerHome = "/home/croft"
	ContainerUser = "croft"
)

// ContainerEnv returns the environment of every process in a container: that of the image, as
// NAME=VALUE, overridden by the policy's.
func ContainerEnv(image []string, policy map[string]string) map[string]string {
	env := map[string]string{"PATH": process.DefaultPath, "LANG": "C.UTF-8"}
	for _, pair := range image {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			env[name] = value
		}
	}
	maps.Copy(env, map[string]string{
		"HOME": ContainerHome, "USER": ContainerUser, "LOGNAME": ContainerUser, "SHELL": "/bin/bash", "TERM": "xterm-256color", "TMPDIR": "/tmp",
	})
	maps.Copy(env, policy)
	return env
}
