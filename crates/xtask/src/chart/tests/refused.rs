//! Values that the chart rejects, by its schema or by its templates.

/// Values, and a part of the error.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("nonsense: 1", "'nonsense' not allowed"),
    (
        "olm: {replicas: 1}",
        "at '/olm': additional properties 'replicas' not allowed",
    ),
    (
        "olm: {replicaCount: two}",
        "at '/olm/replicaCount': got string, want integer",
    ),
    // Its API would be unavailable, and discovery as well as every deletion of a namespace wait for it.
    ("package: {replicaCount: 0}", "at '/package/replicaCount'"),
    ("catalog: {image: {reff: x}}", "at '/catalog/image'"),
    ("debug: \"yes\"", "at '/debug': got string, want boolean"),
    ("image: {pullPolicy: Sometimes}", "at '/image/pullPolicy'"),
    ("image: {olm: {digest: latest}}", "at '/image/olm/digest'"),
    ("image: {pullSecrets: [reg]}", "at '/image/pullSecrets/0'"),
    ("namespace: Not_A_Name", "at '/namespace'"),
    (
        "namespace_psa: {enforceLevel: strict}",
        "at '/namespace_psa/enforceLevel'",
    ),
    ("package: {interval: often}", "at '/package/interval'"),
    (
        "package: {service: {internalPort: 0}}",
        "at '/package/service/internalPort'",
    ),
    ("catalog: {commandArgs: {a: b}}", "at '/catalog/commandArgs'"),
    ("subscribers: [view]", "at '/subscribers/0'"),
    ("priorityClass: {value: 2000000000}", "at '/priorityClass/value'"),
    (
        "olm: {commandArgs: --leader-elect=false}",
        "olm.commandArgs: \"--leader-elect=false\": one process is elected in any case",
    ),
    (
        "catalog: {commandArgs: [--debug, --leader-elect-resource-name=mine]}",
        "catalog.commandArgs: \"--leader-elect-resource-name=mine\"",
    ),
    (
        "olm: {commandArgs: --writeStatusName=mine}",
        "olm.commandArgs: \"--writeStatusName=mine\": say writeStatusName, which",
    ),
    (
        "catalog: {commandArgs: [--debug, --writeStatusName, mine]}",
        "catalog.commandArgs: \"--writeStatusName\": say writeStatusNameCatalog, which",
    ),
    (
        "olm: {commandArgs: --writePackageServerStatusName=p}",
        "say writePackageServerStatusName, which",
    ),
    ("olm: {commandArgs: --tls-cert=/a}", "say olm.tlsSecret, which"),
    (
        "catalog: {commandArgs: [--tls-key, /a]}",
        "say catalog.tlsSecret, which",
    ),
    (
        "catalog: {commandArgs: --client-ca=/a}",
        "say catalog.clientCASecret, which",
    ),
    (
        "leaderElection: {leaseDuration: long}",
        "at '/leaderElection/leaseDuration'",
    ),
    (
        "catalog: {registryConfig: {a_1: x}}",
        "invalid propertyName 'a_1'",
    ),
    ("writeStatusName: Not_A_Name", "at '/writeStatusName'"),
    (
        "watchedNamespaces: a,b",
        "watchedNamespaces: \"a,b\": OLM watches all namespaces",
    ),
    (
        "{certManager: {enabled: true}, serviceCa: {enabled: true}}",
        "certManager.enabled, serviceCa.enabled: one of them makes the certificates",
    ),
    (
        "catalog: {clientCASecret: c}",
        "catalog.clientCASecret: clients show certificates over TLS alone; say catalog.tlsSecret as well",
    ),
    (
        "monitoring: {dashboard: yes please}",
        "at '/monitoring/dashboard'",
    ),
    (
        "namespace: operators",
        "operator_namespace: must be another than namespace",
    ),
    // Namespaces that are not only OLM's.
    (
        "namespace: default",
        "namespace: \"default\": OLM needs one of its own",
    ),
    ("namespace: kube-system", "namespace: \"kube-system\""),
    ("namespace: kube-public", "namespace: \"kube-public\""),
    ("namespace: kube-node-lease", "namespace: \"kube-node-lease\""),
    // Upstream's images.
    (
        "olm: {image: {ref: 'quay.io/operator-framework/olm:master'}}",
        "olm.image.ref: quay.io/operator-framework/olm:master: upstream's images",
    ),
    (
        "{catalog: {image: {ref: 'quay.io/operator-framework/olm@sha256:0'}}, package: {image: {ref: 'quay.io/openshift/origin-operator-lifecycle-manager:4.20'}}}",
        "catalog.image.ref: quay.io/operator-framework/olm@sha256:0, package.image.ref: quay.io/openshift/origin-operator-lifecycle-manager:4.20: upstream's images",
    ),
    (
        "olm: {image: {ref: 'registry.redhat.io/openshift4/ose-operator-lifecycle-manager-rhel9:v4.20'}}",
        "olm.image.ref: registry.redhat.io/openshift4/",
    ),
    (
        "olm: {image: {ref: 'quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0'}}",
        "olm.image.ref: quay.io/openshift-release-dev/",
    ),
    (
        "image: {registry: quay.io/operator-framework}",
        "image.registry: quay.io/operator-framework/olm:0.1.0, image.registry: quay.io/operator-framework/opm:0.1.0: upstream's",
    ),
    (
        "catalog: {opmImageArgs: '--opmImage=quay.io/operator-framework/opm:latest'}",
        "catalog.opmImageArgs: quay.io/operator-framework/opm:latest: upstream's",
    ),
    (
        "catalog: {commandArgs: '--opmImage=quay.io/operator-framework/opm:latest'}",
        "catalog.commandArgs: quay.io/operator-framework/opm:latest: upstream's",
    ),
    (
        "catalog: {commandArgs: [--debug, --util-image, 'quay.io/operator-framework/olm:master']}",
        "catalog.commandArgs: quay.io/operator-framework/olm:master: upstream's",
    ),
    // Invalid names.
    ("olm: {tlsSecret: ' '}", "at '/olm/tlsSecret'"),
    (
        "catalog: {clientCASecret: Foo_Bar}",
        "at '/catalog/clientCASecret'",
    ),
    (
        "package: {priorityClassName: A}",
        "at '/package/priorityClassName'",
    ),
    ("priorityClass: {name: Not_One}", "at '/priorityClass/name'"),
    ("priorityClass: {name: ''}", "at '/priorityClass/name'"),
    (
        "image: {pullSecrets: [{name: ''}]}",
        "at '/image/pullSecrets/0/name'",
    ),
    (
        "image: {pullSecrets: [{name: 'a b'}]}",
        "at '/image/pullSecrets/0/name'",
    ),
    ("monitoring: {namespace: ''}", "at '/monitoring/namespace'"),
    ("monitoring: {namespace: a.b}", "at '/monitoring/namespace'"),
    (
        "monitoring: {serviceAccount: ''}",
        "at '/monitoring/serviceAccount'",
    ),
    (
        "certManager: {issuer: {name: I_1}}",
        "at '/certManager/issuer/name'",
    ),
    (
        "certManager: {issuer: {kind: Other}}",
        "at '/certManager/issuer/kind'",
    ),
    (
        "certManager: {certificate: {name: ' '}}",
        "at '/certManager/certificate/name'",
    ),
    (
        "serviceCa: {catalogOperator: {secretName: A}}",
        "at '/serviceCa/catalogOperator/secretName'",
    ),
    // An API server that could not verify the certificate.
    (
        "package: {certificate: {secretName: mine}}",
        "package.certificate: secretName and caBundle go together",
    ),
    (
        "package: {certificate: {secretName: mine, caBundle: '-----BEGIN CERTIFICATE-----'}}",
        "say package.installedAs: Deployment as well",
    ),
    (
        "package: {installedAs: Deployment, certificate: {secretName: mine, caBundle: '-----BEGIN CERTIFICATE-----'}}",
        "package.certificate.caBundle: no certificate in it is whole",
    ),
    (
        "tracing: {endpoint: 'https://c', caBundle: '-----BEGIN CERTIFICATE-----'}",
        "tracing.caBundle: no certificate in it is whole",
    ),
    (
        "tracing: {endpoint: 'https://c', caBundle: AAAA}",
        "at '/tracing/caBundle'",
    ),
    (
        "tracing: {endpoint: 'http://c', caBundle: '-----BEGIN CERTIFICATE----- A -----END CERTIFICATE-----'}",
        "tracing.caBundle: tracing.endpoint is no https://",
    ),
    (
        "tracing: {headersSecret: {key: a b}}",
        "at '/tracing/headersSecret/key'",
    ),
    // Metrics that would lose TLS.
    (
        "certManager: {enabled: true, certificate: {name: ''}}",
        "certManager.certificate.name: empty: metrics would be served without TLS",
    ),
    (
        "certManager: {enabled: true, issuer: {name: ''}}",
        "certManager.issuer.name: empty: nobody would make the certificate",
    ),
    (
        "certManager: {enabled: true, issuer: {kind: ClusterIssuer}}",
        "certManager.issuer: the chart makes an Issuer alone",
    ),
    (
        "certManager: {enabled: true, issuer: {ca: {secretName: s}}}",
        "certManager.issuer.ca.secretName: \"s\": nothing would be signed with it",
    ),
    (
        "certManager: {enabled: true, issuer: {kind: ClusterIssuer, selfSigned: false, ca: {secretName: s}}}",
        "certManager.issuer: the chart makes an Issuer alone",
    ),
    (
        "certManager: {certificate: {extraIpAddresses: [host]}}",
        "at '/certManager/certificate/extraIpAddresses/0'",
    ),
    (
        "serviceCa: {enabled: true, olmOperator: {secretName: ''}}",
        "serviceCa.olmOperator.secretName: empty: metrics would be served without TLS",
    ),
    (
        "serviceCa: {enabled: true, catalogOperator: {secretName: ''}}",
        "serviceCa.catalogOperator.secretName: empty",
    ),
    // Values that templates read must not be removed.
    ("networkPolicy: null", "missing property 'networkPolicy'"),
    (
        "catalog: {service: null}",
        "at '/catalog': missing property 'service'",
    ),
    (
        "olm: {replicaCount: null}",
        "at '/olm': missing property 'replicaCount'",
    ),
    (
        "catalog: {setWorkloadUserID: null}",
        "at '/catalog': missing property 'setWorkloadUserID'",
    ),
    ("tracing: null", "missing property 'tracing'"),
    (
        "olm: {service: {internalPort: null}}",
        "at '/olm/service': missing property 'internalPort'",
    ),
    (
        "catalog: {service: {internalPortHttps: 70000}}",
        "at '/catalog/service/internalPortHttps'",
    ),
    // Times of leader election.
    (
        "leaderElection: {leaseDuration: 1.5.5s}",
        "at '/leaderElection/leaseDuration'",
    ),
    (
        "leaderElection: {renewDeadline: 5}",
        "at '/leaderElection/renewDeadline'",
    ),
    (
        "leaderElection: {leaseDuration: 5s}",
        "leaderElection.renewDeadline: 10s is more than four fifths of leaseDuration, 5s",
    ),
    (
        "leaderElection: {renewDeadline: 13s}",
        "leaderElection.renewDeadline: 13s is more than four fifths of leaseDuration, 15s",
    ),
    (
        "leaderElection: {leaseDuration: 6m}",
        "leaderElection.leaseDuration: 360s: a Lease is had for 1s to 300s",
    ),
    (
        "leaderElection: {leaseDuration: 0s}",
        "leaderElection.leaseDuration: 0s: a Lease is had for",
    ),
    (
        "leaderElection: {retryPeriod: 6s}",
        "leaderElection.retryPeriod: 6s is more than half of renewDeadline, 10s",
    ),
    (
        "leaderElection: {retryPeriod: 0s}",
        "leaderElection.retryPeriod: 0s: say how long",
    ),
    // Of catalogd.
    ("v1: {enabled: yes please}", "at '/v1/enabled'"),
    ("v1: null", "missing property 'v1'"),
    (
        "catalogd: {service: {name: x}}",
        "at '/catalogd': additional properties 'service' not allowed",
    ),
    ("catalogd: {pullSecrets: [reg]}", "at '/catalogd/pullSecrets/0'"),
    (
        "catalogd: {commandArgs: --tls-key=/a}",
        "say catalogd.tlsSecret, which",
    ),
    (
        "catalogd: {commandArgs: --pull-cas-dir=/a}",
        "say catalog.registryCA, which",
    ),
    (
        "catalogd: {commandArgs: '--catalogs-server-addr=:1'}",
        "catalogd.commandArgs: \"--catalogs-server-addr=:1\": probes, Services",
    ),
    (
        "{v1: {enabled: true}, serviceCa: {enabled: true, catalogd: {secretName: ''}}}",
        "serviceCa.catalogd.secretName: empty",
    ),
    (
        "olm: {service: {name: catalogd-service}}",
        "olm.service.name: \"catalogd-service\": catalogd has a Service of that name",
    ),
    // Of operator-controller.
    (
        "operatorController: {service: {name: x}}",
        "at '/operatorController': additional properties 'service' not allowed",
    ),
    (
        "operatorController: {commandArgs: --tls-cert=/a}",
        "say operatorController.tlsSecret, which",
    ),
    (
        "operatorController: {commandArgs: --pull-cas-dir=/a}",
        "say catalog.registryCA, which",
    ),
    (
        "operatorController: {commandArgs: --system-namespace=a}",
        "operatorController.commandArgs: \"--system-namespace=a\": say namespace, which",
    ),
    (
        "operatorController: {commandArgs: --catalogd-cas-dir=/a}",
        "operatorController.commandArgs: \"--catalogd-cas-dir=/a\": probes, Services",
    ),
    (
        "operatorController: {volumes: [{name: catalogd-ca, emptyDir: {}}]}",
        "operatorController.volumes: catalogd-ca: the chart, or OLM, has a volume of that name",
    ),
    (
        "{v1: {enabled: true}, serviceCa: {enabled: true, operatorController: {secretName: ''}}}",
        "serviceCa.operatorController.secretName: empty",
    ),
    (
        "catalog: {service: {name: operator-controller-service}}",
        "catalog.service.name: \"operator-controller-service\": operator-controller has a Service of that name",
    ),
    // Arguments that the chart sets itself, in both forms.
    (
        "olm: {commandArgs: '--health-addr=0.0.0.0:9090'}",
        "olm.commandArgs: \"--health-addr=0.0.0.0:9090\": say olm.service.internalPort, which",
    ),
    (
        "catalog: {commandArgs: [--metrics-addr, ':1']}",
        "catalog.commandArgs: \"--metrics-addr\": say catalog.service.internalPortHttps, which",
    ),
    (
        "olm: {commandArgs: --namespace=x}",
        "olm.commandArgs: \"--namespace=x\": say namespace, which",
    ),
    (
        "catalog: {commandArgs: --namespace=x}",
        "catalog.commandArgs: \"--namespace=x\": say catalog_namespace, which",
    ),
    (
        "catalog: {commandArgs: --global-catalog-namespace=x}",
        "say catalog_namespace, which",
    ),
    (
        "catalog: {commandArgs: --writePackageServerStatusName=p}",
        "say writePackageServerStatusName, which",
    ),
    (
        "olm: {commandArgs: --kubeconfig=/k}",
        "olm.commandArgs: \"--kubeconfig=/k\": probes",
    ),
    (
        "package: {commandArgs: --kubeconfig=/k}",
        "package.commandArgs: \"--kubeconfig=/k\": probes",
    ),
    (
        "catalog: {commandArgs: --registry-config=/r}",
        "say catalog.registryConfig, which",
    ),
    (
        "catalog: {commandArgs: --unpack-cache=/r}",
        "\"--unpack-cache=/r\": probes",
    ),
    (
        "catalog: {commandArgs: --unpack-spool=/r}",
        "\"--unpack-spool=/r\": probes",
    ),
    (
        "package: {commandArgs: --secure-port=1}",
        "say package.service.internalPort, which",
    ),
    (
        "package: {commandArgs: --global-namespace=a}",
        "say catalog_namespace, which",
    ),
    (
        "package: {commandArgs: --bind-address=127.0.0.1}",
        "package.commandArgs: \"--bind-address=127.0.0.1\": probes",
    ),
    (
        "package: {commandArgs: [--cert-dir, /c]}",
        "package.commandArgs: \"--cert-dir\": say package.certificate, which",
    ),
    (
        "package: {commandArgs: --tls-cert-file=/c}",
        "\"--tls-cert-file=/c\": say package.certificate, which",
    ),
    (
        "package: {commandArgs: --tls-private-key-file=/k}",
        "\"--tls-private-key-file=/k\": say package.certificate, which",
    ),
    (
        "package: {commandArgs: [--interval, 1h]}",
        "say package.interval, which",
    ),
    (
        "catalog: {opmImageArgs: 'quay.io/x/opm:1'}",
        "at '/catalog/opmImageArgs'",
    ),
    // Values that the API server, a node or an operator would reject.
    (
        "package: {maxSurge: 0}",
        "package.maxUnavailable, package.maxSurge: both 0",
    ),
    (
        "package: {maxUnavailable: 0%, maxSurge: 00%}",
        "package.maxUnavailable, package.maxSurge: both 0",
    ),
    (
        "{olm: {service: {name: a}}, catalog: {service: {name: a}}}",
        "olm.service.name, catalog.service.name: \"a\": two Services",
    ),
    (
        "{writeStatusName: a, writeStatusNameCatalog: a}",
        "writeStatusName, writeStatusNameCatalog: \"a\": two would write",
    ),
    (
        "{writeStatusName: a, writePackageServerStatusName: a}",
        "writeStatusName, writePackageServerStatusName: \"a\"",
    ),
    ("image: {registry: 'https://reg/x'}", "at '/image/registry'"),
    ("image: {registry: 'reg example.com'}", "at '/image/registry'"),
    ("image: {registry: ''}", "at '/image/registry'"),
    ("releaseVersion: foo", "at '/releaseVersion'"),
    ("releaseVersion: 4.18-rc1", "at '/releaseVersion'"),
    ("tracing: {endpoint: 'collector:4318'}", "at '/tracing/endpoint'"),
    (
        "tracing: {endpoint: 'grpc://collector:4317'}",
        "at '/tracing/endpoint'",
    ),
    ("tracing: {samplingRatio: 2}", "at '/tracing/samplingRatio'"),
    ("tracing: {samplingRatio: '10%'}", "at '/tracing/samplingRatio'"),
    // Variables, mounts and other parts that the pods always have.
    (
        "olm: {env: [{name: POD_NAME, value: x}]}",
        "olm.env: POD_NAME: the chart has that variable itself; leave it out",
    ),
    (
        "package: {env: [{name: A}, {name: OLM_LOG, value: debug}]}",
        "package.env: OLM_LOG: the chart has that variable itself; say log",
    ),
    (
        "catalog: {env: [{name: OTEL_EXPORTER_OTLP_HEADERS}]}",
        "say tracing.headersSecret",
    ),
    ("olm: {env: [{name: 'A B'}]}", "at '/olm/env/0/name'"),
    ("olm: {env: [{name: A, value: 1}]}", "at '/olm/env/0/value'"),
    ("olm: {env: {A: b}}", "at '/olm/env'"),
    (
        "catalog: {volumes: [{name: cache}]}",
        "catalog.volumes: cache: the chart, or OLM, has a volume of that name",
    ),
    (
        "package: {volumes: [{name: apiservice-cert}]}",
        "package.volumes: apiservice-cert",
    ),
    (
        "catalog: {volumeMounts: [{name: a, mountPath: /etc/olm/registries/}]}",
        "catalog.volumeMounts: /etc/olm/registries/: something of the chart",
    ),
    (
        "olm: {volumeMounts: [{name: a, mountPath: a}]}",
        "at '/olm/volumeMounts/0/mountPath'",
    ),
    ("olm: {podAnnotations: {a: 1}}", "at '/olm/podAnnotations/a'"),
    ("uninstallHook: null", "missing property 'uninstallHook'"),
    (
        "catalog: {commandArgs: --registry-ca=/a}",
        "say catalog.registryCA, which",
    ),
    ("catalog: {registryCA: AAAA}", "at '/catalog/registryCA'"),
    (
        "catalog: {registryCA: '-----BEGIN CERTIFICATE-----'}",
        "catalog.registryCA: no certificate in it is whole",
    ),
    (
        "operator_namespace: kube-system",
        "operator_namespace: \"kube-system\": OLM needs one of its own",
    ),
    (
        "priorityClass: {create: false, name: mine}",
        "priorityClass.name: \"mine\": with create: false the chart gives its pods none; say olm.priorityClassName",
    ),
    (
        "olm: {service: {name: packageserver-metrics}}",
        "olm.service.name: \"packageserver-metrics\": package-server has a Service of that name",
    ),
    (
        "catalog: {service: {name: packageserver-service}}",
        "catalog.service.name: \"packageserver-service\": package-server has a Service",
    ),
    (
        "{writePackageServerStatusName: p, package: {installedAs: Deployment}}",
        "writePackageServerStatusName: it is told from package-server's ClusterServiceVersion",
    ),
    (
        "{writePackageServerStatusName: p, package: {enabled: false}}",
        "the ClusterOperator would never be available; leave it empty",
    ),
    (
        "tracing: {endpoint: 'http://c:4318/v1/traces'}",
        "/v1/traces is appended by the programs; leave it out",
    ),
    (
        "tracing: {headersSecret: {name: s}}",
        "tracing.headersSecret.name: \"s\": no spans are sent without tracing.endpoint",
    ),
    // Rules of policies.
    (
        "networkPolicy: {metrics: {port: 8080}}",
        "at '/networkPolicy/metrics': additional properties 'port' not allowed",
    ),
    (
        "networkPolicy: {metrics: {to: []}}",
        "at '/networkPolicy/metrics': additional properties 'to' not allowed",
    ),
    (
        "networkPolicy: {dns: {from: []}}",
        "at '/networkPolicy/dns': additional properties 'from' not allowed",
    ),
    (
        "networkPolicy: {kubeAPIServer: {ports: 6443}}",
        "at '/networkPolicy/kubeAPIServer/ports'",
    ),
    (
        "networkPolicy: {registries: {to: [10.0.0.0/8]}}",
        "at '/networkPolicy/registries/to/0'",
    ),
    (
        "networkPolicy: {catalogs: {to: {}}}",
        "at '/networkPolicy/catalogs/to'",
    ),
    (
        "networkPolicy: {collector: {port: 1}}",
        "at '/networkPolicy/collector'",
    ),
    (
        "package: {env: [{name: A, value: x}, {name: A, value: z}]}",
        "package.env: A is there twice",
    ),
    (
        "olm: {volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}",
        "olm.volumes: a is there twice",
    ),
    ("catalog: {image: {ref: 'a b'}}", "at '/catalog/image/ref'"),
];
