//! The methods of the contract as any client calls them.

use olm_registry::client::{Client, Messages};
use olm_registry::proto;
use tonic::{IntoRequest, Status};

/// A client of a registry with the methods that [`Client`] itself does not have.
pub(crate) struct Registry(pub(crate) Client);

macro_rules! methods {
    ($($name:ident: $path:literal, $call:ident $question:ident -> $answer:ty;)*) => {
        impl Registry {$(
            pub(crate) async fn $name(
                &self,
                question: impl IntoRequest<proto::$question>,
            ) -> Result<$answer, Status> {
                self.0.$call($path, question.into_request()).await
            }
        )*}
    };
}

methods! {
    list_packages: "/api.Registry/ListPackages",
        stream ListPackageRequest -> Messages<proto::PackageName>;
    get_bundle_for_channel: "/api.Registry/GetBundleForChannel",
        ask GetBundleInChannelRequest -> proto::Bundle;
    get_channel_entries_that_replace: "/api.Registry/GetChannelEntriesThatReplace",
        stream GetAllReplacementsRequest -> Messages<proto::ChannelEntry>;
    get_bundle_that_replaces: "/api.Registry/GetBundleThatReplaces",
        ask GetReplacementRequest -> proto::Bundle;
    get_channel_entries_that_provide: "/api.Registry/GetChannelEntriesThatProvide",
        stream GetAllProvidersRequest -> Messages<proto::ChannelEntry>;
    get_latest_channel_entries_that_provide: "/api.Registry/GetLatestChannelEntriesThatProvide",
        stream GetLatestProvidersRequest -> Messages<proto::ChannelEntry>;
    get_default_bundle_that_provides: "/api.Registry/GetDefaultBundleThatProvides",
        ask GetDefaultProviderRequest -> proto::Bundle;
    experimental_list_package_custom_schemas:
        "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas",
        stream ExperimentalListPackageCustomSchemasRequest -> Messages<prost_types::Struct>;
}
