//! What a database lives through: adoption, dump and restore, upgrades, DROP and CREATE again, a standby and its promotion, the
//! sweeper, clocks that differ. Some of it on servers of the tests' own.

mod adopt;
mod clock;
mod drop;
mod dump;
mod everything;
mod standby;
mod sweeper;
mod upgrade;
