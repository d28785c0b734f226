//! Controllers of ClusterServiceVersion and OperatorGroup.

fn main() {}
