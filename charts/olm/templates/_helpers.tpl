{{/* Namespace of the catalogs that every namespace sees. */}}
{{- define "olm.catalogNamespace" -}}
{{ .Values.catalog_namespace | default .Values.namespace }}
{{- end -}}

{{/* Reference of one of our images: root, name (its key below `image`), ref (a complete reference, takes precedence). */}}
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

{{/* Scheduling and priority of a program's pods: root, own (its values). */}}
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

{{/* Name of the ClusterOperator that gets reports; upstream's values use a pair of quotes for none. */}}
{{- define "olm.statusName" -}}
{{- $name := . | default "" -}}
{{- if ne $name "\"\"" -}}{{ $name }}{{- end -}}
{{- end -}}

{{/* Update strategy of an operator (root, app, workload: name of its Deployment if that is another). Operators with leader election may run at the same time; one that was started without it writes
     unconditionally, so nothing may run beside it. */}}
{{- define "olm.strategy" -}}
{{- $rolling := true -}}
{{- with lookup "apps/v1" "Deployment" .root.Values.namespace (.workload | default .app) -}}
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

{{/* A drained node evicts at most one replica of a program (root, own: its values, app). A single replica is not protected: nodes could not be drained. */}}
{{- define "olm.budget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .own.replicaCount) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .app }}
  namespace: {{ .root.Values.namespace | quote }}
spec:
  maxUnavailable: 1
  {{- /* Pods that are not ready do not block the drain of a node. */}}
  {{- if semverCompare ">=1.27-0" .root.Capabilities.KubeVersion.Version }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  {{- end }}
  selector:
    matchLabels:
      app: {{ .app }}
{{- end -}}
{{- end -}}

{{/* True for upstream's images, by their repository. A registry of users may mirror ours under any name. */}}
{{- define "olm.isUpstreams" -}}
{{- if regexMatch "^(quay\\.io/(operator-framework|openshift|openshift-release-dev)|registry\\.redhat\\.io/openshift4)/" . -}}true{{- end -}}
{{- end -}}

{{/* The PEM certificates in a text, without its other parts: output of openssl, and private data such as keys. */}}
{{- define "olm.certificates" -}}
{{- range regexFindAll "(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----" . -1 -}}
{{ . }}
{{ end -}}
{{- end -}}

{{/* The Secret that cert-manager makes. */}}
{{- define "olm.certManagerSecret" -}}
{{ .Values.certManager.certificate.secretName | default .Values.certManager.certificate.name | default "" }}
{{- end -}}

{{/* Name of the Secret that a program (root, name: its key among the values) serves with: catalogd everything, the others their metrics. Empty
     without TLS. */}}
{{- define "olm.tlsSecret" -}}
{{- $own := (index .root.Values .name).tlsSecret -}}
{{- if $own -}}
{{ $own }}
{{- else if .root.Values.certManager.enabled -}}
{{ include "olm.certManagerSecret" .root }}
{{- else if .root.Values.serviceCa.enabled -}}
{{ include "olm.serviceCaSecret" . }}
{{- else if eq .name "catalogd" -}}
catalogd-service-cert
{{- else if eq .name "operatorController" -}}
operator-controller-cert
{{- end -}}
{{- end -}}

{{/* Name of the Secret that OpenShift makes for it. */}}
{{- define "olm.serviceCaSecret" -}}
{{- $key := has .name (list "catalogd" "operatorController") | ternary .name (printf "%sOperator" .name) -}}
{{ (index .root.Values.serviceCa $key).secretName | default "" }}
{{- end -}}

{{/* Whether it serves with that one. */}}
{{- define "olm.isOfServiceCa" -}}
{{- $theirs := include "olm.serviceCaSecret" . -}}
{{- if and .root.Values.serviceCa.enabled (eq (include "olm.tlsSecret" .) $theirs) -}}true{{- end -}}
{{- end -}}

{{/* Whether Prometheus is to reach package-server, which serves its metrics on its own port, to callers that may read them; and whether the chart
     says so itself, by a ServiceMonitor. */}}
{{- define "olm.isPackageServerMonitored" -}}
{{- if and .Values.monitoring.enabled .Values.package.enabled -}}true{{- end -}}
{{- end -}}
{{- define "olm.isPackageServerScraped" -}}
{{- if and (include "olm.isPackageServerMonitored" .) .Values.monitoring.serviceMonitor -}}true{{- end -}}
{{- end -}}

{{/* The ports of its pods (root, name): `plain` for health and, without TLS, metrics; `https` with TLS. Upstream's pods have one of the two. */}}
{{- define "olm.ports" -}}
{{- if eq .name "catalogd" -}}
{{- dict "plain" 8081 "https" 7443 | toYaml -}}
{{- else if eq .name "operatorController" -}}
{{- dict "plain" 8081 "https" 8443 | toYaml -}}
{{- else -}}
{{- $service := (index .root.Values .name).service -}}
{{- $plain := int $service.internalPort -}}
{{- $https := int $service.internalPortHttps -}}
{{- if and (include "olm.tlsSecret" .) (eq $plain $https) -}}
{{- $plain = eq $https 8080 | ternary 8081 8080 -}}
{{- end -}}
{{- dict "plain" $plain "https" $https | toYaml -}}
{{- end -}}
{{- end -}}

{{/* Its arguments that say so, where it has other ports than the program's own. */}}
{{- define "olm.portArguments" -}}
{{- if not (has .name (list "catalogd" "operatorController")) }}
{{- $ports := include "olm.ports" . | fromYaml -}}
{{- if ne (int $ports.plain) 8080 }}
- --health-addr=0.0.0.0:{{ int $ports.plain }}
{{- end }}
{{- if and (include "olm.tlsSecret" .) (ne (int $ports.https) 8443) }}
- --metrics-addr=0.0.0.0:{{ int $ports.https }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The port of its Service. */}}
{{- define "olm.servicePort" -}}
{{- $ports := include "olm.ports" . | fromYaml -}}
{{- $external := ((index .root.Values .name).service | default dict).externalPort | default "" | toString -}}
{{- if include "olm.tlsSecret" . -}}
{{ int $ports.https }}
{{- else if regexMatch "^[0-9]{1,5}$" $external -}}
{{ $external }}
{{- else -}}
{{ int $ports.plain }}
{{- end -}}
{{- end -}}

{{/* Paths of an operator's (root, name) certificate, and of the authority for client certificates. */}}
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
    # Often an authority's own, with the key that signs; the certificate is enough.
    items:
      - key: tls.crt
        path: tls.crt
{{- end }}
{{- end -}}

{{/* Further fields of a program's (root, name) pods: annotations, mounts and volumes of the chart, then the user's. */}}
{{- define "olm.podAnnotations" -}}
{{- $own := index .root.Values .name -}}
{{- $all := include "olm.collectorAnnotation" .root | fromYaml -}}
{{- if eq .name "catalog" -}}
{{- with $own.registryConfig -}}{{- $_ := set $all "checksum/registry-config" (toJson . | sha256sum) -}}{{- end -}}
{{- with include "olm.registryAuthorities" .root -}}{{- $_ := set $all "checksum/registry-ca" (sha256sum .) -}}{{- end -}}
{{- end -}}
{{- with merge $all ($own.podAnnotations | default dict) -}}{{- toYaml . -}}{{- end -}}
{{- end -}}
{{- define "olm.mounts" -}}
{{- if ne .name "package" -}}{{- include "olm.tlsMounts" . -}}{{- end -}}
{{- include "olm.collectorMount" .root -}}
{{- with (index .root.Values .name).volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- define "olm.volumes" -}}
{{- if ne .name "package" -}}{{- include "olm.tlsVolumes" . -}}{{- end -}}
{{- include "olm.collectorVolume" .root -}}
{{- with (index .root.Values .name).volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Trusted authorities for certificates of registries, as PEM. */}}
{{- define "olm.registryAuthorities" -}}
{{- include "olm.certificates" (.Values.catalog.registryCA | default "") -}}
{{- end -}}

{{/* Pod security labels; those without a level are left out. */}}
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

{{/* Environment of every program for its log and spans; empty without settings. */}}
{{- define "olm.environment" -}}
{{- with .Values.log }}
- name: OLM_LOG
  value: {{ . | quote }}
{{- end }}
{{- if eq .Values.logFormat "json" }}
- name: OLM_LOG_FORMAT
  value: json
{{- end }}
{{- with .Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- /* 0 is a valid ratio, and null is none. */}}
{{- $ratio := $.Values.tracing.samplingRatio }}
{{- if not (or (kindIs "invalid" $ratio) (eq (toString $ratio) "")) }}
- name: OTEL_TRACES_SAMPLER
  value: parentbased_traceidratio
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ toString $ratio | quote }}
{{- end }}
{{- $headers := $.Values.tracing.headersSecret | default dict }}
{{- if $headers.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ $headers.name | quote }}
      key: {{ $headers.key | default "headers" | quote }}
{{- end }}
{{- if include "olm.collectorAuthorities" $ }}
- name: OTEL_EXPORTER_OTLP_CERTIFICATE
  value: /etc/olm/collector/ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{/* Trusted authorities for the collector's certificate, as PEM; empty without spans, or if none is named. */}}
{{- define "olm.collectorAuthorities" -}}
{{- if .Values.tracing.endpoint -}}{{- include "olm.certificates" (.Values.tracing.caBundle | default "") -}}{{- end -}}
{{- end -}}

