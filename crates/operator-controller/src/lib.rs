//! Controller of ClusterExtension.

pub mod render;
