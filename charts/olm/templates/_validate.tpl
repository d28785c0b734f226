{{/* Seconds of a duration in whole seconds or minutes; empty for any other, which the program itself checks. */}}
{{- define "olm.seconds" -}}
{{- if regexMatch "^[0-9]{1,9}s$" . -}}{{ trimSuffix "s" . | int64 }}
{{- else if regexMatch "^[0-9]{1,7}m$" . -}}{{ mul 60 (trimSuffix "m" . | int64) }}
{{- end -}}
{{- end -}}

{{/* Fails for times of leader election with which a program would exit at once, as far as they can be parsed here. */}}
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

{{/* Fails for arguments of a program (root, name) that the chart sets itself: rights, files, Services and probes depend on them. */}}
{{- define "olm.validateArguments" -}}
{{- $name := .name -}}
{{- $own := index .root.Values $name -}}
{{- $said := dict "kubeconfig" "" -}}
{{- if eq $name "package" -}}
{{- $said = merge $said (dict "secure-port" "package.service.internalPort" "global-namespace" "catalog_namespace" "interval" "package.interval") -}}
{{- $own := "package.certificate" -}}
{{- $said = merge $said (dict "bind-address" "" "cert-dir" $own "tls-cert-file" $own "tls-private-key-file" $own) -}}
{{- else if eq $name "catalogd" -}}
{{- $said = merge $said (dict "tls-cert" "catalogd.tlsSecret" "tls-key" "catalogd.tlsSecret" "pull-cas-dir" "catalog.registryCA") -}}
{{- $said = merge $said (dict "catalogs-server-addr" "" "health-probe-bind-address" "" "metrics-bind-address" "" "external-address" "" "cache-dir" "") -}}
{{- else if eq $name "operatorController" -}}
{{- $tls := "operatorController.tlsSecret" -}}
{{- $said = merge $said (dict "tls-cert" $tls "tls-key" $tls "pull-cas-dir" "catalog.registryCA" "system-namespace" "namespace") -}}
{{- $said = merge $said (dict "catalogd-cas-dir" "" "health-probe-bind-address" "" "metrics-bind-address" "" "cache-path" "") -}}
{{- else -}}
{{- $tls := printf "%s.tlsSecret" $name -}}
{{- $said = merge $said (dict "tls-cert" $tls "tls-key" $tls "client-ca" (printf "%s.clientCASecret" $name)) -}}
{{- $said = merge $said (dict "health-addr" (printf "%s.service.internalPort" $name) "metrics-addr" (printf "%s.service.internalPortHttps" $name)) -}}
{{- $said = merge $said (dict "writePackageServerStatusName" "writePackageServerStatusName") -}}
{{- end -}}
{{- if eq $name "olm" -}}
{{- $said = merge $said (dict "namespace" "namespace" "writeStatusName" "writeStatusName") -}}
{{- else if eq $name "catalog" -}}
{{- $said = merge $said (dict "namespace" "catalog_namespace" "global-catalog-namespace" "catalog_namespace" "writeStatusName" "writeStatusNameCatalog") -}}
{{- $said = merge $said (dict "registry-config" "catalog.registryConfig" "registry-ca" "catalog.registryCA" "unpack-cache" "" "unpack-spool" "") -}}
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