{{/* Its annotation, mount and volume in the pods: a process reads the file at its start, so a changed one creates new pods. */}}
{{- define "olm.collectorAnnotation" -}}
{{- with include "olm.collectorAuthorities" . -}}
checksum/collector-ca: {{ sha256sum . }}
{{- end -}}
{{- end -}}
{{- define "olm.collectorMount" -}}
{{- if include "olm.collectorAuthorities" . }}
- name: collector-ca
  mountPath: /etc/olm/collector
  readOnly: true
{{- end }}
{{- end -}}
{{- define "olm.collectorVolume" -}}
{{- if include "olm.collectorAuthorities" . }}
- name: collector-ca
  configMap:
    name: collector-ca
{{- end }}
{{- end -}}

{{/* Rules of a NetworkPolicy by the names of their values (root, names); null counts as an empty rule. */}}
{{- define "olm.rules" -}}
{{- $rules := list -}}
{{- range .names -}}{{- $rules = append $rules (index $.root.Values.networkPolicy . | default dict) -}}{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* Clients that may reach the metrics of an operator (root, name). Upstream's port `metrics` serves them, with TLS or without. */}}
{{- define "olm.metricsRules" -}}
{{- $rule := deepCopy (.root.Values.networkPolicy.metrics | default dict) -}}
{{- $named := list -}}
{{- range $rule.ports -}}{{- $named = append $named (toString .port) -}}{{- end -}}
{{- if and (include "olm.tlsSecret" .) (has "metrics" $named) (not (has "https-metrics" $named)) -}}
{{- $_ := set $rule "ports" (append $rule.ports (dict "protocol" "TCP" "port" "https-metrics")) -}}
{{- end -}}
{{- toYaml (list $rule) -}}
{{- end -}}

{{/* Egress rules for spans, as list items; empty without spans. The default port is that of the address. */}}
{{- define "olm.collectorRules" -}}
{{- if .Values.tracing.endpoint }}
{{- $rule := deepCopy (.Values.networkPolicy.collector | default dict) }}
{{- if kindIs "invalid" $rule.ports }}
{{- $address := urlParse .Values.tracing.endpoint }}
{{- $said := regexFind ":[0-9]+$" $address.host | trimPrefix ":" }}
{{- $port := $said | default (eq $address.scheme "https" | ternary "443" "80") | int }}
{{- $_ := set $rule "ports" (list (dict "protocol" "TCP" "port" $port)) }}
{{- end }}
{{- toYaml (list $rule) }}
{{- end }}
{{- end -}}

{{/* The labels of a program of OLM v1 (its name), with those of upstream. */}}
{{- define "olm.v1Labels" -}}
app: {{ . }}
app.kubernetes.io/name: {{ . }}
app.kubernetes.io/part-of: olm
{{- end -}}

{{/* The pod of an operator, of catalogd or of operator-controller: root, name (its key among the values), app, and what it has of its own: arguments, and for its
     container and pod ports and environment (both optional), mounts and volumes, each as list items or empty. Programs of OLM v1 have a `workload`, upstream's name of their
     Deployment and account, and upstream's labels and name of the container. */}}
{{- define "olm.operatorPod" -}}
{{- $values := .root.Values -}}
{{- $own := index $values .name -}}
{{- $ports := include "olm.ports" . | fromYaml -}}
metadata:
  labels:
    {{- if .workload }}
    {{- include "olm.v1Labels" .app | nindent 4 }}
    control-plane: {{ .workload }}
    {{- else }}
    app: {{ .app }}
    {{- end }}
  {{- with include "olm.podAnnotations" . }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ .workload | default .app }}
  # Rounds in hand have 20 s, the Lease 4, spans 4.
  terminationGracePeriodSeconds: 30
  {{- include "olm.placement" (dict "root" .root "own" $own) | nindent 2 }}
  {{- with $own.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .workload | empty | ternary .app "manager" }}
      image: {{ include "olm.image" (dict "root" .root "name" "olm" "ref" $own.image.ref) | quote }}
      imagePullPolicy: {{ $own.image.pullPolicy | default $values.image.pullPolicy }}
      command: [/bin/{{ .app }}]
      args:
        {{- .arguments | trim | nindent 8 }}
        {{- include "olm.election" $values.leaderElection | nindent 8 }}
        {{- with include "olm.portArguments" . }}
        {{- . | trim | nindent 8 }}
        {{- end }}
        {{- with include "olm.tlsArguments" . }}
        {{- . | trim | nindent 8 }}
        {{- end }}
        {{- if $values.debug }}
        - --debug
        {{- end }}
        {{- with $own.commandArgs }}
        {{- include "olm.arguments" . | nindent 8 }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- with $values.releaseVersion }}
        - name: RELEASE_VERSION
          value: {{ . | quote }}
        {{- end }}
        {{- with .environment }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "olm.environment" .root }}
        {{- . | trim | nindent 8 }}
        {{- end }}
        {{- with $own.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: metrics
          containerPort: {{ $ports.plain }}
        {{- if include "olm.tlsSecret" . }}
        - name: https-metrics
          containerPort: {{ $ports.https }}
        {{- end }}
        {{- with .ports }}
        {{- . | nindent 8 }}
        {{- end }}
      livenessProbe:
        httpGet:
          path: /healthz
          port: metrics
      readinessProbe:
        periodSeconds: 1
        httpGet:
          path: /readyz
          port: metrics
      {{- with $own.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationMessagePolicy: FallbackToLogsOnError
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- with .mounts | trim }}
      volumeMounts:
        {{- . | nindent 8 }}
      {{- end }}
  {{- with .volumes | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
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
    {{- with include "olm.podAnnotations" (dict "root" . "name" "package") }}
    annotations:
      {{- . | nindent 6 }}
    {{- end }}
  spec:
    serviceAccountName: packageserver
    {{- include "olm.placement" (dict "root" . "own" .Values.package) | nindent 4 }}
    {{- with .Values.package.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
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
        {{- with printf "%s\n%s" (include "olm.environment" .) (.Values.package.env | default list | empty | ternary "" (toYaml .Values.package.env)) | trim }}
        env:
          {{- . | nindent 10 }}
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
        {{- $isPlain := eq .Values.package.installedAs "Deployment" }}
        {{- $package := dict "root" . "name" "package" }}
        {{- if or $isPlain (include "olm.mounts" $package) }}
        volumeMounts:
          {{- if $isPlain }}
          - name: apiservice-cert
            mountPath: /apiserver.local.config/certificates
            readOnly: true
          {{- end }}
          {{- include "olm.mounts" $package | trim | nindent 10 }}
        {{- end }}
    {{- if or $isPlain (include "olm.volumes" $package) }}
    volumes:
      {{- include "olm.volumes" $package | trim | nindent 6 }}
      {{- if $isPlain }}
      - name: apiservice-cert
        secret:
          secretName: {{ .Values.package.certificate.secretName | default "packageserver-serving-cert" | quote }}
          items:
            - key: tls.crt
              path: apiserver.crt
            - key: tls.key
              path: apiserver.key
      {{- end }}
    {{- end }}
{{- end -}}

{{/* A Secret (root, name) to serve a Service (service) with if nothing else creates one: the existing one, or a new one for ten years, whose
     authority is named `authority`. Keys are ECDSA P-256. */}}
{{- define "olm.madeCertificate" -}}
{{- $namespace := .root.Values.namespace -}}
{{- $data := dict -}}
{{- $host := printf "%s.%s.svc" .service $namespace -}}
{{- with lookup "v1" "Secret" $namespace .name -}}
{{- $data = .data -}}
{{- else -}}
{{- $authority := genCAWithKey .authority 3650 (genPrivateKey "ecdsa") -}}
{{- $made := genSignedCertWithKey $host (list) (list $host) 3650 $authority (genPrivateKey "ecdsa") -}}
{{- $data = dict "ca.crt" ($authority.Cert | b64enc) "tls.crt" ($made.Cert | b64enc) "tls.key" ($made.Key | b64enc) -}}
{{- end -}}
{{- dict "apiVersion" "v1" "kind" "Secret" "metadata" (dict "name" .name "namespace" $namespace) "type" "kubernetes.io/tls" "data" $data | toYaml -}}
{{- end -}}
