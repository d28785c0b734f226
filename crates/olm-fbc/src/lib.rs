//! File-based catalogs: load, validate, channel graph, properties, versions.
