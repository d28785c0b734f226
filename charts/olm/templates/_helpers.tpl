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

{{/* How one process of an operator is elected, also where it has but one replica: for a moment there may be two of them, when a pod is replaced or its node is lost. */}}
{{- define "olm.election" -}}
{{- $flags := list "--leader-elect" -}}
{{- with .leaseDuration -}}{{- $flags = append $flags (printf "--leader-elect-lease-duration=%s" .) -}}{{- end -}}
{{- with .renewDeadline -}}{{- $flags = append $flags (printf "--leader-elect-renew-deadline=%s" .) -}}{{- end -}}
{{- with .retryPeriod -}}{{- $flags = append $flags (printf "--leader-elect-retry-period=%s" .) -}}{{- end -}}
{{- toYaml $flags -}}
{{- end -}}

{{/* Name of a ClusterOperator that is reported to; a pair of quotes is how upstream's values say none. */}}
{{- define "olm.statusName" -}}
{{- if ne . "\"\"" -}}{{ . }}{{- end -}}
{{- end -}}

{{/* How an operator (root, app) is replaced. Those that elect one may be there at a time; one that was started without an election writes without
     asking, so nothing runs beside it. */}}
{{- define "olm.strategy" -}}
{{- $rolling := true -}}
{{- with lookup "apps/v1" "Deployment" .root.Values.namespace .app -}}
{{- if not (has "--leader-elect" ((index .spec.template.spec.containers 0).args | default list)) -}}{{- $rolling = false -}}{{- end -}}
{{- end -}}
{{- if $rolling -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 1
  maxUnavailable: 0
{{- else -}}
type: Recreate
{{- end -}}
{{- end -}}

{{/* Of the replicas of a program (root, own: its values, app) a drained node takes one along at most. One that is alone is not held: nodes could not be drained. */}}
{{- define "olm.budget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .own.replicaCount) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .app }}
  namespace: {{ .root.Values.namespace | quote }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: {{ .app }}
{{- end -}}
{{- end -}}

{{/* The Secret that an operator (root, name: its key among the values) serves metrics with; empty without TLS. */}}
{{- define "olm.tlsSecret" -}}
{{- $own := (index .root.Values .name).tlsSecret -}}
{{- if $own -}}
{{ $own }}
{{- else if .root.Values.certManager.enabled -}}
{{ .root.Values.certManager.certificate.name }}
{{- else if .root.Values.serviceCa.enabled -}}
{{ (index .root.Values.serviceCa (printf "%sOperator" .name)).secretName }}
{{- end -}}
{{- end -}}

{{/* Where an operator (root, name) has it, and who signs certificates of clients. */}}
{{- define "olm.tlsArguments" -}}
{{- if include "olm.tlsSecret" . }}
- --tls-cert=/srv-cert/tls.crt
- --tls-key=/srv-cert/tls.key
{{- if (index .root.Values .name).clientCASecret }}
- --client-ca=/profile-collector-cert/tls.crt
{{- end }}
{{- end }}
{{- end -}}

{{/* The same as mounts, and as volumes. Whole folders: files that are mounted by themselves are never replaced. */}}
{{- define "olm.tlsMounts" -}}
{{- if include "olm.tlsSecret" . }}
- name: srv-cert
  mountPath: /srv-cert
  readOnly: true
{{- if (index .root.Values .name).clientCASecret }}
- name: profile-collector-cert
  mountPath: /profile-collector-cert
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}
{{- define "olm.tlsVolumes" -}}
{{- with include "olm.tlsSecret" . }}
- name: srv-cert
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- with (index .root.Values .name).clientCASecret }}
- name: profile-collector-cert
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Stops at values that mean something upstream and are not kept here: better told than left out. */}}
{{- define "olm.validate" -}}
{{- with .Values.watchedNamespaces -}}
{{- fail (printf "watchedNamespaces: %q: OLM watches all namespaces; leave it empty" .) -}}
{{- end -}}
{{- if and .Values.certManager.enabled .Values.serviceCa.enabled -}}
{{- fail "certManager.enabled, serviceCa.enabled: one of them makes the certificates; leave the other false" -}}
{{- end -}}
{{- range $name := list "olm" "catalog" -}}
{{- if and (index $.Values $name).clientCASecret (not (include "olm.tlsSecret" (dict "root" $ "name" $name))) -}}
{{- fail (printf "%s.clientCASecret: clients show certificates over TLS alone; say %s.tlsSecret as well" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "olm" "catalog" -}}
{{- $arguments := (index $.Values $name).commandArgs -}}
{{- range $argument := kindIs "string" $arguments | ternary (list $arguments) $arguments -}}
{{- if hasPrefix "--leader-elect" (toString $argument) -}}
{{- fail (printf "%s.commandArgs: %q: one process is elected in any case, by the Lease that the chart's rights name; its times are leaderElection" $name $argument) -}}
{{- end -}}
{{- $status := eq $name "olm" | ternary "writeStatusName" "writeStatusNameCatalog" -}}
{{- $values := dict "writeStatusName" $status "writePackageServerStatusName" "writePackageServerStatusName" -}}
{{- $tls := printf "%s.tlsSecret" $name -}}
{{- $values = merge $values (dict "tls-cert" $tls "tls-key" $tls "client-ca" (printf "%s.clientCASecret" $name)) -}}
{{- range $flag, $value := $values -}}
{{- if regexMatch (printf "^--%s(=|$)" $flag) (toString $argument) -}}
{{- fail (printf "%s.commandArgs: %q: say %s, which brings the rights and the files that belong to it" $name $argument $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $certificate := .Values.package.certificate -}}
{{- if ne (empty $certificate.secretName) (empty $certificate.caBundle) -}}
{{- fail "package.certificate: secretName and caBundle go together: the API server has to know who signed what is served with" -}}
{{- end -}}
{{- if and $certificate.secretName (ne .Values.package.installedAs "Deployment") -}}
{{- fail "package.certificate: OLM makes the certificate of a ClusterServiceVersion; say package.installedAs: Deployment as well" -}}
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

{{/* The spec of package-server's Deployment. What it serves with is mounted by OLM where it is a ClusterServiceVersion's. */}}
{{- define "olm.packageServer" -}}
replicas: {{ .Values.package.replicaCount }}
# Discovery of the whole cluster asks this API: there always is one that answers.
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxUnavailable: {{ .Values.package.maxUnavailable }}
    maxSurge: {{ .Values.package.maxSurge }}
selector:
  matchLabels:
    app: packageserver
template:
  metadata:
    labels:
      app: packageserver
  spec:
    serviceAccountName: packageserver
    {{- include "olm.placement" (dict "root" . "own" .Values.package) | nindent 4 }}
    securityContext:
      runAsNonRoot: true
      runAsUser: 1001
      seccompProfile:
        type: RuntimeDefault
    containers:
      - name: packageserver
        image: {{ include "olm.image" (dict "root" . "name" "olm" "ref" .Values.package.image.ref) | quote }}
        imagePullPolicy: {{ .Values.package.image.pullPolicy | default .Values.image.pullPolicy }}
        command:
          - /bin/package-server
          - --secure-port={{ .Values.package.service.internalPort }}
          - {{ printf "--global-namespace=%s" (include "olm.catalogNamespace" .) | quote }}
          {{- with .Values.package.interval }}
          - {{ printf "--interval=%s" . | quote }}
          {{- end }}
          {{- if .Values.debug }}
          - --debug
          {{- end }}
          {{- with .Values.package.commandArgs }}
          {{- include "olm.arguments" . | nindent 10 }}
          {{- end }}
        {{- if or .Values.log (eq .Values.logFormat "json") }}
        env:
          {{- with .Values.log }}
          - name: OLM_LOG
            value: {{ . | quote }}
          {{- end }}
          {{- if eq .Values.logFormat "json" }}
          - name: OLM_LOG_FORMAT
            value: json
          {{- end }}
        {{- end }}
        ports:
          - containerPort: {{ .Values.package.service.internalPort }}
            protocol: TCP
        livenessProbe:
          httpGet:
            path: /healthz
            port: {{ .Values.package.service.internalPort }}
            scheme: HTTPS
        readinessProbe:
          periodSeconds: 1
          httpGet:
            path: /readyz
            port: {{ .Values.package.service.internalPort }}
            scheme: HTTPS
        {{- with .Values.package.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        terminationMessagePolicy: FallbackToLogsOnError
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        {{- if eq .Values.package.installedAs "Deployment" }}
        volumeMounts:
          - name: apiservice-cert
            mountPath: /apiserver.local.config/certificates
            readOnly: true
    volumes:
      - name: apiservice-cert
        secret:
          secretName: {{ .Values.package.certificate.secretName | default "packageserver-serving-cert" | quote }}
          items:
            - key: tls.crt
              path: apiserver.crt
            - key: tls.key
              path: apiserver.key
    {{- end }}
{{- end -}}

{{/* The Secret that package-server serves with where OLM makes none: the one that is there, or a new one for ten years. */}}
{{- define "olm.packageServerCertificate" -}}
{{- $name := "packageserver-serving-cert" -}}
{{- $data := dict -}}
{{- $host := printf "packageserver-service.%s.svc" .Values.namespace -}}
{{- with lookup "v1" "Secret" .Values.namespace $name -}}
{{- $data = .data -}}
{{- else -}}
{{- $authority := genCA "packageserver" 3650 -}}
{{- $made := genSignedCert $host (list) (list $host) 3650 $authority -}}
{{- $data = dict "ca.crt" ($authority.Cert | b64enc) "tls.crt" ($made.Cert | b64enc) "tls.key" ($made.Key | b64enc) -}}
{{- end -}}
{{- dict "apiVersion" "v1" "kind" "Secret" "metadata" (dict "name" $name "namespace" .Values.namespace) "type" "kubernetes.io/tls" "data" $data | toYaml -}}
{{- end -}}
