package testmodel

import (
	"encoding/json"
	"fmt"
)

// readResponses reads a request of OpenAI's responses. Tools may come in
// namespaces.
func readResponses(body []byte) (modelRequest, error) {
	type named struct {
		Type  string            `json:"type"`
		Name  string            `json:"name"`
		Tools []json.RawMessage `json:"tools"`
	}
	var req struct {
		Stream bool            `json:"stream"`
		Tools  []named         `json:"tools"`
		Input  json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return modelRequest{}, err
	}
	a := modelRequest{stream: req.Stream}
	for _, t := range req.Tools {
		if t.Type != "namespace" {
			a.tools = append(a.tools, Offer{Name: t.Name})
			continue
		}
		for _, raw := range t.Tools {
			var in named
			if err := json.Unmarshal(raw, &in); err != nil {
				return modelRequest{}, err
			}
			a.tools = append(a.tools, Offer{Name: in.Name, Namespace: t.Name})
		}
	}
	var items []struct {
		Type   string          `json:"type"`
		Output json.RawMessage `json:"output"`
	}
	if json.Unmarshal(req.Input, &items) == nil {
		for _, it := range items {
			if it.Type == "function_call_output" {
				a.results = append(a.results, contentText(it.Output))
			}
		}
	}
	return a, nil
}

func writeResponses(a modelAnswer) reply {
	item := map[string]any{"type": "message", "id": fmt.Sprintf("msg_%d", a.round), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": a.text, "annotations": []any{}}}}
	if a.call.Name != "" {
		args, _ := json.Marshal(a.args) // a script's arguments are JSON
		item = map[string]any{"type": "function_call", "id": "fc_" + a.id, "call_id": a.id, "name": a.call.Name,
			"arguments": string(args), "status": "completed"}
		if a.call.Namespace != "" {
			item["namespace"] = a.call.Namespace
		}
	}
	done := map[string]any{"id": "resp_1", "object": "response", "status": "completed", "model": "scripted", "output": []any{item},
		"usage": map[string]any{"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}
	return reply{whole: done, events: []frame{
		{"response.created", map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_1", "status": "in_progress"}}},
		{"response.output_item.done", map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item}},
		{"response.completed", map[string]any{"type": "response.completed", "response": done}},
	}}
}

// readChat reads a request of OpenAI's chat completions.
func readChat(body []byte) (modelRequest, error) {
	var req struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return modelRequest{}, err
	}
	a := modelRequest{stream: req.Stream}
	for _, t := range req.Tools {
		a.tools = append(a.tools, Offer{Name: t.Function.Name})
	}
	for _, msg := range req.Messages {
		if msg.Role == "tool" {
			a.results = append(a.results, contentText(msg.Content))
		}
	}
	return a, nil
}

func writeChat(a modelAnswer) reply {
	message := map[string]any{"role": "assistant", "content": a.text}
	finish := "stop"
	if a.call.Name != "" {
		args, _ := json.Marshal(a.args) // a script's arguments are JSON
		finish = "tool_calls"
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"index": 0, "id": a.id,
			"type": "function", "function": map[string]any{"name": a.call.Name, "arguments": string(args)}}}}
	}
	usage := map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	chunk := func(delta map[string]any, finish any) frame {
		return frame{"", map[string]any{"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "usage": usage,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}}
	}
	return reply{
		whole: map[string]any{"id": "chat_1", "object": "chat.completion", "created": 1, "model": "scripted", "usage": usage,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}}},
		events: []frame{chunk(message, nil), chunk(map[string]any{}, finish)},
		end:    "[DONE]",
	}
}
