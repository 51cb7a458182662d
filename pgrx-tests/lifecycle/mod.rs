//! What happens to a database over its life, some of it on servers of the tests' own.

mod adopt;
mod sweeper;
