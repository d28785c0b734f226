//! Reads the objects of OLM v1, which a cluster need not have.

use std::fmt::Debug;

use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;
use kube::core::ClusterResourceScope;

use super::super::observed::Read;
use super::Reader;
use crate::reader::{is_unserved, list_cluster};

impl Reader<'_> {
    /// Returns all objects of a kind; `None` if there are none, the cluster does not have the kind, or a single namespace is read.
    pub(super) async fn of_v1<K>(&self, namespace: Option<&str>) -> Option<Read<Vec<K>>>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        if namespace.is_some() {
            return None;
        }
        let read = async {
            match list_cluster::<K>(self.client, "").await {
                Err(error) if is_unserved(&error) => Ok(Vec::new()),
                read => read,
            }
        };
        match self.within(read).await {
            Ok(found) if found.is_empty() => None,
            read => Some(read),
        }
    }
}
