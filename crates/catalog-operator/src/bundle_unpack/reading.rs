//! Checks and packs bundles. A large one takes seconds, so this runs beside the thread of reconciles and
//! watches.

use olm_runtime::isolation::{Panicked, blocking};

use super::content::UnpackedBundle;
use super::error::UnpackError;
use super::packed::PackedBundle;
use super::preflight;

/// Checks that the result of `read` is the bundle `expected`, and packs it.
///
/// # Errors
/// When one of the three steps panics.
pub(crate) async fn pack_beside(
    expected: &str,
    read: impl FnOnce() -> Result<UnpackedBundle, UnpackError> + Send + 'static,
) -> Result<Result<PackedBundle, UnpackError>, Panicked> {
    let expected = expected.to_owned();
    let work = move || {
        let bundle = read()?;
        preflight::check(&bundle, &expected)?;
        PackedBundle::new(&bundle)
    };
    blocking(work).await
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::super::config_map::decode;
    use super::*;

    /// A first request that returned at once used to block everything else meanwhile.
    #[tokio::test]
    async fn a_large_bundle_keeps_nobody_waiting() {
        let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";
        let large = format!(
            "kind: ConfigMap\napiVersion: v1\nmetadata: {{name: x}}\ndata:\n{}",
            "  k: v\n"
        );
        let entries: serde_json::Map<String, serde_json::Value> = (0..2000)
            .map(|index| {
                (
                    format!("{index}.yaml"),
                    large.replace("name: x", &format!("name: x{index}")).into(),
                )
            })
            .chain([("csv.yaml".to_owned(), csv.into())])
            .collect();
        let config_map = json!({ "data": entries });
        let mut packing = Box::pin(pack_beside("a.v1", move || decode(&config_map)));
        assert!(packing.as_mut().now_or_never().is_none(), "it was read at once");
        let packed = packing.await.unwrap().unwrap();
        assert!(packed.bytes() > 2000 * 50);
    }
}
