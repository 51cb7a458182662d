//! What two or more sessions see: races, waits, snapshots of all ages, and backends that are killed.

mod doors;
mod event_bus;
mod inbox;
mod isolation;
mod jobs;
mod killed;
mod queue;
mod subscriptions;
mod sweeps;
mod ticks;
