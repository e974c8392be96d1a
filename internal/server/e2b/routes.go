package e2b

import (
	"github.com/croft-run/croft/auth"
)

// routes registers the control plane.
func (s *Server) routes() {
	s.handle("POST /sandboxes", auth.Run, s.createSandbox(defaultTimeoutV1))
	s.handle("POST /v2/sandboxes", auth.Run, s.createSandbox(defaultTimeout))
	s.handle("GET /sandboxes", auth.Read, s.listSandboxesV1)
	s.handle("GET /v2/sandboxes", auth.Read, s.listSandboxes)
	s.handle("GET /sandboxes/metrics", auth.Read, s.metricsOfMany)

	const one = "/sandboxes/{sandbox}"
	s.handle("GET "+one, auth.Read, s.getSandbox)
	s.handle("DELETE "+one, auth.Run, s.killSandbox)
	s.handle("POST "+one+"/connect", auth.Run, s.connect(defaultTimeoutV1))
	s.handle("POST /v2"+one+"/connect", auth.Run, s.connect(defaultTimeout))
	s.handle("POST "+one+"/resume", auth.Run, s.resume)
	s.handle("POST "+one+"/pause", auth.Run, s.pause)
	s.handle("POST "+one+"/timeout", auth.Run, s.setTimeout)
	s.handle("POST "+one+"/refreshes", auth.Run, s.refresh)
	s.handle("POST "+one+"/fork", auth.Run, s.fork)
	s.handle("POST "+one+"/snapshots", auth.Run, s.createSnapshot)
	s.handle("PUT "+one+"/network", auth.Run, s.updateNetwork)
	s.handle("GET "+one+"/metrics", auth.Read, s.metrics)
	s.handle("GET "+one+"/logs", auth.Read, s.logsV1)
	s.handle("GET /v2"+one+"/logs", auth.Read, s.logs)
	s.handle("GET /snapshots", auth.Read, s.listSnapshots)

	const template = "/templates/{template}"
	s.handle("GET /templates", auth.Read, s.listTemplates)
	s.handle("POST /v3/templates", auth.Run, s.requestBuild)
	s.handle("GET "+template, auth.Read, s.getTemplate)
	s.handle("DELETE "+template, auth.Run, s.deleteTemplate)
	s.handle("GET "+template+"/{part}", auth.Read, s.getPart) // /templates/aliases/{alias}, or /templates/{id}/tags
	s.handle("POST /templates/tags", auth.Run, s.assignTags)
	s.handle("DELETE /templates/tags", auth.Run, s.removeTags)
	s.handle("GET "+template+"/files/{hash}", auth.Run, s.uploadLink)
	s.handle("POST /v2"+template+"/builds/{build}", auth.Run, s.startBuild)
	s.handle("GET "+template+"/builds/{build}/status", auth.Read, s.buildStatus)
	s.handle("GET "+template+"/builds/{build}/logs", auth.Read, s.buildLogs)

	s.handle("POST /volumes", auth.Run, s.createVolume)
	s.handle("GET /volumes", auth.Read, s.listVolumes)
	s.handle("GET /volumes/{volume}", auth.Run, s.getVolume)
	s.handle("DELETE /volumes/{volume}", auth.Run, s.deleteVolume)

	const secret = "/secrets/{secret}"
	s.handle("GET /secrets", auth.Run, s.listSecrets)
	s.handle("GET "+secret, auth.Run, s.getSecret)
	s.handle("/secrets", auth.Run, changeSecret)
	s.handle(secret, auth.Run, changeSecret)
}
