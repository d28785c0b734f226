//! Controllers of CatalogSource, Subscription and InstallPlan.

fn main() {}