{{/* Fails for variables, volumes and mounts of a program (root, name) that the chart sets itself: an object with two of a name is refused late, or by
     OLM alone. */}}
{{- define "olm.validatePods" -}}
{{- $name := .name -}}
{{- $own := index .root.Values $name -}}
{{- $said := dict "OLM_LOG" "log" "OLM_LOG_FORMAT" "logFormat" "OTEL_EXPORTER_OTLP_ENDPOINT" "tracing.endpoint" -}}
{{- $said = merge $said (dict "OTEL_TRACES_SAMPLER" "tracing.samplingRatio" "OTEL_TRACES_SAMPLER_ARG" "tracing.samplingRatio") -}}
{{- $said = merge $said (dict "OTEL_EXPORTER_OTLP_HEADERS" "tracing.headersSecret" "OTEL_EXPORTER_OTLP_CERTIFICATE" "tracing.caBundle") -}}
{{- if ne $name "package" -}}{{- $said = merge $said (dict "POD_NAME" "" "RELEASE_VERSION" "releaseVersion") -}}{{- end -}}
{{- range $own.env -}}
{{- if hasKey $said .name -}}
{{- fail (printf "%s.env: %s: the chart has that variable itself; %s" $name .name (index $said .name | empty | ternary "leave it out" (printf "say %s" (index $said .name)))) -}}
{{- end -}}
{{- end -}}
{{- range $field := list "env" "volumes" -}}
{{- $names := list -}}
{{- range index $own $field -}}
{{- if has .name $names -}}
{{- fail (printf "%s.%s: %s is there twice; say it once" $name $field .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- $ours := list "cache" "registry-config" "catalogd-ca" "srv-cert" "profile-collector-cert" "collector-ca" "apiservice-cert" "webhook-cert" -}}
{{- range $own.volumes -}}
{{- if has .name $ours -}}
{{- fail (printf "%s.volumes: %s: the chart, or OLM, has a volume of that name; say another" $name .name) -}}
{{- end -}}
{{- end -}}
{{- $places := list "cache" "etc/olm/registries" "etc/olm/collector" "srv-cert" "profile-collector-cert" "apiserver.local.config/certificates" -}}
{{- $places = concat $places (list "var/cache/catalogd" "var/cache/operator-controller" "etc/olm/registry-ca" "etc/olm/catalogd-ca") -}}
{{- range $own.volumeMounts -}}
{{- if has (trimAll "/" .mountPath) $places -}}
{{- fail (printf "%s.volumeMounts: %s: something of the chart, or of OLM, is mounted there; say another path" $name .mountPath) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails for values with which OLM would not work, or would be insecure, and for upstream's values that have no effect here: an error is better
     than to ignore them. */}}
{{- define "olm.validate" -}}
{{- range $field := list "namespace" "operator_namespace" -}}
{{- $namespace := index $.Values $field -}}
{{- if has $namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "%s: %q: OLM needs one of its own: its labels and policies hold for whatever else runs there" $field $namespace) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.priorityClass.create) .Values.priorityClass.name (ne .Values.priorityClass.name "operator-lifecycle-manager-no-preemption") -}}
{{- fail (printf "priorityClass.name: %q: with create: false the chart gives its pods none; say olm.priorityClassName, catalog.priorityClassName and package.priorityClassName" .Values.priorityClass.name) -}}
{{- end -}}
{{- include "olm.validateTracing" .Values.tracing -}}
{{- include "olm.validateImages" . -}}
{{- range $name := list "olm" "catalog" "package" "catalogd" "operatorController" -}}
{{- include "olm.validateArguments" (dict "root" $ "name" $name) -}}
{{- include "olm.validatePods" (dict "root" $ "name" $name) -}}
{{- end -}}
{{- include "olm.validateKubeAPIServer" . -}}
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
{{- fail "certManager.certificate.name: empty: metrics would be served without TLS; set the name of a Secret" -}}
{{- end -}}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuer.name) -}}
{{- fail "certManager.issuer.name: empty: nobody would make the certificate; say the name of an issuer" -}}
{{- end -}}
{{- $signer := (.Values.certManager.issuer.ca | default dict).secretName -}}
{{- if and .Values.certManager.enabled .Values.certManager.issuer.selfSigned $signer -}}
{{- fail (printf "certManager.issuer.ca.secretName: %q: nothing would be signed with it; say certManager.issuer.selfSigned: false as well" $signer) -}}
{{- end -}}
{{- if and .Values.certManager.enabled (or .Values.certManager.issuer.selfSigned $signer) (ne .Values.certManager.issuer.kind "Issuer") -}}
{{- fail "certManager.issuer: the chart makes an Issuer alone; with a ClusterIssuer of yours say selfSigned: false, and no ca.secretName" -}}
{{- end -}}
{{- range $name := list "olm" "catalog" -}}
{{- if and $.Values.serviceCa.enabled (not (include "olm.tlsSecret" (dict "root" $ "name" $name))) -}}
{{- fail (printf "serviceCa.%sOperator.secretName: empty: metrics would be served without TLS; set the name of a Secret" $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.v1.enabled .Values.serviceCa.enabled (not (include "olm.tlsSecret" (dict "root" $ "name" "catalogd"))) -}}
{{- fail "serviceCa.catalogd.secretName: empty: catalogd would have no certificate; set the name of a Secret" -}}
{{- end -}}
{{- if and .Values.v1.enabled .Values.serviceCa.enabled (not (include "olm.tlsSecret" (dict "root" $ "name" "operatorController"))) -}}
{{- fail "serviceCa.operatorController.secretName: empty: metrics would be served without TLS; set the name of a Secret" -}}
{{- end -}}
{{- if eq .Values.olm.service.name .Values.catalog.service.name -}}
{{- fail (printf "olm.service.name, catalog.service.name: %q: two Services cannot have one name" .Values.olm.service.name) -}}
{{- end -}}
{{- $owners := dict "packageserver-metrics" "package-server" "packageserver-service" "package-server" -}}
{{- $owners = merge $owners (dict "catalogd-service" "catalogd" "operator-controller-service" "operator-controller") -}}
{{- range $name := list "olm" "catalog" -}}
{{- $theirs := (index $.Values $name).service.name -}}
{{- with get $owners $theirs -}}
{{- fail (printf "%s.service.name: %q: %s has a Service of that name; say another" $name $theirs .) -}}
{{- end -}}
{{- end -}}
{{- $isCsv := and .Values.package.enabled (eq .Values.package.installedAs "ClusterServiceVersion") -}}
{{- if and (include "olm.statusName" .Values.writePackageServerStatusName) (not $isCsv) -}}
{{- fail "writePackageServerStatusName: it is told from package-server's ClusterServiceVersion, which these values leave out: the ClusterOperator would never be available; leave it empty" -}}
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
{{- if ne (empty $certificate.secretName) (empty ($certificate.caBundle | default "" | trim)) -}}
{{- fail "package.certificate: secretName and caBundle go together: the API server has to know who signed what is served with" -}}
{{- end -}}
{{- if and $certificate.secretName (ne .Values.package.installedAs "Deployment") -}}
{{- fail "package.certificate: OLM makes the certificate of a ClusterServiceVersion; say package.installedAs: Deployment as well" -}}
{{- end -}}
{{- range $field, $text := dict "package.certificate.caBundle" $certificate.caBundle "tracing.caBundle" .Values.tracing.caBundle "catalog.registryCA" .Values.catalog.registryCA -}}
{{- if and (trim ($text | default "")) (not (include "olm.certificates" $text)) -}}
{{- fail (printf "%s: no certificate in it is whole: none has both its lines, BEGIN CERTIFICATE and END CERTIFICATE" $field) -}}
{{- end -}}
{{- end -}}
{{- if and (include "olm.certificates" (.Values.tracing.caBundle | default "")) (hasPrefix "http:" (.Values.tracing.endpoint | default "")) -}}
{{- fail "tracing.caBundle: tracing.endpoint is no https://…: spans would go without TLS to whoever answers; say https:// or leave caBundle out" -}}
{{- end -}}
{{- if eq .Values.namespace .Values.operator_namespace -}}
{{- fail "operator_namespace: must be another than namespace: operators in it see every namespace, and OLM's own need the restricted profile" -}}
{{- end -}}
{{- end -}}

{{/* Fails for settings of spans with which none would arrive. */}}
{{- define "olm.validateTracing" -}}
{{- $endpoint := .endpoint | default "" -}}
{{- if regexMatch "/v1/traces/*$" $endpoint -}}
{{- fail (printf "tracing.endpoint: %q: /v1/traces is appended by the programs; leave it out" $endpoint) -}}
{{- end -}}
{{- if and (.headersSecret | default dict).name (not $endpoint) -}}
{{- fail (printf "tracing.headersSecret.name: %q: no spans are sent without tracing.endpoint; say that as well, or leave the Secret out" .headersSecret.name) -}}
{{- end -}}
{{- end -}}

{{/* Fails for upstream's images: they lack the programs of this chart, and their pods would report that late, or not at all. */}}
{{- define "olm.validateImages" -}}
{{- $found := list -}}
{{- range $name := list "olm" "catalog" "package" "catalogd" "operatorController" -}}
{{- $own := (index $.Values $name).image.ref -}}
{{- $image := include "olm.image" (dict "root" $ "name" "olm" "ref" $own) -}}
{{- if include "olm.isUpstreams" $image -}}
{{- $found = append $found (printf "%s: %s" (empty $own | ternary "image.registry" (printf "%s.image.ref" $name)) $image) -}}
{{- end -}}
{{- end -}}
{{- $own := trimPrefix "--opmImage=" (.Values.catalog.opmImageArgs | default "") -}}
{{- $image := include "olm.image" (dict "root" . "name" "opm" "ref" $own) -}}
{{- if include "olm.isUpstreams" $image -}}
{{- $found = append $found (printf "%s: %s" (empty $own | ternary "image.registry" "catalog.opmImageArgs") $image) -}}
{{- end -}}
{{- $arguments := .Values.catalog.commandArgs | default list -}}
{{- $before := "" -}}
{{- range $argument := kindIs "string" $arguments | ternary (list $arguments) $arguments -}}
{{- $pair := regexMatch "^--(opmImage|util-image)$" $before | ternary (printf "%s=%s" $before $argument) $argument -}}
{{- $image := regexReplaceAll "^--(opmImage|util-image)=" $pair "" -}}
{{- if and (ne $image $pair) (include "olm.isUpstreams" $image) -}}
{{- $found = append $found (printf "catalog.commandArgs: %s" $image) -}}
{{- end -}}
{{- $before = $argument -}}
{{- end -}}
{{- with $found -}}
{{- fail (printf "%s: upstream's images, which have other programs; leave each out, or empty, and say image.registry: where you put those of this release" (join ", " (uniq .))) -}}
{{- end -}}
{{- end -}}

{{/* Fails for a rule with which no pod could reach the API server, if the cluster reports the ports of the API server. */}}
{{- define "olm.validateKubeAPIServer" -}}
{{- $rule := .Values.networkPolicy.kubeAPIServer | default dict -}}
{{- if and .Values.networkPolicy.enabled $rule.ports -}}
{{- range (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes").ports -}}
{{- $listens := int .port -}}
{{- $open := false -}}
{{- range $rule.ports -}}
{{- $first := .port | default 1 -}}
{{- $last := .endPort | default (empty .port | ternary 65535 .port) -}}
{{- if and (eq (.protocol | default "TCP") "TCP") (le (int $first) $listens) (ge (int $last) $listens) -}}{{- $open = true -}}{{- end -}}
{{- end -}}
{{- if not $open -}}
{{- fail (printf "networkPolicy.kubeAPIServer.ports: without %d OLM would be cut off: policies mean the port that the API server listens on, not that of its Service; say that one as well" $listens) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
