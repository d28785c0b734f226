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
{{- $name := . | default "" -}}
{{- if ne $name "\"\"" -}}{{ $name }}{{- end -}}
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

{{/* Seconds of a duration that is whole seconds or minutes; empty of any other, which the program itself looks at. */}}
{{- define "olm.seconds" -}}
{{- if regexMatch "^[0-9]{1,9}s$" . -}}{{ trimSuffix "s" . | int64 }}
{{- else if regexMatch "^[0-9]{1,7}m$" . -}}{{ mul 60 (trimSuffix "m" . | int64) }}
{{- end -}}
{{- end -}}

{{/* Stops at times of an election with which a program ends at once, as far as they can be read here. */}}
{{- define "olm.validateElection" -}}
{{- $lease := include "olm.seconds" (.leaseDuration | default "15s") -}}
{{- $deadline := include "olm.seconds" (.renewDeadline | default "10s") -}}
{{- $period := include "olm.seconds" (.retryPeriod | default "2s") -}}
{{- if $lease -}}
{{- if or (lt (int64 $lease) 1) (gt (int64 $lease) 300) -}}
{{- fail (printf "leaderElection.leaseDuration: %ss: a Lease is had for 1s to 300s" $lease) -}}
{{- end -}}
{{- if and $deadline (gt (mul 5 (int64 $deadline)) (mul 4 (int64 $lease))) -}}
{{- fail (printf "leaderElection.renewDeadline: %ss is more than four fifths of leaseDuration, %ss: say both" $deadline $lease) -}}
{{- end -}}
{{- end -}}
{{- if $period -}}
{{- if lt (int64 $period) 1 -}}
{{- fail "leaderElection.retryPeriod: 0s: say how long is between two renewals" -}}
{{- end -}}
{{- if and $deadline (gt (mul 2 (int64 $period)) (int64 $deadline)) -}}
{{- fail (printf "leaderElection.retryPeriod: %ss is more than half of renewDeadline, %ss: say both" $period $deadline) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Stops at arguments of a program (root, name) that the chart gives itself: rights, files, Services and probes follow what it gives. */}}
{{- define "olm.validateArguments" -}}
{{- $name := .name -}}
{{- $own := index .root.Values $name -}}
{{- $said := dict "kubeconfig" "" -}}
{{- if eq $name "package" -}}
{{- $said = merge $said (dict "secure-port" "package.service.internalPort" "global-namespace" "catalog_namespace" "interval" "package.interval") -}}
{{- else -}}
{{- $tls := printf "%s.tlsSecret" $name -}}
{{- $said = merge $said (dict "tls-cert" $tls "tls-key" $tls "client-ca" (printf "%s.clientCASecret" $name) "health-addr" "" "metrics-addr" "") -}}
{{- $said = merge $said (dict "writePackageServerStatusName" "writePackageServerStatusName") -}}
{{- end -}}
{{- if eq $name "olm" -}}
{{- $said = merge $said (dict "namespace" "namespace" "writeStatusName" "writeStatusName") -}}
{{- else if eq $name "catalog" -}}
{{- $said = merge $said (dict "namespace" "catalog_namespace" "global-catalog-namespace" "catalog_namespace" "writeStatusName" "writeStatusNameCatalog") -}}
{{- $said = merge $said (dict "registry-config" "catalog.registryConfig" "unpack-cache" "" "unpack-spool" "" "content-cache" "") -}}
{{- end -}}
{{- $arguments := $own.commandArgs | default list -}}
{{- range $argument := kindIs "string" $arguments | ternary (list $arguments) $arguments -}}
{{- if and (ne $name "package") (hasPrefix "--leader-elect" (toString $argument)) -}}
{{- fail (printf "%s.commandArgs: %q: one process is elected in any case, by the Lease that the chart's rights name; its times are leaderElection" $name $argument) -}}
{{- end -}}
{{- range $flag, $value := $said -}}
{{- if regexMatch (printf "^--%s(=|$)" $flag) (toString $argument) -}}
{{- if $value -}}
{{- fail (printf "%s.commandArgs: %q: say %s, which brings the rights, files and ports that belong to it" $name $argument $value) -}}
{{- end -}}
{{- fail (printf "%s.commandArgs: %q: probes, Services, rights and files of the chart are for what it says itself; leave it out" $name $argument) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Stops at values with which OLM would not work, or be open, and at those that mean something upstream and are not kept here: better told
     than left out. */}}
{{- define "olm.validate" -}}
{{- if has .Values.namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "namespace: %q: OLM needs one of its own: its policies cut off whatever else runs there" .Values.namespace) -}}
{{- end -}}
{{- range $name := list "olm" "catalog" "package" -}}
{{- with (index $.Values $name).image.ref -}}
{{- if regexMatch "(^|/)operator-framework/olm(:|@|$)" . -}}
{{- fail (printf "%s.image.ref: %q: that is upstream's image, which has other programs; leave image.ref out and say image.registry" $name .) -}}
{{- end -}}
{{- end -}}
{{- include "olm.validateArguments" (dict "root" $ "name" $name) -}}
{{- end -}}
{{- include "olm.validateElection" .Values.leaderElection -}}
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
{{- if and .Values.certManager.enabled (not .Values.certManager.certificate.name) -}}
{{- fail "certManager.certificate.name: empty: metrics would be told without TLS; say the name of a Secret" -}}
{{- end -}}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuer.name) -}}
{{- fail "certManager.issuer.name: empty: nobody would make the certificate; say the name of an issuer" -}}
{{- end -}}
{{- if and .Values.certManager.enabled .Values.certManager.issuer.selfSigned (ne .Values.certManager.issuer.kind "Issuer") -}}
{{- fail "certManager.issuer: the chart makes an Issuer alone; with a ClusterIssuer of yours say selfSigned: false" -}}
{{- end -}}
{{- range $name := list "olm" "catalog" -}}
{{- if and $.Values.serviceCa.enabled (not (include "olm.tlsSecret" (dict "root" $ "name" $name))) -}}
{{- fail (printf "serviceCa.%sOperator.secretName: empty: metrics would be told without TLS; say the name of a Secret" $name) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.olm.service.name .Values.catalog.service.name -}}
{{- fail (printf "olm.service.name, catalog.service.name: %q: two Services cannot have one name" .Values.olm.service.name) -}}
{{- end -}}
{{- $reported := dict -}}
{{- range $value := list "writeStatusName" "writeStatusNameCatalog" "writePackageServerStatusName" -}}
{{- with include "olm.statusName" (index $.Values $value) -}}
{{- if hasKey $reported . -}}
{{- fail (printf "%s, %s: %q: two would write over each other in one ClusterOperator; say another name" (index $reported .) $value .) -}}
{{- end -}}
{{- $_ := set $reported . $value -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString .Values.package.maxUnavailable | trimSuffix "%" | int) 0) (eq (toString .Values.package.maxSurge | trimSuffix "%" | int) 0) -}}
{{- fail "package.maxUnavailable, package.maxSurge: both 0: no pod could be replaced; say 1 for one of them" -}}
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

{{/* What every program reads of the log and of spans, as environment; empty where nothing is said. */}}
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
{{- /* 0 is a ratio, too, and null none. */}}
{{- $ratio := $.Values.tracing.samplingRatio }}
{{- if not (or (kindIs "invalid" $ratio) (eq (toString $ratio) "")) }}
- name: OTEL_TRACES_SAMPLER
  value: parentbased_traceidratio
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ toString $ratio | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Rules of a NetworkPolicy by the names of their values (root, names); null is as good as one that names nothing. */}}
{{- define "olm.rules" -}}
{{- $rules := list -}}
{{- range .names -}}{{- $rules = append $rules (index $.root.Values.networkPolicy . | default dict) -}}{{- end -}}
{{- toYaml $rules -}}
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
        {{- with include "olm.environment" . }}
        env:
          {{- . | trim | nindent 10 }}
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
