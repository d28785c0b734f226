//! Pulling, reading and writing OCI images.
