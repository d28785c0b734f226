{{/* Namespace of the catalogs that every namespace sees. */}}
{{- define "olm.catalogNamespace" -}}
{{ .Values.catalog_namespace | default .Values.namespace }}
{{- end -}}

{{/* Reference of one of our images: root, name (its key below `image`), ref (said as a whole, wins). */}}
{{- define "olm.image" -}}
{{- if .ref -}}
{{ .ref }}
{{- else -}}
{{- $all := .root.Values.image -}}
{{- $own := index $all .name -}}
{{- $tag := $all.tag | default .root.Chart.AppVersion -}}
{{ trimSuffix "/" $all.registry }}/{{ $own.repository }}:{{ $tag }}{{ with $own.digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Where the pods of a program run and what they give way to: root, own (its values). */}}
{{- define "olm.placement" -}}
{{- $settings := dict -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" -}}
{{- with index $.own $name -}}{{- $_ := set $settings $name . -}}{{- end -}}
{{- end -}}
{{- with .own.priorityClassName -}}{{- $_ := set $settings "priorityClassName" . -}}
{{- else -}}
{{- if .root.Values.priorityClass.create -}}{{- $_ := set $settings "priorityClassName" .root.Values.priorityClass.name -}}{{- end -}}
{{- end -}}
{{- with .root.Values.image.pullSecrets -}}{{- $_ := set $settings "imagePullSecrets" . -}}{{- end -}}
{{- with $settings -}}{{ toYaml . }}{{- end -}}
{{- end -}}

{{/* Arguments as upstream's charts take them, one word, or several in a list. */}}
{{- define "olm.arguments" -}}
{{- if kindIs "string" . -}}{{ toYaml (list .) }}{{- else -}}{{ toYaml . }}{{- end -}}
{{- end -}}

{{/* Stops at values that mean something upstream and are not kept here: better told than left out. */}}
{{- define "olm.validate" -}}
{{- with .Values.watchedNamespaces -}}
{{- fail (printf "watchedNamespaces: %q: OLM watches all namespaces; leave it empty" .) -}}
{{- end -}}
{{- range $name := list "olm" "catalog" -}}
{{- $replicas := int (index $.Values $name).replicaCount -}}
{{- if gt $replicas 1 -}}
{{- fail (printf "%s.replicaCount: %d: there is no election of a leader yet, and two would write at once; say 1, or 0 to have it stopped" $name $replicas) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "certManager" "serviceCa" -}}
{{- if (index $.Values $name).enabled -}}
{{- fail (printf "%s.enabled: metrics are served without TLS for now; leave it false" $name) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.namespace .Values.operator_namespace -}}
{{- fail "operator_namespace: must be another than namespace: operators in it see every namespace, and OLM's own need the restricted profile" -}}
{{- end -}}
{{- end -}}

{{/* Labels that have pods held against a profile; those without a level are left out. */}}
{{- define "olm.podSecurity" -}}
{{- $labels := dict -}}
{{- range $mode := list "enforce" "audit" "warn" -}}
{{- with index $ (printf "%sLevel" $mode) -}}
{{- $_ := set $labels (printf "pod-security.kubernetes.io/%s" $mode) . -}}
{{- $_ := set $labels (printf "pod-security.kubernetes.io/%s-version" $mode) (index $ (printf "%sVersion" $mode) | default "latest") -}}
{{- end -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* A host as a key of a ConfigMap, which takes no colon. */}}
{{- define "olm.registryKey" -}}
{{ replace ":" "_" . }}.hosts.toml
{{- end -}}
