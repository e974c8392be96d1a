package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/croft-run/croft/fault"
)

// A toolCall is a call of a tool that waits for its result.
type toolCall struct {
	tool    string
	command int // index in Builder.Commands + 1; 0 for none
}

// toolServer is the name of the MCP server of Input.Tools.
const toolServer = "croft"

// offerTools configures the MCP server of in.Tools for an agent: by a file below its home
// d, by arguments, or by its environment. Agents without such a setting are Unsupported.
func offerTools(kind string, d *agentDir, in Input, env map[string]string) (args []string, err error) {
	if in.Tools == "" {
		return nil, nil
	}
	switch kind {
	case "claude-code":
		const name = claudeHome + "/croft-tools.json"
		servers := map[string]any{"mcpServers": map[string]any{toolServer: map[string]any{"type": "http", "url": in.Tools, "alwaysLoad": true}}}
		return []string{"--mcp-config", d.path(name)}, d.write(name, encodeJSON(servers), 0o600)
	case "codex":
		set := func(key, value string) []string {
			return []string{"-c", "mcp_servers." + toolServer + "." + key + "=" + value}
		}
		args = append(args, set("url", fmt.Sprintf("%q", in.Tools))...)
		args = append(args, set("default_tools_approval_mode", `"approve"`)...)
		return append(args, set("tool_timeout_sec", "1800")...), nil
	case "opencode":
		server := map[string]any{"type": "remote", "url": in.Tools, "oauth": false}
		return nil, editOpencodeConfig(env, func(content map[string]any) { subObject(content, "mcp")[toolServer] = server })
	case "gemini":
		server := map[string]any{"httpUrl": in.Tools, "trust": true, "timeout": 1800000}
		return nil, editSettings(d, filepath.Join(geminiHome, ".gemini", "settings.json"), func(s map[string]any) { subObject(s, "mcpServers")[toolServer] = server })
	case "copilot":
		server := map[string]any{"type": "http", "url": in.Tools, "tools": []string{"*"}}
		return nil, editSettings(d, filepath.Join(copilotHome, "mcp-config.json"), func(s map[string]any) { subObject(s, "mcpServers")[toolServer] = server })
	case "command":
		env["CROFT_EVAL_TOOLS"] = in.Tools
		return nil, nil
	}
	return nil, fmt.Errorf("agent: give %s tools: %w: it takes MCP servers from the user's settings only", kind, fault.Unsupported)
}

// editOpencodeConfig changes the configuration in OPENCODE_CONFIG_CONTENT.
func editOpencodeConfig(env map[string]string, change func(map[string]any)) error {
	const name = "OPENCODE_CONFIG_CONTENT"
	content := map[string]any{}
	if text := env[name]; text != "" {
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			return fmt.Errorf("agent: %s: %w: %w", name, fault.InvalidArgument, err)
		}
	}
	change(content)
	env[name] = string(encodeJSON(content))
	return nil
}

// editSettings changes a JSON settings file, which need not exist.
func editSettings(d *agentDir, name string, change func(map[string]any)) error {
	content := map[string]any{}
	data, err := d.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(data, &content); err != nil {
			return fmt.Errorf("agent: read %s: %w: %w", d.path(name), fault.InvalidArgument, err)
		}
	}
	change(content)
	return d.write(name, encodeJSON(content), 0o600)
}
