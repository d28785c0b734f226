//! Controller runtime: stores, plan executor, conditions, events, admin server.
