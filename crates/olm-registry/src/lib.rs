//! Operator registry gRPC API: server, client, index, conversions.
