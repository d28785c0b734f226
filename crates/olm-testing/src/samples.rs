//! Small sample catalogs.

/// Package `etcd` with one channel and two versions. It ends within the properties of the newer bundle, so that a test can add some.
pub const ETCD_CATALOG: &str = "
schema: olm.package
name: etcd
defaultChannel: stable
---
schema: olm.channel
package: etcd
name: stable
entries:
- name: etcd.v1.0.0
- name: etcd.v1.1.0
  replaces: etcd.v1.0.0
---
schema: olm.bundle
package: etcd
name: etcd.v1.0.0
image: registry.example.com/etcd:1
properties:
- {type: olm.package, value: {packageName: etcd, version: 1.0.0}}
---
schema: olm.bundle
package: etcd
name: etcd.v1.1.0
image: registry.example.com/etcd:2
properties:
- {type: olm.package, value: {packageName: etcd, version: 1.1.0}}
";
