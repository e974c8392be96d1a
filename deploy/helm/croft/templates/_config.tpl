{{- /* croft.yaml: what the chart decides, with .Values.config over it. */ -}}
{{- define "croft.config" -}}
{{- $ns := .Release.Namespace -}}
{{- $own := dict
  "version" 1
  "server" (dict
    "addr" "0.0.0.0:7070"
    "hosts" (concat (list "croft" (printf "croft.%s" $ns) (printf "croft.%s.svc" $ns) (printf "croft.%s.svc.cluster.local" $ns)) .Values.hosts)
    "providers" (list "kubernetes")
    "tls" (dict "cert" "/etc/croft-tls/tls.crt" "key" "/etc/croft-tls/tls.key")
    "log" (dict "level" "info" "format" "json"))
  "defaults" (dict "provider" "kubernetes") -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}
