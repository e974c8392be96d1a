package rest

import (
	"context"
	"net/http"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot/template"
)

func (s snapshotRoutes) templates() {
	const templates = "/v1/templates"
	handle(s, withScope(s.op(http.MethodPost, templates, "create-template", "Make a template of a directory, a snapshot, a git repository or an image"), auth.Admin),
		with(s.templateCatalog, createTemplate))
	handle(s, s.op(http.MethodGet, templates, "list-templates", "Templates, by name"), with(s.templateCatalog, listTemplates))
	handle(s, s.op(http.MethodGet, templates+"/{template}", "show-template", "Describe a template"), with(s.templateCatalog, showTemplate))
	handle(s, withScope(s.op(http.MethodDelete, templates+"/{template}", "delete-template", "Forget a template; workspaces that started from it stay"), auth.Admin),
		with(s.templateCatalog, s.deleteTemplate))
}

// Templates is the answer of GET /templates.
type Templates struct {
	Templates []template.Template `json:"templates"`
}

type templateInput struct {
	Template string `path:"template" doc:"its name"`
}

// maxOrigins bounds Server.origins.
const maxOrigins = 10_000

// templateName returns the name of the template that a workspace started from; "" if it is none,
// or not known any more.
func (s workspaceRoutes) templateName(ctx context.Context, r registry.Record) string {
	id := r.Spec.From.Snapshot
	if id == "" || s.cfg.Templates == nil {
		return r.Spec.From.Template
	}
	s.mu.Lock()
	name, ok := s.origins[id]
	s.mu.Unlock()
	if ok {
		return name
	}
	m, err := s.cfg.Templates.Store.Get(auth.Without(ctx), id)
	if err != nil && fault.Of(err) != fault.NotFound {
		return "" // it is asked again
	}
	if err == nil {
		name = m.Labels[template.Label] // which a snapshot keeps
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.origins == nil || len(s.origins) >= maxOrigins {
		s.origins = map[string]string{}
	}
	s.origins[id] = name
	return name
}

// templateCatalog returns the templates.
func (s snapshotRoutes) templateCatalog(context.Context) (*template.Catalog, error) {
	if s.cfg.Templates == nil {
		return nil, fault.Unsupported
	}
	return s.cfg.Templates, nil
}

func createTemplate(ctx context.Context, c *template.Catalog, in *struct{ Body TemplateRequest }) (*body[template.Template], error) {
	b := in.Body
	return reply(c.Create(ctx, b.Name, template.Source{Dir: b.Dir, Snapshot: b.Snapshot, Git: b.Git, Revision: b.Revision, Image: b.Image, Ignore: b.Ignore, Credentials: b.Credentials}))
}

func listTemplates(ctx context.Context, c *template.Catalog, _ *struct{}) (*body[Templates], error) {
	list, err := c.List(ctx)
	return &body[Templates]{Templates{list}}, err
}

func showTemplate(ctx context.Context, c *template.Catalog, in *templateInput) (*body[template.Template], error) {
	return reply(c.Get(ctx, in.Template))
}

func (s snapshotRoutes) deleteTemplate(ctx context.Context, c *template.Catalog, in *templateInput) (*none, error) {
	needed, err := s.originSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	return nil, c.Delete(ctx, in.Template, func(id string) bool { return needed[id] })
}
