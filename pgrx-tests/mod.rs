//! The tests that `cargo pgrx test` runs. One file a family for what one session sees; `sessions/` for what two or more
//! see; `statement.rs` for what the statement module promises; `docs.rs` and `surface.rs` hold the documents and the
//! catalog to each other.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod event_bus;
#[cfg(test)]
mod fingerprint;
#[cfg(test)]
pub mod harness;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod statement;
#[cfg(test)]
mod surface;
#[cfg(test)]
mod ticks;

#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    /// pgrx starts its server for a test that runs inside it; this is the one that it starts for.
    #[pg_test]
    fn the_server_is_up() {}
}
