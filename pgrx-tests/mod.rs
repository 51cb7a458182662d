//! The tests that `cargo pgrx test` runs. One file a family for what one session sees; `sessions/` for what two or more
//! see; `statement.rs` for what the statement module promises; `docs.rs` and `surface.rs` hold the documents and the
//! catalog to each other.

mod checks;
mod docs;
mod doors;
mod event_bus;
mod fingerprint;
pub mod harness;
mod inbox;
mod jobs;
mod lifecycle;
mod queue;
mod security;
mod sessions;
mod statement;
mod subscriptions;
mod surface;
mod ticks;
mod watch;
