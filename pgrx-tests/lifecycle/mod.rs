//! What an operator goes through with a database, over servers of the tests' own.

mod sweeper;
