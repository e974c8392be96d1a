package testmodel

import (
	"encoding/json"
	"fmt"
)

// readMessages reads a request of Anthropic's messages.
func readMessages(body []byte) (modelRequest, error) {
	var req struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return modelRequest{}, err
	}
	a := modelRequest{stream: req.Stream}
	for _, t := range req.Tools {
		a.tools = append(a.tools, Offer{Name: t.Name})
	}
	for _, msg := range req.Messages {
		var parts []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(msg.Content, &parts) != nil {
			continue // a text alone
		}
		for _, p := range parts {
			if p.Type == "tool_result" {
				a.results = append(a.results, contentText(p.Content))
			}
		}
	}
	return a, nil
}

func writeMessages(a modelAnswer) reply {
	usage := map[string]any{"input_tokens": 10, "output_tokens": 5}
	message := func(content []any, stop any) map[string]any {
		return map[string]any{"id": fmt.Sprintf("msg_%d", a.round), "type": "message", "role": "assistant", "model": "scripted",
			"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage}
	}
	stop := "end_turn"
	whole := map[string]any{"type": "text", "text": a.text}
	empty := map[string]any{"type": "text", "text": ""}
	delta := map[string]any{"type": "text_delta", "text": a.text}
	if a.call.Name != "" {
		stop = "tool_use"
		args, _ := json.Marshal(a.args) // a script's arguments are JSON
		whole = map[string]any{"type": "tool_use", "id": a.id, "name": a.call.Name, "input": a.args}
		empty = map[string]any{"type": "tool_use", "id": a.id, "name": a.call.Name, "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(args)}
	}
	event := func(kind string, fields map[string]any) frame {
		fields["type"] = kind
		return frame{kind, fields}
	}
	return reply{whole: message([]any{whole}, stop), events: []frame{
		event("message_start", map[string]any{"message": message([]any{}, nil)}),
		event("content_block_start", map[string]any{"index": 0, "content_block": empty}),
		event("content_block_delta", map[string]any{"index": 0, "delta": delta}),
		event("content_block_stop", map[string]any{"index": 0}),
		event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage}),
		event("message_stop", map[string]any{}),
	}}
}
